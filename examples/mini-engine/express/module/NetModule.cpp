// SPDX-License-Identifier: Apache-2.0
#include "module/NetModule.hpp"

namespace MNN {
namespace Express {
std::vector<VARP> NetModule::onForward(const std::vector<VARP>& inputs) {
    return mChild->onForward(inputs);
}
} // namespace Express
} // namespace MNN
