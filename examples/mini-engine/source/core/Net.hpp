// SPDX-License-Identifier: Apache-2.0
#ifndef MNN_NET_HPP
#define MNN_NET_HPP

#include <MNN/MNNDefine.h>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace MNN {
// One line `op TYPE inputs -> output key=value` of a .mnn file.
struct Op {
    std::string type;
    std::vector<std::string> inputs;
    std::string output;
    std::map<std::string, std::string> attributes;

    std::string attribute(const std::string& key) const;
    // `fallback` when the key is absent or no number.
    float number(const std::string& key, float fallback) const;
};

// A matrix of a .mnn.weight file: one float scale a row, then int8 rows; or plain floats.
struct Weight {
    int rows = 0;
    int cols = 0;
    const float* scales = nullptr; // nullptr for float weights
    const int8_t* quantized = nullptr;
    const float* floats = nullptr;
};

// A graph and its weights, read once and shared by all sessions.
struct MNN_PUBLIC Net {
    std::vector<std::string> inputs;
    std::vector<Op> ops;
    std::vector<std::string> outputs;
    std::map<std::string, Weight> weights;

    const Weight* weight(const Op& op) const;

    // Returns nullptr, after an error message, when a file cannot be read or contradicts itself.
    static std::shared_ptr<Net> load(const std::string& model, const std::string& weightFile);

private:
    std::vector<float> mStorage; // floats, so that scales are aligned
};
} // namespace MNN

#endif
