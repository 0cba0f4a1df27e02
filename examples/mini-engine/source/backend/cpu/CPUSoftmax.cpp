// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/CPUSoftmax.hpp"
#include "backend/cpu/compute/CommonOptFunction.h"

namespace MNN {
ErrorCode CPUSoftmax::onResize(const std::vector<Tensor*>& inputs, const std::vector<Tensor*>& outputs) {
    if (inputs[0]->dimensions() != 2 || inputs[0]->length(1) < 1) {
        return COMPUTE_SIZE_ERROR;
    }
    outputs[0]->setType(Tensor::FLOAT32);
    outputs[0]->resize(inputs[0]->shape());
    return NO_ERROR;
}

ErrorCode CPUSoftmax::onExecute(const std::vector<Tensor*>& inputs, const std::vector<Tensor*>& outputs) {
    const int width = inputs[0]->length(1);
    for (int row = 0; row < inputs[0]->length(0); ++row) {
        MNNSoftmax(outputs[0]->host<float>() + row * width, inputs[0]->host<float>() + row * width,
                   static_cast<size_t>(width));
    }
    return NO_ERROR;
}
} // namespace MNN
