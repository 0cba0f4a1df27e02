// SPDX-License-Identifier: Apache-2.0
#ifndef MNN_CPUATTENTION_HPP
#define MNN_CPUATTENTION_HPP

#include "backend/cpu/CPUBackend.hpp"

namespace MNN {
// Causal attention of several heads with a KV cache. Distance lowers a score (ALiBi), which needs
// no sine and cosine and so keeps results equal on every C library.
class CPUAttention : public Execution {
public:
    CPUAttention(CPUBackend* backend, int heads) : mBackend(backend), mHeads(heads) {}
    ErrorCode onResize(const std::vector<Tensor*>& inputs, const std::vector<Tensor*>& outputs) override;
    ErrorCode onExecute(const std::vector<Tensor*>& inputs, const std::vector<Tensor*>& outputs) override;

private:
    void attend(int head, const float* query, float* output, int tokens, int previous) const;

    CPUBackend* mBackend;
    int mHeads;
    int mWidth = 0;
    std::vector<float> mKeys;   // [token][width]
    std::vector<float> mValues; // [token][width]
};
} // namespace MNN

#endif
