// SPDX-License-Identifier: Apache-2.0
#ifndef LLM_LLMCONFIG_HPP
#define LLM_LLMCONFIG_HPP

#include <MNN/MNNForwardType.h>
#include <string>
#include "json.hpp"

namespace MNN {
namespace Transformer {
// config.json (how to run) and the llm_config.json it names (what the model is).
// Files are relative to the folder of config.json. A file that cannot be read is reported and
// leaves the defaults, as in MNN: load() fails on what is missing then.
class LlmConfig {
public:
    explicit LlmConfig(const std::string& path);

    // Merges a JSON object over config.json; false when it is no JSON object.
    bool set(const std::string& json);

    std::string file(const std::string& key, const std::string& fallback) const {
        return mBaseDir + mConfig.string(key, fallback);
    }
    const Json& config() const {
        return mConfig;
    }
    const Json& model() const {
        return mModel;
    }
    ScheduleConfig schedule() const;

private:
    std::string mBaseDir;
    Json mConfig;
    Json mModel;
};
} // namespace Transformer
} // namespace MNN

#endif
