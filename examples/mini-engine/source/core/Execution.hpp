// SPDX-License-Identifier: Apache-2.0
#ifndef MNN_EXECUTION_HPP
#define MNN_EXECUTION_HPP

#include <MNN/ErrorCode.hpp>
#include <MNN/Tensor.hpp>
#include <vector>

namespace MNN {
// One operation on one backend.
class Execution {
public:
    virtual ~Execution() = default;
    // Checks the inputs' shapes and resizes the outputs; before the first run and after each change.
    virtual ErrorCode onResize(const std::vector<Tensor*>& inputs, const std::vector<Tensor*>& outputs) = 0;
    virtual ErrorCode onExecute(const std::vector<Tensor*>& inputs, const std::vector<Tensor*>& outputs) = 0;
};
} // namespace MNN

#endif
