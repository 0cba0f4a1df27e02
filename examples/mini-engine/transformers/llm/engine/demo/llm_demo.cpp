// SPDX-License-Identifier: Apache-2.0
// Talks like MNN's llm_demo, with its habits: failures to load end with exit code 0, generated text
// goes to stdout even where the rest goes to logcat, and a chat does not end when stdin does.
#include <MNN/AutoTime.hpp>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <thread>
#include "llm/llm.hpp"

using MNN::Transformer::ChatMessages;
using MNN::Transformer::Llm;
using MNN::Transformer::LlmContext;

namespace {
// After stdin has ended every read returns at once; without a pause the chat would eat a core.
const auto kPauseAtEnd = std::chrono::milliseconds(500);

std::vector<std::string> readPrompts(std::istream& file) {
    std::vector<std::string> prompts;
    std::string line;
    while (std::getline(file, line)) {
        if (!line.empty() && line.back() == '\r') {
            line.pop_back();
        }
        if (!line.empty() && line[0] != '#') {
            prompts.push_back(line);
        }
    }
    return prompts;
}

void add(LlmContext& total, const LlmContext& one) {
    total.prompt_len += one.prompt_len;
    total.gen_seq_len += one.gen_seq_len;
    total.prefill_us += one.prefill_us;
    total.decode_us += one.decode_us;
    total.sample_us += one.sample_us;
    total.vision_us += one.vision_us;
    total.audio_us += one.audio_us;
    total.pixels_mp += one.pixels_mp;
    total.audio_input_s += one.audio_input_s;
}

void printResult(const LlmContext& total) {
    const float vision = static_cast<float>(total.vision_us) / 1e6f;
    const float audio = static_cast<float>(total.audio_us) / 1e6f;
    const float prefill = static_cast<float>(total.prefill_us) / 1e6f;
    const float decode = static_cast<float>(total.decode_us) / 1e6f;
    const float sample = static_cast<float>(total.sample_us) / 1e6f;
    MNN_PRINT("\n#################################\n");
    MNN_PRINT("prompt tokens num = %d\n", total.prompt_len);
    MNN_PRINT("decode tokens num = %d\n", total.gen_seq_len);
    MNN_PRINT(" vision time = %.2f s\n", vision);
    MNN_PRINT(" pixels_mp = %.2f MP\n", total.pixels_mp);
    MNN_PRINT("  audio process time = %.2f s\n", audio);
    MNN_PRINT("  audio input time = %.2f s\n", total.audio_input_s);
    MNN_PRINT("prefill time = %.2f s\n", prefill);
    MNN_PRINT(" decode time = %.2f s\n", decode);
    MNN_PRINT(" sample time = %.2f s\n", sample);
    MNN_PRINT("prefill speed = %.2f tok/s\n", static_cast<float>(total.prompt_len) / prefill);
    MNN_PRINT(" decode speed = %.2f tok/s\n", static_cast<float>(total.gen_seq_len) / decode);
    MNN_PRINT(" vision speed = %.3f MP/s\n", vision > 0 ? total.pixels_mp / vision : 0.0f);
    // 0 / 0 without audio: "-nan" on x86_64, "nan" elsewhere, as in MNN.
    MNN_PRINT(" audio RTF = %.3f \n", audio / total.audio_input_s);
    MNN_PRINT("##################################\n");
}

int answerFile(Llm* llm, const std::string& path, int maxNewTokens) {
    std::cout << "prompt file is " << path << std::endl;
    std::ifstream file(path);
    const std::vector<std::string> prompts = readPrompts(file);
    if (prompts.empty()) {
        std::cerr << path << (file.is_open() ? " holds no prompt" : " cannot be opened") << std::endl;
        return 1;
    }
    LlmContext total;
    for (const auto& prompt : prompts) {
        llm->response(prompt, &std::cout, nullptr, maxNewTokens);
        add(total, *llm->getContext());
    }
    printResult(total);
    return 0;
}

void chat(Llm* llm, int maxNewTokens) {
    ChatMessages messages;
    while (true) {
        std::cout << "\nUser: " << std::flush;
        std::string text;
        if (!std::getline(std::cin, text)) {
            std::this_thread::sleep_for(kPauseAtEnd);
            continue;
        }
        if (text == "/exit") {
            return;
        }
        if (text == "/reset") {
            messages.clear();
            std::cout << "\nA: reset done." << std::endl;
            continue;
        }
        messages.emplace_back("user", text);
        std::cout << "\nA: " << std::flush;
        llm->response(messages, &std::cout, nullptr, maxNewTokens);
        messages.emplace_back("assistant", llm->getContext()->generate_str);
    }
}
} // namespace

int main(int argc, const char* argv[]) {
    if (argc < 2) {
        std::cout << "Usage: " << argv[0] << " config.json <prompt.txt>" << std::endl;
        return 0;
    }
    const std::string configPath = argv[1];
    std::cout << "config path is " << configPath << std::endl;
    const std::unique_ptr<Llm> llm(Llm::createLLM(configPath));
    {
        AUTOTIME;
        if (!llm->load()) {
            MNN_ERROR("LLM init error\n");
            return 0;
        }
    }
    {
        AUTOTIME;
        llm->tuning();
    }
    const int maxNewTokens = argc > 3 ? std::atoi(argv[3]) : -1;
    if (argc > 4 && std::strcmp(argv[4], "no-think") == 0) {
        llm->set_config("{\"enable_thinking\": false}"); // the example model never thinks
    }
    if (argc < 3) {
        chat(llm.get(), maxNewTokens);
        return 0;
    }
    return answerFile(llm.get(), argv[2], maxNewTokens);
}
