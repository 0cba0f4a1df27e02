// SPDX-License-Identifier: Apache-2.0
// A backend that registers itself as MNN's does and then tells the truth: this engine has no
// device code, so the caller falls back to the CPU.
#include "core/Backend.hpp"

namespace MNN {
namespace {
class OpenCLRuntimeCreator : public RuntimeCreator {
public:
    std::shared_ptr<Runtime> onCreate(const ScheduleConfig&) const override {
        MNN_PRINT("OpenCL: this example engine has no device code\n");
        return nullptr;
    }
};
} // namespace

void registerOpenCLRuntimeCreator();
void registerOpenCLRuntimeCreator() {
    static const OpenCLRuntimeCreator creator;
    MNNInsertExtraRuntimeCreator(MNN_FORWARD_OPENCL, &creator);
}

#ifndef MNN_OPENCL_BUILTIN
namespace {
const bool gRegistered = (registerOpenCLRuntimeCreator(), true);
} // namespace
#endif
} // namespace MNN
