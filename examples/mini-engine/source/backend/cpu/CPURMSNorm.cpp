// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/CPURMSNorm.hpp"
#include <cmath>

namespace MNN {
ErrorCode CPURMSNorm::onResize(const std::vector<Tensor*>& inputs, const std::vector<Tensor*>& outputs) {
    if (inputs[0]->dimensions() != 2 || inputs[0]->length(1) != mWeight.cols) {
        return COMPUTE_SIZE_ERROR;
    }
    outputs[0]->setType(Tensor::FLOAT32);
    outputs[0]->resize(inputs[0]->shape());
    return NO_ERROR;
}

ErrorCode CPURMSNorm::onExecute(const std::vector<Tensor*>& inputs, const std::vector<Tensor*>& outputs) {
    const int width = inputs[0]->length(1);
    for (int row = 0; row < inputs[0]->length(0); ++row) {
        const float* source = inputs[0]->host<float>() + row * width;
        float* dest = outputs[0]->host<float>() + row * width;
        float squares = 0.0f;
        for (int col = 0; col < width; ++col) {
            squares += source[col] * source[col];
        }
        const float factor = 1.0f / std::sqrt(squares / static_cast<float>(width) + mEpsilon);
        for (int col = 0; col < width; ++col) {
            dest[col] = source[col] * factor * mWeight.floats[col];
        }
    }
    return NO_ERROR;
}
} // namespace MNN
