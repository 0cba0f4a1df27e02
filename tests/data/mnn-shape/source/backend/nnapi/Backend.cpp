int nnapiBackend() { return 0; }
