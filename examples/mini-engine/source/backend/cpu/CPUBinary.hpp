// SPDX-License-Identifier: Apache-2.0
#ifndef MNN_CPUBINARY_HPP
#define MNN_CPUBINARY_HPP

#include "core/Execution.hpp"

namespace MNN {
// a + b, or silu(a) * b (the gate of a feed-forward block), element by element.
class CPUBinary : public Execution {
public:
    enum Kind { ADD, SILU_MUL };
    explicit CPUBinary(Kind kind) : mKind(kind) {}
    ErrorCode onResize(const std::vector<Tensor*>& inputs, const std::vector<Tensor*>& outputs) override;
    ErrorCode onExecute(const std::vector<Tensor*>& inputs, const std::vector<Tensor*>& outputs) override;

private:
    Kind mKind;
};
} // namespace MNN

#endif
