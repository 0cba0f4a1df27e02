// SPDX-License-Identifier: Apache-2.0
// liblog's three ways to write a message, for systems whose log daemon speaks Android's protocol but that
// have no liblog: devkit's virtual phone. On Android use <android/log.h>.
#ifndef MNN_ANDROIDLOG_H
#define MNN_ANDROIDLOG_H

#ifdef __ANDROID__
#include <android/log.h>
#else
#include <MNN/MNNDefine.h>
#include <stdarg.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum android_LogPriority {
    ANDROID_LOG_UNKNOWN = 0,
    ANDROID_LOG_DEFAULT,
    ANDROID_LOG_VERBOSE,
    ANDROID_LOG_DEBUG,
    ANDROID_LOG_INFO,
    ANDROID_LOG_WARN,
    ANDROID_LOG_ERROR,
    ANDROID_LOG_FATAL,
    ANDROID_LOG_SILENT,
} android_LogPriority;

// All return 1 when the message was sent, a negative errno when not (there is no log daemon).
MNN_PUBLIC int __android_log_write(int priority, const char* tag, const char* text);
MNN_PUBLIC int __android_log_print(int priority, const char* tag, const char* format, ...) MNN_PRINTF_LIKE(3, 4);
MNN_PUBLIC int __android_log_vprint(int priority, const char* tag, const char* format, va_list arguments)
    MNN_PRINTF_LIKE(3, 0);

#ifdef __cplusplus
}
#endif
#endif
#endif
