int exprOf(int x) { return x + 1; }
