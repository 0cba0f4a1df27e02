// SPDX-License-Identifier: Apache-2.0
// The one file compiled for ARMv8.2 with dot product; called only where the CPU has it.
#include <arm_neon.h>
#include <cstddef>
#include <cstdint>

namespace MNN {
int32_t ARM82DotInt8(const int8_t* a, const int8_t* b, size_t count);

int32_t ARM82DotInt8(const int8_t* a, const int8_t* b, size_t count) {
    int32x4_t sums = vdupq_n_s32(0);
    size_t i = 0;
    for (; i + 16 <= count; i += 16) {
        sums = vdotq_s32(sums, vld1q_s8(a + i), vld1q_s8(b + i));
    }
    int32_t sum = vaddvq_s32(sums);
    for (; i < count; ++i) {
        sum += static_cast<int32_t>(a[i]) * b[i];
    }
    return sum;
}
} // namespace MNN
