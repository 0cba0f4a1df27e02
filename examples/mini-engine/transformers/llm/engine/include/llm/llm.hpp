// SPDX-License-Identifier: Apache-2.0
#ifndef LLM_LLM_HPP
#define LLM_LLM_HPP

#include <MNN/MNNDefine.h>
#include <MNN/expr/Expr.hpp>
#include <cstdint>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace MNN {
struct KVMeta;
namespace Express {
class Module;
class RuntimeManager;
} // namespace Express

namespace Transformer {
class LlmConfig;
class Sampler;
class Tokenizer;

using ChatMessage = std::pair<std::string, std::string>; // role, content
using ChatMessages = std::vector<ChatMessage>;

// What the last response did; times are in microseconds.
struct LlmContext {
    int prompt_len = 0;
    int gen_seq_len = 0;
    int64_t prefill_us = 0;
    int64_t decode_us = 0;
    int64_t sample_us = 0;
    int64_t vision_us = 0;
    int64_t audio_us = 0;
    float pixels_mp = 0.0f;
    float audio_input_s = 0.0f;
    bool stopped = false; // an end token came, or the cache is full
    std::vector<int> output_tokens;
    std::string generate_str;
};

class MNN_PUBLIC Llm {
public:
    static Llm* createLLM(const std::string& configPath);
    ~Llm();
    Llm(const Llm&) = delete;
    Llm& operator=(const Llm&) = delete;

    // Merges a JSON object over config.json. Sampler settings count from the next response on,
    // the others must be set before load().
    bool set_config(const std::string& json);
    // False, after an error message, when a file is missing or cannot be used.
    bool load();
    // Touches every weight once, so that the first token does not wait for page faults.
    void tuning();
    void reset();

    // Generates the answer to one message or a conversation and writes it to `os` as it comes.
    // At an end token `endWith` (default: a newline) is written.
    void response(const std::string& content, std::ostream* os = &std::cout, const char* endWith = nullptr,
                  int maxNewTokens = -1);
    void response(const ChatMessages& messages, std::ostream* os = &std::cout, const char* endWith = nullptr,
                  int maxNewTokens = -1);
    std::vector<int> generate(const std::vector<int>& inputIds, int maxNewTokens = -1);

    std::vector<int> tokenizer_encode(const std::string& text) const;
    std::string tokenizer_decode(int id) const;
    const LlmContext* getContext() const {
        return mContext.get();
    }

private:
    explicit Llm(std::unique_ptr<LlmConfig> config);
    // Logits of the token after `inputIds`, nullptr when an operation failed.
    Express::VARP forwardRaw(const Express::VARP& inputIds);
    Express::VARP forward(const std::vector<int>& ids);
    int sample(const Express::VARP& logits);
    bool append(int token);
    std::string apply_template(const ChatMessages& messages) const;

    std::unique_ptr<LlmConfig> mConfig;
    std::unique_ptr<LlmContext> mContext;
    std::unique_ptr<Tokenizer> mTokenizer;
    std::unique_ptr<Sampler> mSampler;
    std::unique_ptr<KVMeta> mMeta;
    std::shared_ptr<Express::RuntimeManager> mRuntime;
    std::unique_ptr<Express::Module> mModule;
    std::ostream* mOutput = nullptr;
    const char* mEndWith = nullptr;
    int mMaxAllTokens = 0;
    bool mIgnoreEnd = false; // "ignore_eos": for measurements
};
} // namespace Transformer
} // namespace MNN

#endif
