// SPDX-License-Identifier: Apache-2.0
// Not in MNN: work of a known split, so that profilers have something to be checked with.
#ifndef MNN_HOT_HPP
#define MNN_HOT_HPP

namespace MNN {
// Works as many seconds of processor time as the environment variable MINI_ENGINE_HOT says, once: 60 % of it in
// hotMatMul, 30 % in hotSoftmax, 10 % in hotNorm. Returns at once if it says nothing.
void heatIfAsked();
} // namespace MNN

#endif
