// SPDX-License-Identifier: Apache-2.0
// Every switch has a function of its own, which the compiler may neither inline nor see through.
#undef NDEBUG
#include "core/Crash.hpp"
#include <MNN/MNNDefine.h>
#include <cassert>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#define MNN_CRASH_SWITCH __attribute__((noinline))

namespace MNN {
namespace {
struct Kernel {
    explicit Kernel(int scale) : scale(scale) {}
    virtual ~Kernel() = default;
    virtual int run(int value) {
        return value * scale;
    }
    int scale;
    char cache[104] = {};
};

// Hides from the compiler where a pointer comes from.
template <typename T>
T* opaque(T* pointer) {
    __asm__ volatile("" : "+r"(pointer) : : "memory");
    return pointer;
}

MNN_CRASH_SWITCH int readWeight(const int* weights, int index) {
    return weights[index];
}

MNN_CRASH_SWITCH int crashByNullPointer() {
    return readWeight(opaque<int>(nullptr), 2);
}

MNN_CRASH_SWITCH int crashByStackOverflow(size_t count) {
    char window[64];
    // Writes past the end, over the guard that the compiler has put there.
    std::memset(opaque(window), 0x41, count);
    return opaque(window)[0];
}

MNN_CRASH_SWITCH int crashByAbort(int heads) {
    assert(heads % 2 == 0 && "the number of heads must be even");
    return heads;
}

MNN_CRASH_SWITCH int crashByException(const char* key) {
    throw std::out_of_range(std::string("no such tensor: ") + key);
}

MNN_CRASH_SWITCH int crashByUseAfterFree() {
    Kernel* kernel = opaque(new Kernel(3));
    Kernel* stale = opaque(kernel);
    delete kernel;
    // Taken by whoever allocates next: where the table of virtual functions was, its text is.
    char* reused = opaque(static_cast<char*>(std::malloc(sizeof(Kernel))));
    std::memset(reused, 0x42, sizeof(Kernel));
    return stale->run(7);
}

MNN_CRASH_SWITCH int crashByDeadlock() {
    static std::mutex first, second;
    const auto take = [](std::mutex& one, std::mutex& other) {
        std::lock_guard<std::mutex> lockOne(one);
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        std::lock_guard<std::mutex> lockOther(other);
    };
    std::thread worker([&] { take(second, first); });
    take(first, second);
    worker.join();
    return 0;
}

MNN_CRASH_SWITCH int crashByMemory() {
    const size_t block = 8u << 20;
    std::vector<char*> blocks;
    while (char* memory = static_cast<char*>(std::malloc(block))) {
        std::memset(memory, 1, block);
        blocks.push_back(opaque(memory));
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return static_cast<int>(blocks.size());
}

int crash(const char* kind) {
    if (std::strcmp(kind, "null") == 0) {
        return crashByNullPointer();
    }
    if (std::strcmp(kind, "overflow") == 0) {
        return crashByStackOverflow(256);
    }
    if (std::strcmp(kind, "abort") == 0) {
        return crashByAbort(3);
    }
    if (std::strcmp(kind, "throw") == 0) {
        return crashByException("attention.7");
    }
    if (std::strcmp(kind, "use-after-free") == 0) {
        return crashByUseAfterFree();
    }
    if (std::strcmp(kind, "deadlock") == 0) {
        return crashByDeadlock();
    }
    if (std::strcmp(kind, "oom") == 0) {
        return crashByMemory();
    }
    MNN_ERROR("MINI_ENGINE_CRASH=%s is not known\n", kind);
    return 0;
}
} // namespace

void crashIfAsked() {
    static const char* kind = std::getenv("MINI_ENGINE_CRASH");
    if (kind != nullptr) {
        const char* once = kind;
        kind = nullptr;
        static volatile int sink;
        sink = crash(once);
        (void)sink;
    }
}
} // namespace MNN
