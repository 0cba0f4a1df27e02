// SPDX-License-Identifier: Apache-2.0
#ifndef MNN_ERRORCODE_HPP
#define MNN_ERRORCODE_HPP

namespace MNN {
enum ErrorCode {
    NO_ERROR = 0,
    NOT_SUPPORT = 2,
    COMPUTE_SIZE_ERROR = 3,
    INVALID_VALUE = 5,
};
} // namespace MNN

#endif
