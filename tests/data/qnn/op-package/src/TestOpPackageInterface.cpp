extern "C" unsigned long testOpPackageInterfaceProvider(void* interface) { return interface ? 0 : 1; }
