// SPDX-License-Identifier: Apache-2.0
#include <MNN/MNNDefine.h>
#include <cstdarg>
#include <cstdio>
#ifdef MNN_USE_LOGCAT
#include <MNN/AndroidLog.h>
#endif

namespace MNN {
void logMessage(LogLevel level, const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
#ifdef MNN_USE_LOGCAT
    __android_log_vprint(level == LogLevel::Error ? ANDROID_LOG_ERROR : ANDROID_LOG_INFO, "MNNJNI", format, arguments);
#else
    (void)level;
    std::vprintf(format, arguments);
#endif
    va_end(arguments);
}
} // namespace MNN
