// SPDX-License-Identifier: Apache-2.0
// Not in MNN: ways to go wrong on purpose, so that tools for crashes have something to work on.
#ifndef MNN_CRASH_HPP
#define MNN_CRASH_HPP

namespace MNN {
// Does what the environment variable MINI_ENGINE_CRASH names, once: null, overflow, abort, throw, use-after-free,
// deadlock or oom. Returns if it names nothing.
void crashIfAsked();
} // namespace MNN

#endif
