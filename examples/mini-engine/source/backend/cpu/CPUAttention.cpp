// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/CPUAttention.hpp"
#include <algorithm>
#include <cmath>
#include "backend/cpu/compute/CommonOptFunction.h"

namespace MNN {
ErrorCode CPUAttention::onResize(const std::vector<Tensor*>& inputs, const std::vector<Tensor*>& outputs) {
    if (inputs.size() != 3 || inputs[0]->dimensions() != 2 || mHeads < 1 || inputs[0]->length(1) % mHeads != 0) {
        return COMPUTE_SIZE_ERROR;
    }
    mWidth = inputs[0]->length(1);
    outputs[0]->setType(Tensor::FLOAT32);
    outputs[0]->resize(inputs[0]->shape());
    return NO_ERROR;
}

ErrorCode CPUAttention::onExecute(const std::vector<Tensor*>& inputs, const std::vector<Tensor*>& outputs) {
    const int tokens = inputs[0]->length(0);
    const int previous = mBackend->meta()->previous;
    const size_t kept = static_cast<size_t>(previous) * static_cast<size_t>(mWidth);
    const size_t added = static_cast<size_t>(tokens) * static_cast<size_t>(mWidth);
    if (kept > mKeys.size()) {
        return INVALID_VALUE;
    }
    mKeys.resize(kept);
    mValues.resize(kept);
    mKeys.insert(mKeys.end(), inputs[1]->host<float>(), inputs[1]->host<float>() + added);
    mValues.insert(mValues.end(), inputs[2]->host<float>(), inputs[2]->host<float>() + added);
    mBackend->runtime()->pool().enqueue(mHeads, [&](int head) {
        attend(head, inputs[0]->host<float>(), outputs[0]->host<float>(), tokens, previous);
    });
    return NO_ERROR;
}

void CPUAttention::attend(int head, const float* query, float* output, int tokens, int previous) const {
    const int size = mWidth / mHeads;
    const int offset = head * size;
    const float scale = 1.0f / std::sqrt(static_cast<float>(size));
    const float slope = 1.0f / static_cast<float>(1 << (2 * head + 1));
    std::vector<float> scores;
    for (int token = 0; token < tokens; ++token) {
        const int visible = previous + token + 1;
        const float* q = query + token * mWidth + offset;
        scores.resize(static_cast<size_t>(visible));
        for (int key = 0; key < visible; ++key) {
            const float* k = mKeys.data() + key * mWidth + offset;
            float sum = 0.0f;
            for (int i = 0; i < size; ++i) {
                sum += q[i] * k[i];
            }
            scores[static_cast<size_t>(key)] = sum * scale - slope * static_cast<float>(visible - 1 - key);
        }
        MNNSoftmax(scores.data(), scores.data(), scores.size());
        float* dest = output + token * mWidth + offset;
        std::fill(dest, dest + size, 0.0f);
        for (int key = 0; key < visible; ++key) {
            const float* v = mValues.data() + key * mWidth + offset;
            for (int i = 0; i < size; ++i) {
                dest[i] += scores[static_cast<size_t>(key)] * v[i];
            }
        }
    }
}
} // namespace MNN
