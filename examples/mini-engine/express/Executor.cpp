// SPDX-License-Identifier: Apache-2.0
#include <MNN/expr/Executor.hpp>
#include "core/Backend.hpp"

namespace MNN {
namespace Express {
RuntimeManager::~RuntimeManager() = default;

std::shared_ptr<RuntimeManager> RuntimeManager::createRuntimeManager(const ScheduleConfig& config) {
    std::shared_ptr<RuntimeManager> manager(new RuntimeManager);
    manager->mRuntime = createRuntime(config);
    return manager;
}
} // namespace Express
} // namespace MNN
