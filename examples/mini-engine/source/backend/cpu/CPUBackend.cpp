// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/CPUBackend.hpp"
#include "backend/cpu/CPUAttention.hpp"
#include "backend/cpu/CPUBinary.hpp"
#include "backend/cpu/CPUEmbedding.hpp"
#include "backend/cpu/CPUMatMul.hpp"
#include "backend/cpu/CPURMSNorm.hpp"
#include "backend/cpu/CPUSoftmax.hpp"
#include "backend/cpu/compute/CommonOptFunction.h"

namespace MNN {
namespace {
class CPURuntimeCreator : public RuntimeCreator {
public:
    std::shared_ptr<Runtime> onCreate(const ScheduleConfig& config) const override {
        MNNGetCPUInfo();
        return std::make_shared<CPURuntime>(config);
    }
};
} // namespace

void registerCPURuntimeCreator();
void registerCPURuntimeCreator() {
    static const CPURuntimeCreator creator;
    MNNInsertExtraRuntimeCreator(MNN_FORWARD_CPU, &creator);
}

CPURuntime::CPURuntime(const ScheduleConfig& config) : mPool(config.numThread), mLowMemory(false) {
#ifdef MNN_LOW_MEMORY
    mLowMemory = config.backendConfig.memory == BackendConfig::Memory_Low;
#endif
}

std::unique_ptr<Backend> CPURuntime::onCreate(const KVMeta* meta) {
    return std::make_unique<CPUBackend>(this, meta);
}

std::unique_ptr<Execution> CPUBackend::onCreate(const Op& op, const Net& net) {
    const Weight* weight = net.weight(op);
    if (op.type == "Embedding" && weight != nullptr && weight->quantized != nullptr) {
        return std::make_unique<CPUEmbedding>(*weight);
    }
    if (op.type == "MatMul" && weight != nullptr && weight->quantized != nullptr) {
        return std::make_unique<CPUMatMul>(this, *weight, op.attribute("rows") == "last");
    }
    if (op.type == "RMSNorm" && weight != nullptr && weight->floats != nullptr) {
        return std::make_unique<CPURMSNorm>(*weight, op.number("eps", 1e-6f));
    }
    if (op.type == "BinaryAdd") {
        return std::make_unique<CPUBinary>(CPUBinary::ADD);
    }
    if (op.type == "SiluMul") {
        return std::make_unique<CPUBinary>(CPUBinary::SILU_MUL);
    }
    if (op.type == "Softmax") {
        return std::make_unique<CPUSoftmax>();
    }
#ifdef MNN_SUPPORT_TRANSFORMER_FUSE
    if (op.type == "Attention" && mMeta != nullptr) {
        return std::make_unique<CPUAttention>(this, static_cast<int>(op.number("heads", 1)));
    }
#endif
    return nullptr;
}
} // namespace MNN
