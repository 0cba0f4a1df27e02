// SPDX-License-Identifier: Apache-2.0
#include "core/Backend.hpp"
#include <map>
#if defined(MNN_OPENCL_ENABLED) && !defined(MNN_OPENCL_BUILTIN)
#include <dlfcn.h>
#endif

namespace MNN {
void registerCPURuntimeCreator();
#ifdef MNN_OPENCL_BUILTIN
void registerOpenCLRuntimeCreator();
#endif

namespace {
std::map<MNNForwardType, const RuntimeCreator*>& creators() {
    static std::map<MNNForwardType, const RuntimeCreator*> table;
    return table;
}

// Backends that are libraries of their own are opened only when they are asked for.
void registerBackend(MNNForwardType type) {
    registerCPURuntimeCreator();
    if (type != MNN_FORWARD_OPENCL) {
        return;
    }
#if defined(MNN_OPENCL_BUILTIN)
    registerOpenCLRuntimeCreator();
#elif defined(MNN_OPENCL_ENABLED)
    // Its initializer calls MNNInsertExtraRuntimeCreator. It stays open for the program's life.
    if (dlopen("libMNN_CL.so", RTLD_NOW) == nullptr) {
        MNN_PRINT("Can't open libMNN_CL.so: %s\n", dlerror());
    }
#endif
}
} // namespace

bool MNNInsertExtraRuntimeCreator(MNNForwardType type, const RuntimeCreator* creator) {
    return creators().emplace(type, creator).second;
}

std::shared_ptr<Runtime> createRuntime(const ScheduleConfig& config) {
    registerBackend(config.type);
    const auto wanted = creators().find(config.type);
    if (wanted != creators().end()) {
        if (auto runtime = wanted->second->onCreate(config)) {
            return runtime;
        }
    }
    MNN_PRINT("Can't Find type=%d backend, use %d instead\n", config.type, MNN_FORWARD_CPU);
    return creators().at(MNN_FORWARD_CPU)->onCreate(config);
}
} // namespace MNN
