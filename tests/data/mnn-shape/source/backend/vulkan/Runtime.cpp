int vulkanRuntime() { return 0; }
