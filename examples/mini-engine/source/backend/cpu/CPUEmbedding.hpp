// SPDX-License-Identifier: Apache-2.0
#ifndef MNN_CPUEMBEDDING_HPP
#define MNN_CPUEMBEDDING_HPP

#include "core/Execution.hpp"
#include "core/Net.hpp"

namespace MNN {
// output[t] = the weight's row number input[t], as floats.
class CPUEmbedding : public Execution {
public:
    explicit CPUEmbedding(const Weight& weight) : mWeight(weight) {}
    ErrorCode onResize(const std::vector<Tensor*>& inputs, const std::vector<Tensor*>& outputs) override;
    ErrorCode onExecute(const std::vector<Tensor*>& inputs, const std::vector<Tensor*>& outputs) override;

private:
    Weight mWeight;
};
} // namespace MNN

#endif
