// SPDX-License-Identifier: Apache-2.0
#include "sampler.hpp"
#include <algorithm>
#include <numeric>

namespace MNN {
namespace Transformer {
Sampler::Sampler(const Json& config)
    : mGreedy(config.string("sampler_type", "mixed") == "greedy"),
      mTemperature(std::max(static_cast<float>(config.value("temperature", 1.0)), 0.01f)),
      mTopK(static_cast<size_t>(std::max(config.value("top_k", 40), 1.0))),
      mRandom(static_cast<unsigned int>(config.value("seed", 0))) {}

int Sampler::sample(const Express::VARP& logits) {
    const size_t size = static_cast<size_t>(logits->getInfo().back());
    const float* scores = logits->readMap<float>();
    if (mGreedy) {
        return static_cast<int>(std::max_element(scores, scores + size) - scores);
    }
    std::vector<int> order(size);
    std::iota(order.begin(), order.end(), 0);
    const size_t count = std::min(mTopK, size);
    std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(),
                      [&](int a, int b) { return scores[a] != scores[b] ? scores[a] > scores[b] : a < b; });
    Express::VARP best = Express::_Input({1, static_cast<int>(count)}, Tensor::FLOAT32);
    for (size_t i = 0; i < count; ++i) {
        best->writeMap<float>()[i] = scores[order[i]] / mTemperature;
    }
    const Express::VARP chances = Express::_Softmax(best);
    // std::uniform_real_distribution is not the same in every standard library.
    float rest = static_cast<float>(mRandom() >> 8) / static_cast<float>(1 << 24);
    for (size_t i = 0; i < count; ++i) {
        rest -= chances->readMap<float>()[i];
        if (rest < 0) {
            return order[i];
        }
    }
    return order[count - 1];
}
} // namespace Transformer
} // namespace MNN
