// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/CPUEmbedding.hpp"

namespace MNN {
ErrorCode CPUEmbedding::onResize(const std::vector<Tensor*>& inputs, const std::vector<Tensor*>& outputs) {
    if (inputs[0]->dimensions() != 1 || inputs[0]->type() != Tensor::INT32) {
        return COMPUTE_SIZE_ERROR;
    }
    outputs[0]->setType(Tensor::FLOAT32);
    outputs[0]->resize({inputs[0]->length(0), mWeight.cols});
    return NO_ERROR;
}

ErrorCode CPUEmbedding::onExecute(const std::vector<Tensor*>& inputs, const std::vector<Tensor*>& outputs) {
    const int* ids = inputs[0]->host<int>();
    float* output = outputs[0]->host<float>();
    for (int token = 0; token < inputs[0]->length(0); ++token) {
        const int id = ids[token];
        if (id < 0 || id >= mWeight.rows) {
            return INVALID_VALUE;
        }
        const int8_t* row = mWeight.quantized + static_cast<size_t>(id) * static_cast<size_t>(mWeight.cols);
        for (int col = 0; col < mWeight.cols; ++col) {
            *output++ = static_cast<float>(row[col]) * mWeight.scales[id];
        }
    }
    return NO_ERROR;
}
} // namespace MNN
