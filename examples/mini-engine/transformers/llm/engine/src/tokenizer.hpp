// SPDX-License-Identifier: Apache-2.0
#ifndef LLM_TOKENIZER_HPP
#define LLM_TOKENIZER_HPP

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace MNN {
namespace Transformer {
// Longest match over a vocabulary that contains every single byte, so any text can be encoded.
//
// File: "430 1"; then "SPECIALS STOPS 0"; then the ids of both; then the vocabulary's size; then
// one token a line in base64. Special tokens are matched before all others.
class Tokenizer {
public:
    // Returns nullptr, after an error message, when the file cannot be used.
    static std::unique_ptr<Tokenizer> createTokenizer(const std::string& path);

    std::vector<int> encode(const std::string& text) const;
    // Bytes of one token: a character may be spread over several.
    std::string decode(int id) const;
    bool isStop(int id) const;

private:
    bool read(const std::string& path);

    std::vector<std::string> mTokens;
    std::vector<int> mSpecials;
    std::vector<int> mStops;
    std::unordered_map<std::string, int> mIds;
    size_t mLongest = 1;
};
} // namespace Transformer
} // namespace MNN

#endif
