// SPDX-License-Identifier: Apache-2.0
// What every file of the engine needs: export marks and the two ways to print.
#ifndef MNN_MNNDEFINE_H
#define MNN_MNNDEFINE_H

#if defined(__GNUC__)
#define MNN_PUBLIC __attribute__((visibility("default")))
#define MNN_PRINTF_LIKE(text, first) __attribute__((format(printf, text, first)))
#else
#define MNN_PUBLIC
#define MNN_PRINTF_LIKE(text, first)
#endif

namespace MNN {
enum class LogLevel { Print, Error };

// To stdout; on Android with MNN_USE_LOGCAT to logcat as I/MNNJNI and E/MNNJNI.
MNN_PUBLIC void logMessage(LogLevel level, const char* format, ...) MNN_PRINTF_LIKE(2, 3);
} // namespace MNN

#define MNN_PRINT(...) ::MNN::logMessage(::MNN::LogLevel::Print, __VA_ARGS__)
#define MNN_ERROR(...) ::MNN::logMessage(::MNN::LogLevel::Error, __VA_ARGS__)

#endif
