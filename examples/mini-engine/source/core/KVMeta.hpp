// SPDX-License-Identifier: Apache-2.0
#ifndef MNN_KVMETA_HPP
#define MNN_KVMETA_HPP

namespace MNN {
// The valid part of the KV cache, in tokens. The llm layer sets it, CPUAttention reads it.
struct KVMeta {
    int previous = 0; // tokens that earlier forwards left in the cache
    int add = 0;      // tokens of the forward that is running
};
} // namespace MNN

#endif
