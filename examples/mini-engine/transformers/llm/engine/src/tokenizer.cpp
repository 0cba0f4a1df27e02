// SPDX-License-Identifier: Apache-2.0
#include "tokenizer.hpp"
#include <MNN/MNNDefine.h>
#include <algorithm>
#include <cstdint>
#include <fstream>

namespace MNN {
namespace Transformer {
namespace {
const int kMagic = 430;
const int kType = 1;
const size_t kMaxVocabulary = 1 << 20;

bool fromBase64(const std::string& text, std::string& bytes) {
    static const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint32_t bits = 0;
    int count = 0;
    for (char c : text) {
        if (c == '=') {
            break;
        }
        const size_t digit = digits.find(c);
        if (digit == std::string::npos) {
            return false;
        }
        bits = (bits << 6) | static_cast<uint32_t>(digit);
        count += 6;
        if (count >= 8) {
            count -= 8;
            bytes += static_cast<char>((bits >> count) & 0xFF);
        }
    }
    return !bytes.empty();
}

bool readIds(std::istream& file, size_t count, std::vector<int>& ids) {
    ids.resize(count);
    return std::all_of(ids.begin(), ids.end(), [&](int& id) { return static_cast<bool>(file >> id); });
}
} // namespace

std::unique_ptr<Tokenizer> Tokenizer::createTokenizer(const std::string& path) {
    std::unique_ptr<Tokenizer> tokenizer(new Tokenizer);
    if (!tokenizer->read(path)) {
        MNN_ERROR("[Error]: tokenizer file cannot be used: %s\n", path.c_str());
        return nullptr;
    }
    return tokenizer;
}

bool Tokenizer::read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    int magic = 0;
    int type = 0;
    int prefix = 0;
    size_t specials = 0;
    size_t stops = 0;
    size_t size = 0;
    if (!(file >> magic >> type >> specials >> stops >> prefix) || magic != kMagic || type != kType ||
        specials > kMaxVocabulary || stops > kMaxVocabulary || !readIds(file, specials, mSpecials) ||
        !readIds(file, stops, mStops) || !(file >> size) || size > kMaxVocabulary) {
        return false;
    }
    for (size_t id = 0; id < size; ++id) {
        std::string line;
        std::string token;
        if (!(file >> line) || !fromBase64(line, token)) {
            return false;
        }
        mIds.emplace(token, static_cast<int>(id));
        mLongest = std::max(mLongest, token.size());
        mTokens.push_back(std::move(token));
    }
    for (int byte = 0; byte < 256; ++byte) {
        if (mIds.count(std::string(1, static_cast<char>(byte))) == 0) {
            return false;
        }
    }
    const auto known = [&](int id) { return id >= 0 && static_cast<size_t>(id) < mTokens.size(); };
    return std::all_of(mSpecials.begin(), mSpecials.end(), known) && std::all_of(mStops.begin(), mStops.end(), known);
}

std::vector<int> Tokenizer::encode(const std::string& text) const {
    std::vector<int> ids;
    size_t at = 0;
    while (at < text.size()) {
        int found = -1;
        size_t length = 0;
        for (int special : mSpecials) {
            const std::string& token = mTokens[static_cast<size_t>(special)];
            if (text.compare(at, token.size(), token) == 0) {
                found = special;
                length = token.size();
            }
        }
        for (size_t size = std::min(mLongest, text.size() - at); found < 0; --size) {
            const auto match = mIds.find(text.substr(at, size));
            if (match != mIds.end()) {
                found = match->second;
                length = size;
            }
        }
        ids.push_back(found);
        at += length;
    }
    return ids;
}

std::string Tokenizer::decode(int id) const {
    return id >= 0 && static_cast<size_t>(id) < mTokens.size() ? mTokens[static_cast<size_t>(id)] : std::string();
}

bool Tokenizer::isStop(int id) const {
    return std::find(mStops.begin(), mStops.end(), id) != mStops.end();
}
} // namespace Transformer
} // namespace MNN
