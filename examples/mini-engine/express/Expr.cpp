// SPDX-License-Identifier: Apache-2.0
#include <MNN/expr/Expr.hpp>
#include "backend/cpu/compute/CommonOptFunction.h"

namespace MNN {
namespace Express {
VARP _Input(const std::vector<int>& shape, Tensor::DataType type) {
    return std::make_shared<Variable>(Tensor(type, shape));
}

VARP _Softmax(const VARP& logits) {
    const int width = logits->getInfo().back();
    const size_t last = logits->tensor().elementSize() - static_cast<size_t>(width);
    VARP result = _Input({1, width}, Tensor::FLOAT32);
    MNNSoftmax(result->writeMap<float>(), logits->readMap<float>() + last, static_cast<size_t>(width));
    return result;
}
} // namespace Express
} // namespace MNN
