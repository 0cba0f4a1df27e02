// SPDX-License-Identifier: Apache-2.0
#include "module/StaticModule.hpp"

namespace MNN {
namespace Express {
std::vector<VARP> StaticModule::onForward(const std::vector<VARP>& inputs) {
    if (inputs.size() != mInputs.size()) {
        MNN_ERROR("The module wants %d inputs, got %d\n", static_cast<int>(mInputs.size()),
                  static_cast<int>(inputs.size()));
        return {};
    }
    bool resized = false;
    for (size_t i = 0; i < inputs.size(); ++i) {
        Tensor* tensor = mSession->tensor(mInputs[i]);
        resized = resized || tensor->shape() != inputs[i]->getInfo();
        *tensor = inputs[i]->tensor();
    }
    if ((resized && mSession->resize() != NO_ERROR) || mSession->run() != NO_ERROR) {
        return {};
    }
    std::vector<VARP> outputs;
    for (const auto& name : mOutputs) {
        outputs.push_back(std::make_shared<Variable>(*mSession->tensor(name)));
    }
    return outputs;
}
} // namespace Express
} // namespace MNN
