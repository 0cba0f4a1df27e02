// SPDX-License-Identifier: Apache-2.0
#ifndef MNN_EXPR_EXPR_HPP
#define MNN_EXPR_EXPR_HPP

#include <MNN/Tensor.hpp>
#include <memory>
#include <vector>

namespace MNN {
namespace Express {
class Variable;
using VARP = std::shared_ptr<Variable>;

// A value that travels between modules.
class MNN_PUBLIC Variable {
public:
    explicit Variable(Tensor tensor) : mTensor(std::move(tensor)) {}

    const std::vector<int>& getInfo() const {
        return mTensor.shape();
    }
    Tensor& tensor() {
        return mTensor;
    }
    template <typename T>
    const T* readMap() const {
        return mTensor.host<T>();
    }
    template <typename T>
    T* writeMap() {
        return mTensor.host<T>();
    }

private:
    Tensor mTensor;
};

// An input variable of the given shape, to be filled through writeMap().
MNN_PUBLIC VARP _Input(const std::vector<int>& shape, Tensor::DataType type);
// Probabilities of the last row of `logits`, computed by the CPU's softmax kernel.
MNN_PUBLIC VARP _Softmax(const VARP& logits);
} // namespace Express
} // namespace MNN

#endif
