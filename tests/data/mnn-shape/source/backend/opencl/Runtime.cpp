int openclRuntime() { return 0; }
