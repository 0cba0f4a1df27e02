// SPDX-License-Identifier: Apache-2.0
// The arithmetic below the CPU backend. Only + - * / and sqrt, which IEEE 754 fixes to the last
// bit: libm's exp differs between C libraries, and a generated text must not.
#ifndef MNN_COMMONOPTFUNCTION_H
#define MNN_COMMONOPTFUNCTION_H

#include <MNN/MNNDefine.h>
#include <cstddef>
#include <cstdint>

namespace MNN {
struct CoreFunctions {
    int32_t (*dotInt8)(const int8_t* a, const int8_t* b, size_t count);
    float (*dotFloat)(const float* a, const int8_t* b, size_t count);
};

// CPU features, read once.
struct CPUInfo {
    bool dot = false, fp16a = false, i8mm = false, sve2 = false, sme2 = false;
};

MNN_PUBLIC const CPUInfo& MNNGetCPUInfo();
MNN_PUBLIC const CoreFunctions& MNNGetCoreFunctions();

MNN_PUBLIC float MNNExp(float x);
// dest may be source.
MNN_PUBLIC void MNNSoftmax(float* dest, const float* source, size_t size);
// Writes round(source / scale) and returns the scale, chosen so that the largest value becomes ±127.
MNN_PUBLIC float MNNQuantize(int8_t* dest, const float* source, size_t size);
} // namespace MNN

#endif
