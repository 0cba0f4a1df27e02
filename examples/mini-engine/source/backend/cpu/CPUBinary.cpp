// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/CPUBinary.hpp"
#include "backend/cpu/compute/CommonOptFunction.h"

namespace MNN {
ErrorCode CPUBinary::onResize(const std::vector<Tensor*>& inputs, const std::vector<Tensor*>& outputs) {
    if (inputs.size() != 2 || inputs[0]->shape() != inputs[1]->shape()) {
        return COMPUTE_SIZE_ERROR;
    }
    outputs[0]->setType(Tensor::FLOAT32);
    outputs[0]->resize(inputs[0]->shape());
    return NO_ERROR;
}

ErrorCode CPUBinary::onExecute(const std::vector<Tensor*>& inputs, const std::vector<Tensor*>& outputs) {
    const float* a = inputs[0]->host<float>();
    const float* b = inputs[1]->host<float>();
    float* dest = outputs[0]->host<float>();
    const size_t count = inputs[0]->elementSize();
    for (size_t i = 0; i < count; ++i) {
        dest[i] = mKind == ADD ? a[i] + b[i] : a[i] / (1.0f + MNNExp(-a[i])) * b[i];
    }
    return NO_ERROR;
}
} // namespace MNN
