// SPDX-License-Identifier: Apache-2.0
#ifndef MNN_PIPELINE_HPP
#define MNN_PIPELINE_HPP

#include <memory>
#include <string>
#include <vector>
#include "core/Backend.hpp"

namespace MNN {
// The operations of a session in running order, bound to their tensors.
class Pipeline {
public:
    struct Unit {
        const Op* op;
        std::vector<Tensor*> inputs;
        std::vector<Tensor*> outputs;
        std::unique_ptr<Execution> execution;
    };

    void append(Unit unit) {
        mUnits.push_back(std::move(unit));
    }
    ErrorCode resize();
    ErrorCode execute();

private:
    std::vector<Unit> mUnits;
};
} // namespace MNN

#endif
