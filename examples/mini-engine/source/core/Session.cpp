// SPDX-License-Identifier: Apache-2.0
#include "core/Session.hpp"

namespace MNN {
Session::Session(std::shared_ptr<Net> net, std::shared_ptr<Runtime> runtime)
    : mNet(std::move(net)), mRuntime(std::move(runtime)) {}

Session::~Session() = default;

std::unique_ptr<Session> Session::create(std::shared_ptr<Net> net, std::shared_ptr<Runtime> runtime,
                                         const KVMeta* meta) {
    std::unique_ptr<Session> session(new Session(std::move(net), std::move(runtime)));
    session->mBackend = session->mRuntime->onCreate(meta);
    for (const auto& name : session->mNet->inputs) {
        session->mTensors[name];
    }
    for (const auto& op : session->mNet->ops) {
        Pipeline::Unit unit{&op, {}, {}, session->mBackend->onCreate(op, *session->mNet)};
        if (unit.execution == nullptr) {
            MNN_ERROR("No backend can run %s (%s)\n", op.output.c_str(), op.type.c_str());
            return nullptr;
        }
        for (const auto& name : op.inputs) {
            Tensor* input = session->tensor(name);
            if (input == nullptr) {
                MNN_ERROR("%s wants %s, which nothing computes before it\n", op.output.c_str(), name.c_str());
                return nullptr;
            }
            unit.inputs.push_back(input);
        }
        unit.outputs.push_back(&session->mTensors[op.output]);
        session->mPipeline.append(std::move(unit));
    }
    return session;
}

Tensor* Session::tensor(const std::string& name) {
    const auto found = mTensors.find(name);
    return found == mTensors.end() ? nullptr : &found->second;
}

ErrorCode Session::resize() {
    return mPipeline.resize();
}

ErrorCode Session::run() {
    return mPipeline.execute();
}
} // namespace MNN
