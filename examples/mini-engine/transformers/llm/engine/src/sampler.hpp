// SPDX-License-Identifier: Apache-2.0
#ifndef LLM_SAMPLER_HPP
#define LLM_SAMPLER_HPP

#include <MNN/expr/Expr.hpp>
#include <random>
#include "json.hpp"

namespace MNN {
namespace Transformer {
// Chooses the next token. sampler_type "greedy" takes the most likely one; every other type draws
// from the top_k most likely ones at the given temperature, from `seed` on.
class Sampler {
public:
    explicit Sampler(const Json& config);
    int sample(const Express::VARP& logits);

private:
    bool mGreedy;
    float mTemperature;
    size_t mTopK;
    std::mt19937 mRandom;
};
} // namespace Transformer
} // namespace MNN

#endif
