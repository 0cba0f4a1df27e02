// SPDX-License-Identifier: Apache-2.0
#ifndef MNN_CPUMATMUL_HPP
#define MNN_CPUMATMUL_HPP

#include "backend/cpu/CPUBackend.hpp"

namespace MNN {
// output[t][r] = input[t] · weight[r]: int8 weights with one scale a row.
class CPUMatMul : public Execution {
public:
    // lastOnly: only the last row of the input is multiplied (the logits of the next token).
    CPUMatMul(CPUBackend* backend, const Weight& weight, bool lastOnly);
    ErrorCode onResize(const std::vector<Tensor*>& inputs, const std::vector<Tensor*>& outputs) override;
    ErrorCode onExecute(const std::vector<Tensor*>& inputs, const std::vector<Tensor*>& outputs) override;

private:
    void multiplyInt8(float* output, int token, int firstRow, int endRow) const;
    void multiplyFloat(float* output, const float* input, int firstRow, int endRow) const;

    CPUBackend* mBackend;
    Weight mWeight;
    bool mLastOnly;
    std::vector<int8_t> mQuantized;
    std::vector<float> mScales;
};
} // namespace MNN

#endif
