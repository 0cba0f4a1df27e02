// SPDX-License-Identifier: Apache-2.0
// Times the threaded int8 dot products that matrix products are made of.
#include <MNN/AutoTime.hpp>
#include <cstdlib>
#include <vector>
#include "backend/cpu/compute/CommonOptFunction.h"
#include "core/ThreadPool.hpp"

int main(int argc, const char* argv[]) {
    const int loops = argc > 1 ? std::atoi(argv[1]) : 10;
    const int threads = argc > 2 ? std::atoi(argv[2]) : 2;
    const int size = 512;
    if (loops < 1 || threads < 1) {
        MNN_PRINT("Usage: %s [loops] [threads]\n", argv[0]);
        return 1;
    }
    MNN::ThreadPool pool(threads);
    std::vector<int8_t> weights(static_cast<size_t>(size) * size, 3);
    std::vector<int8_t> input(size, 5);
    std::vector<int32_t> output(size);
    const MNN::Timer timer;
    for (int i = 0; i < loops; ++i) {
        pool.enqueue(threads, [&](int part) {
            for (int row = size * part / threads; row < size * (part + 1) / threads; ++row) {
                output[static_cast<size_t>(row)] =
                    MNN::MNNGetCoreFunctions().dotInt8(weights.data() + row * size, input.data(), size);
            }
        });
    }
    const double us = static_cast<double>(timer.durationInUs()) / loops;
    MNN_PRINT("int8 %dx%d, %d threads: %.3f ms, %.2f GOPS\n", size, size, threads, us / 1000,
              us > 0 ? 2.0 * size * size / us / 1000 : 0.0);
    return output[0] == 15 * size ? 0 : 1;
}
