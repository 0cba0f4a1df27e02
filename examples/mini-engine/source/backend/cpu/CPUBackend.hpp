// SPDX-License-Identifier: Apache-2.0
#ifndef MNN_CPUBACKEND_HPP
#define MNN_CPUBACKEND_HPP

#include "core/Backend.hpp"
#include "core/ThreadPool.hpp"

namespace MNN {
class CPURuntime : public Runtime {
public:
    explicit CPURuntime(const ScheduleConfig& config);
    MNNForwardType type() const override {
        return MNN_FORWARD_CPU;
    }
    std::unique_ptr<Backend> onCreate(const KVMeta* meta) override;

    ThreadPool& pool() {
        return mPool;
    }
    // Whether matrix products quantize their input to int8 on the fly.
    bool lowMemory() const {
        return mLowMemory;
    }

private:
    ThreadPool mPool;
    bool mLowMemory;
};

class CPUBackend : public Backend {
public:
    CPUBackend(CPURuntime* runtime, const KVMeta* meta) : mRuntime(runtime), mMeta(meta) {}
    std::unique_ptr<Execution> onCreate(const Op& op, const Net& net) override;

    CPURuntime* runtime() const {
        return mRuntime;
    }
    const KVMeta* meta() const {
        return mMeta;
    }

private:
    CPURuntime* mRuntime;
    const KVMeta* mMeta;
};
} // namespace MNN

#endif
