// SPDX-License-Identifier: Apache-2.0
#include <MNN/expr/Module.hpp>
#include <algorithm>
#include "core/Session.hpp"
#include "module/NetModule.hpp"
#include "module/StaticModule.hpp"

namespace MNN {
namespace Express {
Module::~Module() = default;

Module* Module::load(const std::vector<std::string>& inputs, const std::vector<std::string>& outputs,
                     const char* fileName, const std::shared_ptr<RuntimeManager>& runtime) {
    auto net = Net::load(fileName, runtime->externalFile());
    if (net == nullptr) {
        return nullptr;
    }
    for (const auto& name : inputs) {
        if (std::find(net->inputs.begin(), net->inputs.end(), name) == net->inputs.end()) {
            MNN_ERROR("%s has no input %s\n", fileName, name.c_str());
            return nullptr;
        }
    }
    auto session = Session::create(net, runtime->runtime(), static_cast<const KVMeta*>(runtime->hintPtr()));
    if (session == nullptr) {
        return nullptr;
    }
    for (const auto& name : outputs) {
        if (session->tensor(name) == nullptr) {
            MNN_ERROR("%s has no output %s\n", fileName, name.c_str());
            return nullptr;
        }
    }
    return new NetModule(std::make_unique<StaticModule>(inputs, outputs, std::move(session)), runtime);
}

VARP Module::forward(const VARP& input) {
    auto outputs = onForward({input});
    return outputs.empty() ? nullptr : outputs[0];
}
} // namespace Express
} // namespace MNN
