// SPDX-License-Identifier: Apache-2.0
#ifndef MNN_CPURMSNORM_HPP
#define MNN_CPURMSNORM_HPP

#include "core/Execution.hpp"
#include "core/Net.hpp"

namespace MNN {
// Each row divided by its root mean square, then scaled by the weight.
class CPURMSNorm : public Execution {
public:
    CPURMSNorm(const Weight& weight, float epsilon) : mWeight(weight), mEpsilon(epsilon) {}
    ErrorCode onResize(const std::vector<Tensor*>& inputs, const std::vector<Tensor*>& outputs) override;
    ErrorCode onExecute(const std::vector<Tensor*>& inputs, const std::vector<Tensor*>& outputs) override;

private:
    Weight mWeight;
    float mEpsilon;
};
} // namespace MNN

#endif
