// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/CPUMatMul.hpp"
#include <algorithm>
#include "backend/cpu/compute/CommonOptFunction.h"

namespace MNN {
CPUMatMul::CPUMatMul(CPUBackend* backend, const Weight& weight, bool lastOnly)
    : mBackend(backend), mWeight(weight), mLastOnly(lastOnly) {}

ErrorCode CPUMatMul::onResize(const std::vector<Tensor*>& inputs, const std::vector<Tensor*>& outputs) {
    const Tensor* input = inputs[0];
    if (input->dimensions() != 2 || input->length(1) != mWeight.cols || input->length(0) < 1) {
        return COMPUTE_SIZE_ERROR;
    }
    const int tokens = mLastOnly ? 1 : input->length(0);
    outputs[0]->setType(Tensor::FLOAT32);
    outputs[0]->resize({tokens, mWeight.rows});
    mQuantized.resize(static_cast<size_t>(tokens) * static_cast<size_t>(mWeight.cols));
    mScales.resize(static_cast<size_t>(tokens));
    return NO_ERROR;
}

ErrorCode CPUMatMul::onExecute(const std::vector<Tensor*>& inputs, const std::vector<Tensor*>& outputs) {
    const int rows = mWeight.rows;
    const int cols = mWeight.cols;
    const int threads = std::min(mBackend->runtime()->pool().size(), rows);
    const int tokens = outputs[0]->length(0);
    const bool int8 = mBackend->runtime()->lowMemory();
    const float* input = inputs[0]->host<float>() + (inputs[0]->length(0) - tokens) * cols;
    float* output = outputs[0]->host<float>(); // devkit demo: breakpoint

    for (int token = 0; int8 && token < tokens; ++token) {
        mScales[static_cast<size_t>(token)] =
            MNNQuantize(mQuantized.data() + token * cols, input + token * cols, static_cast<size_t>(cols));
    }
    mBackend->runtime()->pool().enqueue(threads, [&](int part) {
        const int firstRow = rows * part / threads;
        const int endRow = rows * (part + 1) / threads;
        for (int token = 0; token < tokens; ++token) {
            if (int8) {
                multiplyInt8(output + token * rows, token, firstRow, endRow);
            } else {
                multiplyFloat(output + token * rows, input + token * cols, firstRow, endRow);
            }
        }
    });
    return NO_ERROR;
}

void CPUMatMul::multiplyInt8(float* output, int token, int firstRow, int endRow) const {
    const auto dot = MNNGetCoreFunctions().dotInt8;
    const size_t cols = static_cast<size_t>(mWeight.cols);
    const int8_t* activations = mQuantized.data() + static_cast<size_t>(token) * cols;
    const float scale = mScales[static_cast<size_t>(token)];
    for (int row = firstRow; row < endRow; ++row) {
        const int32_t sum = dot(activations, mWeight.quantized + static_cast<size_t>(row) * cols, cols);
        output[row] = static_cast<float>(sum) * (scale * mWeight.scales[row]);
    }
}

void CPUMatMul::multiplyFloat(float* output, const float* input, int firstRow, int endRow) const {
    const auto dot = MNNGetCoreFunctions().dotFloat;
    const size_t cols = static_cast<size_t>(mWeight.cols);
    for (int row = firstRow; row < endRow; ++row) {
        output[row] = dot(input, mWeight.quantized + static_cast<size_t>(row) * cols, cols) * mWeight.scales[row];
    }
}
} // namespace MNN
