// SPDX-License-Identifier: Apache-2.0
#include "core/Net.hpp"
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace MNN {
namespace {
const char* const kMagic = "mini-mnn 1";

bool parseOp(std::istringstream& line, Op& op) {
    std::string word;
    if (!(line >> op.type)) {
        return false;
    }
    while (line >> word && word != "->") {
        op.inputs.push_back(word);
    }
    if (!(line >> op.output)) {
        return false;
    }
    while (line >> word) {
        const size_t equals = word.find('=');
        if (equals == std::string::npos) {
            return false;
        }
        op.attributes[word.substr(0, equals)] = word.substr(equals + 1);
    }
    return true;
}

// Fills `weight` from `weight NAME int8|float ROWS COLS OFFSET` and the bytes at OFFSET.
bool parseWeight(std::istringstream& line, const std::vector<float>& storage, size_t bytes, std::string& name,
                 Weight& weight) {
    std::string type;
    size_t offset = 0;
    if (!(line >> name >> type >> weight.rows >> weight.cols >> offset) || weight.rows < 1 || weight.cols < 1) {
        return false;
    }
    const size_t rows = static_cast<size_t>(weight.rows);
    const size_t elements = rows * static_cast<size_t>(weight.cols);
    const bool quantized = type == "int8";
    const size_t size = quantized ? rows * sizeof(float) + elements : elements * sizeof(float);
    if ((!quantized && type != "float") || offset % sizeof(float) != 0 || offset > bytes || size > bytes - offset) {
        return false;
    }
    const float* start = storage.data() + offset / sizeof(float);
    if (quantized) {
        weight.scales = start;
        weight.quantized = reinterpret_cast<const int8_t*>(start + rows);
    } else {
        weight.floats = start;
    }
    return true;
}
} // namespace

std::string Op::attribute(const std::string& key) const {
    const auto found = attributes.find(key);
    return found == attributes.end() ? std::string() : found->second;
}

float Op::number(const std::string& key, float fallback) const {
    const std::string text = attribute(key);
    char* end = nullptr;
    const float value = std::strtof(text.c_str(), &end);
    return end == text.c_str() ? fallback : value;
}

const Weight* Net::weight(const Op& op) const {
    const auto found = weights.find(op.attribute("weight"));
    return found == weights.end() ? nullptr : &found->second;
}

std::shared_ptr<Net> Net::load(const std::string& model, const std::string& weightFile) {
    std::ifstream graph(model);
    std::ifstream data(weightFile, std::ios::binary | std::ios::ate);
    if (!graph || !data) {
        MNN_ERROR("Can't open file:%s\n", (graph ? weightFile : model).c_str());
        return nullptr;
    }
    auto net = std::make_shared<Net>();
    const size_t bytes = static_cast<size_t>(data.tellg());
    net->mStorage.resize((bytes + sizeof(float) - 1) / sizeof(float));
    data.seekg(0);
    data.read(reinterpret_cast<char*>(net->mStorage.data()), static_cast<std::streamsize>(bytes));

    std::string text;
    int number = 0;
    while (std::getline(graph, text)) {
        ++number;
        std::istringstream line(text);
        std::string word;
        if (number == 1) {
            if (text != kMagic) {
                MNN_ERROR("%s is no model of this engine\n", model.c_str());
                return nullptr;
            }
            continue;
        }
        if (!(line >> word) || word[0] == '#') {
            continue;
        }
        bool good = false;
        if (word == "input" || word == "output") {
            good = static_cast<bool>(line >> text);
            (word == "input" ? net->inputs : net->outputs).push_back(text);
        } else if (word == "weight") {
            std::string name;
            Weight weight;
            good = parseWeight(line, net->mStorage, bytes, name, weight);
            net->weights[name] = weight;
        } else if (word == "op") {
            Op op;
            good = parseOp(line, op);
            net->ops.push_back(op);
        }
        if (!good) {
            MNN_ERROR("%s:%d: line cannot be used with %s\n", model.c_str(), number, weightFile.c_str());
            return nullptr;
        }
    }
    return net;
}
} // namespace MNN
