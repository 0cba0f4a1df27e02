// SPDX-License-Identifier: Apache-2.0
#include "llm/llm.hpp"
#include <MNN/AutoTime.hpp>
#include <MNN/expr/Module.hpp>
#include <algorithm>
#include <fstream>
#include "core/KVMeta.hpp"
#include "llmconfig.hpp"
#include "sampler.hpp"
#include "tokenizer.hpp"

namespace MNN {
namespace Transformer {
namespace {
bool fileExists(const char* what, const std::string& path) {
    if (std::ifstream(path).good()) {
        return true;
    }
    MNN_ERROR("[Error]: %s file not found: %s\n", what, path.c_str());
    return false;
}

std::string fill(const std::string& pattern, const std::string& content) {
    const size_t place = pattern.find("%s");
    return place == std::string::npos ? pattern + content : std::string(pattern).replace(place, 2, content);
}
} // namespace

Llm* Llm::createLLM(const std::string& configPath) {
    return new Llm(std::make_unique<LlmConfig>(configPath));
}

Llm::Llm(std::unique_ptr<LlmConfig> config)
    : mConfig(std::move(config)), mContext(new LlmContext), mMeta(new KVMeta) {}

Llm::~Llm() = default;

bool Llm::set_config(const std::string& json) {
    return mConfig->set(json);
}

bool Llm::load() {
    mRuntime = Express::RuntimeManager::createRuntimeManager(mConfig->schedule());
    mRuntime->setHintPtr(mMeta.get());
    const std::string tokenizer = mConfig->file("tokenizer_file", "tokenizer.txt");
    const std::string model = mConfig->file("llm_model", "llm.mnn");
    const std::string weight = mConfig->file("llm_weight", mConfig->config().string("llm_model", "llm.mnn") + ".weight");
    if (!fileExists("tokenizer", tokenizer) || !fileExists("LLM model", model) || !fileExists("LLM weight", weight)) {
        return false;
    }
    mTokenizer = Tokenizer::createTokenizer(tokenizer);
    if (mTokenizer == nullptr) {
        return false;
    }
    mMaxAllTokens = static_cast<int>(mConfig->config().value("max_all_tokens", 2048));
    mRuntime->setExternalFile(weight);
    mModule.reset(Express::Module::load({"input_ids"}, {"logits"}, model.c_str(), mRuntime));
    return mModule != nullptr;
}

void Llm::tuning() {
    MNN_PRINT("Prepare for tuning opt Begin\n");
    std::ifstream weights(mRuntime->externalFile(), std::ios::binary);
    std::vector<char> block(1 << 16);
    while (weights.read(block.data(), static_cast<std::streamsize>(block.size()))) {
    }
    MNN_PRINT("Prepare for tuning opt End\n");
}

void Llm::reset() {
    *mContext = LlmContext();
    *mMeta = KVMeta();
    mSampler = std::make_unique<Sampler>(mConfig->config());
    mIgnoreEnd = mConfig->config().value("ignore_eos", 0) != 0;
}

void Llm::response(const std::string& content, std::ostream* os, const char* endWith, int maxNewTokens) {
    response(ChatMessages{{"user", content}}, os, endWith, maxNewTokens);
}

void Llm::response(const ChatMessages& messages, std::ostream* os, const char* endWith, int maxNewTokens) {
    mOutput = os;
    mEndWith = endWith == nullptr ? "\n" : endWith;
    reset();
    generate(tokenizer_encode(apply_template(messages)), maxNewTokens);
}

std::vector<int> Llm::generate(const std::vector<int>& inputIds, int maxNewTokens) {
    if (mSampler == nullptr) {
        reset();
    }
    if (maxNewTokens < 0) {
        maxNewTokens = static_cast<int>(mConfig->config().value("max_new_tokens", 512));
    }
    mContext->prompt_len = static_cast<int>(inputIds.size());
    const Timer prefill;
    Express::VARP logits = forward(inputIds);
    mContext->prefill_us += prefill.durationInUs();
    while (logits != nullptr && mContext->gen_seq_len < maxNewTokens) {
        const int token = sample(logits);
        if (!append(token)) {
            break;
        }
        const Timer decode;
        logits = forward({token});
        mContext->decode_us += decode.durationInUs();
    }
    return mContext->output_tokens;
}

Express::VARP Llm::forward(const std::vector<int>& ids) {
    if (ids.empty() || mMeta->previous + static_cast<int>(ids.size()) > mMaxAllTokens) {
        mContext->stopped = true;
        return nullptr;
    }
    Express::VARP input = Express::_Input({static_cast<int>(ids.size())}, Tensor::INT32);
    std::copy(ids.begin(), ids.end(), input->writeMap<int>());
    mMeta->add = static_cast<int>(ids.size());
    Express::VARP logits = forwardRaw(input);
    mMeta->previous += mMeta->add;
    mMeta->add = 0;
    return logits;
}

Express::VARP Llm::forwardRaw(const Express::VARP& inputIds) {
    auto outputs = mModule->onForward({inputIds});
    return outputs.empty() ? nullptr : outputs[0];
}

int Llm::sample(const Express::VARP& logits) {
    const Timer timer;
    const int token = mSampler->sample(logits);
    mContext->sample_us += timer.durationInUs();
    return token;
}

// Takes a token into the answer; false when it ends the answer.
bool Llm::append(int token) {
    ++mContext->gen_seq_len;
    mContext->output_tokens.push_back(token);
    if (!mIgnoreEnd && mTokenizer->isStop(token)) {
        mContext->stopped = true;
        if (mOutput != nullptr) {
            *mOutput << mEndWith << std::flush;
        }
        return false;
    }
    const std::string text = tokenizer_decode(token);
    mContext->generate_str += text;
    if (mOutput != nullptr) {
        *mOutput << text << std::flush;
    }
    return true;
}

std::vector<int> Llm::tokenizer_encode(const std::string& text) const {
    return mTokenizer->encode(text);
}

std::string Llm::tokenizer_decode(int id) const {
    return mTokenizer->decode(id);
}

std::string Llm::apply_template(const ChatMessages& messages) const {
    std::string prompt;
    for (const auto& message : messages) {
        prompt += fill(mConfig->model().string(message.first + "_prompt_template", "%s"), message.second);
    }
    return prompt + mConfig->model().string("generation_prompt", "");
}
} // namespace Transformer
} // namespace MNN
