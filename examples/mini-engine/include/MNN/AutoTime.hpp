// SPDX-License-Identifier: Apache-2.0
#ifndef MNN_AUTOTIME_HPP
#define MNN_AUTOTIME_HPP

#include <MNN/MNNDefine.h>
#include <chrono>

namespace MNN {
// A stopwatch; durations are in microseconds.
class Timer {
public:
    Timer() : mStart(std::chrono::steady_clock::now()) {}
    long long durationInUs() const {
        return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - mStart)
            .count();
    }

private:
    std::chrono::steady_clock::time_point mStart;
};

// Prints "function, line, cost time: 1.234000 ms" when the scope ends.
class AutoTime {
public:
    AutoTime(int line, const char* function) : mLine(line), mFunction(function) {}
    ~AutoTime() {
        MNN_PRINT("%s, %d, cost time: %f ms\n", mFunction, mLine, static_cast<float>(mTimer.durationInUs()) / 1000.0f);
    }
    AutoTime(const AutoTime&) = delete;
    AutoTime& operator=(const AutoTime&) = delete;

private:
    int mLine;
    const char* mFunction;
    Timer mTimer;
};
} // namespace MNN

#define AUTOTIME ::MNN::AutoTime mnnAutoTime(__LINE__, __func__)

#endif
