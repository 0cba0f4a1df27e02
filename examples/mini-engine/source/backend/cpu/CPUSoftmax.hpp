// SPDX-License-Identifier: Apache-2.0
#ifndef MNN_CPUSOFTMAX_HPP
#define MNN_CPUSOFTMAX_HPP

#include "core/Execution.hpp"

namespace MNN {
// Softmax over the last dimension.
class CPUSoftmax : public Execution {
public:
    ErrorCode onResize(const std::vector<Tensor*>& inputs, const std::vector<Tensor*>& outputs) override;
    ErrorCode onExecute(const std::vector<Tensor*>& inputs, const std::vector<Tensor*>& outputs) override;
};
} // namespace MNN

#endif
