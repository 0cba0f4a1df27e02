#include <MNN/Engine.hpp>
#include <cstdio>
#include <cstring>

int main(int argc, char** argv) {
    std::printf("backends: %s, %d threads\n", MNN::backends(), MNN::cpuThreads(4));
    if (argc > 1 && std::strcmp(argv[1], "overflow") == 0) {
        int* data = new int[4];
        volatile int index = 4;
        std::printf("%d\n", data[index]); // for AddressSanitizer
        delete[] data;
    }
    return 0;
}
