// SPDX-License-Identifier: Apache-2.0
#ifndef MNN_SESSION_HPP
#define MNN_SESSION_HPP

#include <map>
#include <memory>
#include <string>
#include "core/Pipeline.hpp"

namespace MNN {
// A net on a runtime: its tensors and its pipeline.
class MNN_PUBLIC Session {
public:
    // Returns nullptr, after an error message, when no backend can run one of the net's ops.
    static std::unique_ptr<Session> create(std::shared_ptr<Net> net, std::shared_ptr<Runtime> runtime,
                                           const KVMeta* meta);
    ~Session();
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;

    // nullptr when the net has no tensor of that name.
    Tensor* tensor(const std::string& name);
    ErrorCode resize();
    ErrorCode run();

private:
    Session(std::shared_ptr<Net> net, std::shared_ptr<Runtime> runtime);

    std::shared_ptr<Net> mNet;
    std::shared_ptr<Runtime> mRuntime;
    std::unique_ptr<Backend> mBackend;
    std::map<std::string, Tensor> mTensors;
    Pipeline mPipeline;
};
} // namespace MNN

#endif
