// SPDX-License-Identifier: Apache-2.0
#ifndef MNN_EXPR_MODULE_HPP
#define MNN_EXPR_MODULE_HPP

#include <MNN/expr/Executor.hpp>
#include <MNN/expr/Expr.hpp>
#include <string>
#include <vector>

namespace MNN {
namespace Express {
// A graph that was loaded and can be run again and again.
class MNN_PUBLIC Module {
public:
    virtual ~Module();

    // Returns nullptr, after an error message, when the model or its weights cannot be used.
    static Module* load(const std::vector<std::string>& inputs, const std::vector<std::string>& outputs,
                        const char* fileName, const std::shared_ptr<RuntimeManager>& runtime);

    // An empty result means that an operation failed.
    virtual std::vector<VARP> onForward(const std::vector<VARP>& inputs) = 0;
    VARP forward(const VARP& input);
};
} // namespace Express
} // namespace MNN

#endif
