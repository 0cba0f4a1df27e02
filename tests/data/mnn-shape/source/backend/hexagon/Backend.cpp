int hexagonBackend() { return 0; }
