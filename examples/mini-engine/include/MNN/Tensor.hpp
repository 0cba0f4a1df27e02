// SPDX-License-Identifier: Apache-2.0
#ifndef MNN_TENSOR_HPP
#define MNN_TENSOR_HPP

#include <MNN/MNNDefine.h>
#include <cstddef>
#include <vector>

namespace MNN {
// Row-major numbers in host memory; every element has four bytes.
class MNN_PUBLIC Tensor {
public:
    enum DataType { FLOAT32, INT32 };

    explicit Tensor(DataType type = FLOAT32, std::vector<int> shape = {});

    void resize(std::vector<int> shape);
    const std::vector<int>& shape() const {
        return mShape;
    }
    int dimensions() const {
        return static_cast<int>(mShape.size());
    }
    int length(int dimension) const {
        return mShape[static_cast<size_t>(dimension)];
    }
    size_t elementSize() const;
    DataType type() const {
        return mType;
    }
    void setType(DataType type) {
        mType = type;
    }
    template <typename T>
    T* host() {
        static_assert(sizeof(T) == sizeof(float), "elements have four bytes");
        return reinterpret_cast<T*>(mBuffer.data());
    }
    template <typename T>
    const T* host() const {
        static_assert(sizeof(T) == sizeof(float), "elements have four bytes");
        return reinterpret_cast<const T*>(mBuffer.data());
    }

private:
    DataType mType;
    std::vector<int> mShape;
    std::vector<float> mBuffer;
};
} // namespace MNN

#endif
