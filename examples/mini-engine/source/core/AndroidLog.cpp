// SPDX-License-Identifier: Apache-2.0
// What liblog's logd_writer does: a header of 11 bytes, priority, tag and text in one datagram to logd.
#include <MNN/AndroidLog.h>

#ifndef __ANDROID__
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {
const char kSocketFolder[] = "/dev/socket";
// Where devkit's virtual phone is a plain folder, it says where its sockets are.
const char kFolderVariable[] = "DEVKIT_SOCKETS";
const uint8_t kMainLog = 0;
// LOGGER_ENTRY_MAX_PAYLOAD: priority, tag, text and the two ends of the strings.
const size_t kMaxPayload = 4068;
// __android_log_vprint formats into a buffer of this size and cuts what is longer.
const size_t kMaxText = 1024;

struct __attribute__((packed)) Header {
    uint8_t logId;
    uint16_t thread;
    uint32_t seconds;
    uint32_t nanoseconds;
};

// The connection of this process; a forked child shares it, which a datagram socket allows.
int connection() {
    static const int fd = [] {
        const int opened = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        sockaddr_un address = {};
        address.sun_family = AF_UNIX;
        const char* const folder = std::getenv(kFolderVariable);
        std::snprintf(address.sun_path, sizeof address.sun_path, "%s/logdw", folder ? folder : kSocketFolder);
        if (opened >= 0 && connect(opened, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
            close(opened);
            return -1;
        }
        return opened;
    }();
    return fd;
}
} // namespace

extern "C" int __android_log_write(int priority, const char* tag, const char* text) {
    const int fd = connection();
    if (fd < 0) {
        return -ENOENT;
    }
    timespec now = {};
    clock_gettime(CLOCK_REALTIME, &now);
    const Header header = {kMainLog, static_cast<uint16_t>(syscall(SYS_gettid)), static_cast<uint32_t>(now.tv_sec),
                           static_cast<uint32_t>(now.tv_nsec)};
    char packet[sizeof header + kMaxPayload];
    std::memcpy(packet, &header, sizeof header);
    char* end = packet + sizeof header;
    char* const limit = packet + sizeof packet - 1;
    *end++ = static_cast<char>(priority);
    for (const char* part : {tag, text}) {
        const size_t count = std::min(std::strlen(part), static_cast<size_t>(limit - end));
        std::memcpy(end, part, count);
        end += count;
        *end = '\0';
        end += end < limit ? 1 : 0;
    }
    // Waits while logd is busy: unlike liblog's, no message is dropped.
    ssize_t sent;
    do {
        sent = send(fd, packet, static_cast<size_t>(end - packet), MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    return sent < 0 ? -errno : 1;
}

extern "C" int __android_log_vprint(int priority, const char* tag, const char* format, va_list arguments) {
    char text[kMaxText];
    std::vsnprintf(text, sizeof text, format, arguments);
    return __android_log_write(priority, tag, text);
}

extern "C" int __android_log_print(int priority, const char* tag, const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const int result = __android_log_vprint(priority, tag, format, arguments);
    va_end(arguments);
    return result;
}
#endif
