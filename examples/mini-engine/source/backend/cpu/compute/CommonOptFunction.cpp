// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/compute/CommonOptFunction.h"
#include <algorithm>
#include <cmath>
#include <cstring>

namespace MNN {
#ifdef MNN_USE_ARM82
int32_t ARM82DotInt8(const int8_t* a, const int8_t* b, size_t count);
#endif

namespace {
int32_t dotInt8(const int8_t* a, const int8_t* b, size_t count) {
    int32_t sum = 0;
    for (size_t i = 0; i < count; ++i) {
        sum += static_cast<int32_t>(a[i]) * b[i];
    }
    return sum;
}

float dotFloat(const float* a, const int8_t* b, size_t count) {
    float sum = 0.0f;
    for (size_t i = 0; i < count; ++i) {
        sum += a[i] * static_cast<float>(b[i]);
    }
    return sum;
}
} // namespace

const CoreFunctions& MNNGetCoreFunctions() {
    static const CoreFunctions functions = [] {
        CoreFunctions chosen{dotInt8, dotFloat};
#ifdef MNN_USE_ARM82
        if (MNNGetCPUInfo().dot) {
            chosen.dotInt8 = ARM82DotInt8;
        }
#endif
        return chosen;
    }();
    return functions;
}

float MNNExp(float x) {
    x = std::min(std::max(x, -87.0f), 88.0f);
    // e^x = 2^n * e^r with |r| <= ln(2) / 2; e^r by its Taylor series.
    const int n = static_cast<int>(x * 1.44269504f + (x < 0 ? -0.5f : 0.5f));
    const float r = x - static_cast<float>(n) * 0.693147181f;
    const float power =
        1.0f + r * (1.0f + r * (1.0f / 2 + r * (1.0f / 6 + r * (1.0f / 24 + r * (1.0f / 120 + r * (1.0f / 720))))));
    const uint32_t bits = static_cast<uint32_t>(n + 127) << 23;
    float scale;
    std::memcpy(&scale, &bits, sizeof(scale));
    return power * scale;
}

void MNNSoftmax(float* dest, const float* source, size_t size) {
    float largest = source[0];
    for (size_t i = 1; i < size; ++i) {
        largest = std::max(largest, source[i]);
    }
    float sum = 0.0f;
    for (size_t i = 0; i < size; ++i) {
        dest[i] = MNNExp(source[i] - largest);
        sum += dest[i];
    }
    for (size_t i = 0; i < size; ++i) {
        dest[i] = dest[i] / sum;
    }
}

float MNNQuantize(int8_t* dest, const float* source, size_t size) {
    float largest = 0.0f;
    for (size_t i = 0; i < size; ++i) {
        largest = std::max(largest, std::fabs(source[i]));
    }
    const float scale = largest == 0.0f ? 1.0f : largest / 127.0f;
    for (size_t i = 0; i < size; ++i) {
        const float value = source[i] / scale;
        dest[i] = static_cast<int8_t>(value + (value < 0 ? -0.5f : 0.5f));
    }
    return scale;
}
} // namespace MNN
