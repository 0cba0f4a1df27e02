// SPDX-License-Identifier: Apache-2.0
#include "json.hpp"
#include <cctype>
#include <cstdint>
#include <cstdlib>

namespace MNN {
namespace Transformer {
namespace {
const int kMaxDepth = 64;

class Parser {
public:
    explicit Parser(const std::string& source) : mSource(source) {}

    bool document(Json& result) {
        return value(result, 0) && (skipBlanks(), mAt == mSource.size());
    }
    size_t at() const {
        return mAt;
    }

private:
    void skipBlanks() {
        while (mAt < mSource.size() && std::isspace(static_cast<unsigned char>(mSource[mAt]))) {
            ++mAt;
        }
    }

    bool take(char wanted) {
        skipBlanks();
        if (mAt < mSource.size() && mSource[mAt] == wanted) {
            ++mAt;
            return true;
        }
        return false;
    }

    bool takeWord(const char* word) {
        const std::string wanted(word);
        if (mSource.compare(mAt, wanted.size(), wanted) != 0) {
            return false;
        }
        mAt += wanted.size();
        return true;
    }

    bool value(Json& result, int depth) {
        skipBlanks();
        if (mAt >= mSource.size() || depth > kMaxDepth) {
            return false;
        }
        switch (mSource[mAt]) {
            case '{':
                return object(result, depth);
            case '[':
                return array(result, depth);
            case '"':
                result.kind = Json::String;
                return string(result.text);
            case 'n':
                return takeWord("null");
            case 't':
            case 'f':
                result.kind = Json::Bool;
                result.boolean = mSource[mAt] == 't';
                return takeWord(result.boolean ? "true" : "false");
            default:
                return number(result);
        }
    }

    bool number(Json& result) {
        char* end = nullptr;
        const char* start = mSource.c_str() + mAt;
        result.kind = Json::Number;
        result.number = std::strtod(start, &end);
        mAt += static_cast<size_t>(end - start);
        return end != start;
    }

    bool object(Json& result, int depth) {
        result.kind = Json::Object;
        ++mAt;
        if (take('}')) {
            return true;
        }
        do {
            std::string key;
            skipBlanks();
            if (!string(key) || !take(':') || !value(result.members[key] = Json(), depth + 1)) {
                return false;
            }
        } while (take(','));
        return take('}');
    }

    bool array(Json& result, int depth) {
        result.kind = Json::Array;
        ++mAt;
        if (take(']')) {
            return true;
        }
        do {
            result.items.emplace_back();
            if (!value(result.items.back(), depth + 1)) {
                return false;
            }
        } while (take(','));
        return take(']');
    }

    bool string(std::string& result) {
        if (mAt >= mSource.size() || mSource[mAt] != '"') {
            return false;
        }
        for (++mAt; mAt < mSource.size(); ++mAt) {
            const char c = mSource[mAt];
            if (c == '"') {
                ++mAt;
                return true;
            }
            if (c != '\\') {
                result += c;
            } else if (++mAt >= mSource.size() || !escape(mSource[mAt], result)) {
                return false;
            }
        }
        return false;
    }

    bool escape(char kind, std::string& result) {
        static const std::string names = "\"\\/bfnrt";
        static const std::string meanings = "\"\\/\b\f\n\r\t";
        const size_t index = names.find(kind);
        if (index != std::string::npos) {
            result += meanings[index];
            return true;
        }
        if (kind != 'u' || mAt + 4 >= mSource.size()) {
            return false;
        }
        const std::string digits = mSource.substr(mAt + 1, 4);
        char* end = nullptr;
        const auto code = static_cast<uint32_t>(std::strtoul(digits.c_str(), &end, 16));
        if (end != digits.c_str() + 4) {
            return false;
        }
        mAt += 4;
        if (code < 0x80) {
            result += static_cast<char>(code);
        } else if (code < 0x800) {
            result += static_cast<char>(0xC0 | (code >> 6));
            result += static_cast<char>(0x80 | (code & 0x3F));
        } else {
            result += static_cast<char>(0xE0 | (code >> 12));
            result += static_cast<char>(0x80 | ((code >> 6) & 0x3F));
            result += static_cast<char>(0x80 | (code & 0x3F));
        }
        return true;
    }

    const std::string& mSource;
    size_t mAt = 0;
};
} // namespace

bool Json::parse(const std::string& source, Json& result, std::string& error) {
    Parser parser(source);
    result = Json();
    if (parser.document(result)) {
        return true;
    }
    error = "not JSON at byte " + std::to_string(parser.at());
    return false;
}

void Json::merge(const Json& other) {
    if (kind != Object || other.kind != Object) {
        *this = other;
        return;
    }
    for (const auto& member : other.members) {
        members[member.first].merge(member.second);
    }
}

std::string Json::string(const std::string& key, const std::string& fallback) const {
    const auto found = members.find(key);
    return found != members.end() && found->second.kind == String ? found->second.text : fallback;
}

double Json::value(const std::string& key, double fallback) const {
    const auto found = members.find(key);
    return found != members.end() && found->second.kind == Number ? found->second.number : fallback;
}
} // namespace Transformer
} // namespace MNN
