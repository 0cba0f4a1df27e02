// SPDX-License-Identifier: Apache-2.0
// One loop of the same steps each; only how often it runs differs.
#include "core/Hot.hpp"
#include <cstdint>
#include <cstdlib>
#include <ctime>

#define MNN_HOT_FUNCTION __attribute__((noinline))

namespace MNN {
namespace {
enum { MATMUL = 60, SOFTMAX = 30, NORM = 10, SHORTEST = 1000, SPREAD = 6000 };

uint32_t gState = 1;

MNN_HOT_FUNCTION void hotMatMul(int rounds) {
    for (int i = 0; i < MATMUL * rounds; i++) {
        gState = gState * 1664525u + 1013904223u; // 60 %
    }
}

MNN_HOT_FUNCTION void hotSoftmax(int rounds) {
    for (int i = 0; i < SOFTMAX * rounds; i++) {
        gState = gState * 1664525u + 1013904223u; // 30 %
    }
}

MNN_HOT_FUNCTION void hotNorm(int rounds) {
    for (int i = 0; i < NORM * rounds; i++) {
        gState = gState * 1664525u + 1013904223u; // 10 %
    }
}

MNN_HOT_FUNCTION void heat(double seconds) {
    const clock_t end = clock() + static_cast<clock_t>(seconds * CLOCKS_PER_SEC);
    while (clock() < end) {
        // Of changing length: with a steady beat, samples would always find the same function.
        const int rounds = SHORTEST + static_cast<int>((gState >> 16) % SPREAD);
        hotMatMul(rounds);
        hotSoftmax(rounds);
        hotNorm(rounds);
    }
}
} // namespace

void heatIfAsked() {
    static const char* seconds = std::getenv("MINI_ENGINE_HOT");
    if (seconds != nullptr) {
        const char* once = seconds;
        seconds = nullptr;
        heat(std::atof(once));
    }
}
} // namespace MNN
