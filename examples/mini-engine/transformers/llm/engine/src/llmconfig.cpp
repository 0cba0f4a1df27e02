// SPDX-License-Identifier: Apache-2.0
#include "llmconfig.hpp"
#include <MNN/MNNDefine.h>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

namespace MNN {
namespace Transformer {
namespace {
const int kMaxThreads = 64;

bool readFile(const std::string& path, std::string& text) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream content;
    if (!file || !(content << file.rdbuf())) {
        return false;
    }
    text = content.str();
    return true;
}

void parseFile(const std::string& path, const std::string& text, Json& result) {
    std::string error;
    if (!Json::parse(text, result, error) || result.kind != Json::Object) {
        MNN_ERROR("Failed to parse %s: %s\n", path.c_str(), error.empty() ? "no object" : error.c_str());
        result = Json();
    }
}
} // namespace

LlmConfig::LlmConfig(const std::string& path) {
    const size_t slash = path.rfind('/');
    mBaseDir = slash == std::string::npos ? "./" : path.substr(0, slash + 1);
    std::string text;
    if (readFile(path, text)) {
        parseFile(path, text, mConfig);
    } else {
        const int error = errno;
        MNN_ERROR("Unable to open config file: %s\n", path.c_str());
        MNN_ERROR("Error: %s (errno: %d)\n", std::strerror(error), error);
    }
    mConfig.kind = Json::Object;
    const std::string model = file("llm_config", "llm_config.json");
    if (readFile(model, text)) {
        parseFile(model, text, mModel);
    } else {
        MNN_ERROR("Unable to open llm_config file: %s\n", model.c_str());
    }
    mModel.kind = Json::Object;
}

bool LlmConfig::set(const std::string& json) {
    Json changes;
    std::string error;
    if (!Json::parse(json, changes, error) || changes.kind != Json::Object) {
        return false;
    }
    mConfig.merge(changes);
    return true;
}

ScheduleConfig LlmConfig::schedule() const {
    ScheduleConfig schedule;
    const std::string backend = mConfig.string("backend_type", "cpu");
    if (backend == "opencl") {
        schedule.type = MNN_FORWARD_OPENCL;
    } else if (backend == "vulkan") {
        schedule.type = MNN_FORWARD_VULKAN;
    } else if (backend == "npu") {
        schedule.type = MNN_FORWARD_NN;
    }
    schedule.numThread = static_cast<int>(std::min(std::max(mConfig.value("thread_num", 4), 1.0), 1.0 * kMaxThreads));
    const std::string memory = mConfig.string("memory", "low");
    schedule.backendConfig.memory = memory == "low"    ? BackendConfig::Memory_Low
                                    : memory == "high" ? BackendConfig::Memory_High
                                                       : BackendConfig::Memory_Normal;
    const std::string precision = mConfig.string("precision", "low");
    schedule.backendConfig.precision = precision == "low"    ? BackendConfig::Precision_Low
                                       : precision == "high" ? BackendConfig::Precision_High
                                                             : BackendConfig::Precision_Normal;
    return schedule;
}
} // namespace Transformer
} // namespace MNN
