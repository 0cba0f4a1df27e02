// SPDX-License-Identifier: Apache-2.0
#include "core/Pipeline.hpp"
#include "core/Crash.hpp"
#include "core/Hot.hpp"

namespace MNN {
ErrorCode Pipeline::resize() {
    for (auto& unit : mUnits) {
        const ErrorCode code = unit.execution->onResize(unit.inputs, unit.outputs);
        if (code != NO_ERROR) {
            MNN_ERROR("Resize error for %s (%s), code=%d\n", unit.op->output.c_str(), unit.op->type.c_str(), code);
            return code;
        }
    }
    return NO_ERROR;
}

ErrorCode Pipeline::execute() {
    crashIfAsked();
    heatIfAsked();
    for (auto& unit : mUnits) {
        const ErrorCode code = unit.execution->onExecute(unit.inputs, unit.outputs);
        if (code != NO_ERROR) {
            MNN_ERROR("Execute error for %s (%s), code=%d\n", unit.op->output.c_str(), unit.op->type.c_str(), code);
            return code;
        }
    }
    return NO_ERROR;
}
} // namespace MNN
