extern "C" int testOp() { return 7; }
