// SPDX-License-Identifier: Apache-2.0
#include <MNN/Tensor.hpp>

namespace MNN {
Tensor::Tensor(DataType type, std::vector<int> shape) : mType(type) {
    resize(std::move(shape));
}

void Tensor::resize(std::vector<int> shape) {
    mShape = std::move(shape);
    mBuffer.resize(elementSize());
}

size_t Tensor::elementSize() const {
    size_t count = mShape.empty() ? 0 : 1;
    for (int length : mShape) {
        count *= static_cast<size_t>(length);
    }
    return count;
}
} // namespace MNN
