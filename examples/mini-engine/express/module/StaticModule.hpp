// SPDX-License-Identifier: Apache-2.0
#ifndef MNN_STATICMODULE_HPP
#define MNN_STATICMODULE_HPP

#include <MNN/expr/Module.hpp>
#include "core/Session.hpp"

namespace MNN {
namespace Express {
// A graph without control flow, run by one session.
class StaticModule : public Module {
public:
    StaticModule(std::vector<std::string> inputs, std::vector<std::string> outputs, std::unique_ptr<Session> session)
        : mInputs(std::move(inputs)), mOutputs(std::move(outputs)), mSession(std::move(session)) {}
    std::vector<VARP> onForward(const std::vector<VARP>& inputs) override;

private:
    std::vector<std::string> mInputs;
    std::vector<std::string> mOutputs;
    std::unique_ptr<Session> mSession;
};
} // namespace Express
} // namespace MNN

#endif
