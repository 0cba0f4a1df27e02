// SPDX-License-Identifier: Apache-2.0
#ifndef MNN_NETMODULE_HPP
#define MNN_NETMODULE_HPP

#include <MNN/expr/Module.hpp>

namespace MNN {
namespace Express {
// What Module::load returns: keeps the runtime alive as long as the graph that runs on it.
class NetModule : public Module {
public:
    NetModule(std::unique_ptr<Module> child, std::shared_ptr<RuntimeManager> runtime)
        : mRuntime(std::move(runtime)), mChild(std::move(child)) {}
    std::vector<VARP> onForward(const std::vector<VARP>& inputs) override;

private:
    std::shared_ptr<RuntimeManager> mRuntime;
    std::unique_ptr<Module> mChild;
};
} // namespace Express
} // namespace MNN

#endif
