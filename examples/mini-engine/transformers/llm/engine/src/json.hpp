// SPDX-License-Identifier: Apache-2.0
#ifndef LLM_JSON_HPP
#define LLM_JSON_HPP

#include <map>
#include <string>
#include <vector>

namespace MNN {
namespace Transformer {
// As much JSON as configuration files need. Numbers are doubles; \u escapes outside surrogate
// pairs become UTF-8.
struct Json {
    enum Kind { Null, Bool, Number, String, Array, Object };

    Kind kind = Null;
    bool boolean = false;
    double number = 0;
    std::string text;
    std::vector<Json> items;
    std::map<std::string, Json> members;

    // False when `source` is no JSON document; `error` then says where.
    static bool parse(const std::string& source, Json& result, std::string& error);

    // Objects merge key by key, everything else is replaced.
    void merge(const Json& other);
    std::string string(const std::string& key, const std::string& fallback) const;
    double value(const std::string& key, double fallback) const;
};
} // namespace Transformer
} // namespace MNN

#endif
