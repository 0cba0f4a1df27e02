// SPDX-License-Identifier: Apache-2.0
#ifndef MNN_MNNFORWARDTYPE_H
#define MNN_MNNFORWARDTYPE_H

// The numbers are MNN's: they appear in "Can't Find type=3 backend".
enum MNNForwardType {
    MNN_FORWARD_CPU = 0,
    MNN_FORWARD_OPENCL = 3,
    MNN_FORWARD_NN = 5,
    MNN_FORWARD_VULKAN = 7,
};

namespace MNN {
struct BackendConfig {
    enum MemoryMode { Memory_Normal = 0, Memory_High, Memory_Low };
    enum PrecisionMode { Precision_Normal = 0, Precision_High, Precision_Low };
    MemoryMode memory = Memory_Normal;
    PrecisionMode precision = Precision_Normal;
};

struct ScheduleConfig {
    MNNForwardType type = MNN_FORWARD_CPU;
    int numThread = 4;
    BackendConfig backendConfig;
};
} // namespace MNN

#endif
