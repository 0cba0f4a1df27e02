// SPDX-License-Identifier: Apache-2.0
#ifndef MNN_BACKEND_HPP
#define MNN_BACKEND_HPP

#include <MNN/MNNForwardType.h>
#include <memory>
#include "core/Execution.hpp"
#include "core/KVMeta.hpp"
#include "core/Net.hpp"

namespace MNN {
// Makes the executions of one session.
class Backend {
public:
    virtual ~Backend() = default;
    // Returns nullptr when the backend cannot run the op.
    virtual std::unique_ptr<Execution> onCreate(const Op& op, const Net& net) = 0;
};

// What sessions on one device share: its threads, its memory.
class Runtime {
public:
    virtual ~Runtime() = default;
    virtual MNNForwardType type() const = 0;
    virtual std::unique_ptr<Backend> onCreate(const KVMeta* meta) = 0;
};

class RuntimeCreator {
public:
    virtual ~RuntimeCreator() = default;
    // Returns nullptr when the device is not there.
    virtual std::shared_ptr<Runtime> onCreate(const ScheduleConfig& config) const = 0;
};

// Backends in libraries of their own call this from an initializer of the library.
MNN_PUBLIC bool MNNInsertExtraRuntimeCreator(MNNForwardType type, const RuntimeCreator* creator);
// The wanted runtime, or the CPU's (after a line that says so) when it cannot be had.
MNN_PUBLIC std::shared_ptr<Runtime> createRuntime(const ScheduleConfig& config);
} // namespace MNN

#endif
