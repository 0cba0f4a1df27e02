// SPDX-License-Identifier: Apache-2.0
#ifndef MNN_EXPR_EXECUTOR_HPP
#define MNN_EXPR_EXECUTOR_HPP

#include <MNN/MNNForwardType.h>
#include <MNN/MNNDefine.h>
#include <memory>
#include <string>

namespace MNN {
class Runtime;
namespace Express {

// The runtime (backend, threads) that modules share, and hints for it.
class MNN_PUBLIC RuntimeManager {
public:
    static std::shared_ptr<RuntimeManager> createRuntimeManager(const ScheduleConfig& config);
    ~RuntimeManager();

    // The file that holds a model's weights.
    void setExternalFile(std::string path) {
        mExternalFile = std::move(path);
    }
    // How much of the KV cache is valid; owned by the caller.
    void setHintPtr(void* kvMeta) {
        mKVMeta = kvMeta;
    }
    const std::string& externalFile() const {
        return mExternalFile;
    }
    void* hintPtr() const {
        return mKVMeta;
    }
    const std::shared_ptr<Runtime>& runtime() const {
        return mRuntime;
    }

private:
    RuntimeManager() = default;
    std::shared_ptr<Runtime> mRuntime;
    std::string mExternalFile;
    void* mKVMeta = nullptr;
};
} // namespace Express
} // namespace MNN

#endif
