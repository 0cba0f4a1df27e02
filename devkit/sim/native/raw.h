// SPDX-License-Identifier: Apache-2.0
// The kernel's interface without a C library: what linker_hook.c and applet.c need of it.
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long u64;
typedef long i64;

#if defined(__x86_64__)
enum {
    SYS_read = 0, SYS_write = 1, SYS_close = 3, SYS_mmap = 9, SYS_rt_sigaction = 13, SYS_fcntl = 72,
    SYS_getpid = 39, SYS_socket = 41, SYS_connect = 42, SYS_sendmsg = 46, SYS_setsockopt = 54,
    SYS_sigaltstack = 131, SYS_prctl = 157, SYS_gettid = 186, SYS_clock_gettime = 228,
    SYS_exit_group = 231, SYS_tgkill = 234, SYS_openat = 257, SYS_readlinkat = 267,
    SYS_rt_tgsigqueueinfo = 297, SYS_utimensat = 280, SYS_clock_nanosleep = 230,
    SYS_rt_sigprocmask = 14, SYS_ppoll = 271, SYS_signalfd4 = 289,
};
static inline i64 sys6(i64 n, i64 a, i64 b, i64 c, i64 d, i64 e, i64 f) {
    i64 result;
    register i64 r10 __asm__("r10") = d;
    register i64 r8 __asm__("r8") = e;
    register i64 r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}
#elif defined(__aarch64__)
enum {
    SYS_read = 63, SYS_write = 64, SYS_close = 57, SYS_mmap = 222, SYS_rt_sigaction = 134, SYS_fcntl = 25,
    SYS_getpid = 172, SYS_socket = 198, SYS_connect = 203, SYS_sendmsg = 211, SYS_setsockopt = 208,
    SYS_sigaltstack = 132, SYS_prctl = 167, SYS_gettid = 178, SYS_clock_gettime = 113,
    SYS_exit_group = 94, SYS_tgkill = 131, SYS_openat = 56, SYS_readlinkat = 78,
    SYS_rt_tgsigqueueinfo = 240, SYS_utimensat = 88, SYS_clock_nanosleep = 115,
    SYS_rt_sigprocmask = 135, SYS_ppoll = 73, SYS_signalfd4 = 74,
};
static inline i64 sys6(i64 n, i64 a, i64 b, i64 c, i64 d, i64 e, i64 f) {
    register i64 x8 __asm__("x8") = n;
    register i64 x0 __asm__("x0") = a;
    register i64 x1 __asm__("x1") = b;
    register i64 x2 __asm__("x2") = c;
    register i64 x3 __asm__("x3") = d;
    register i64 x4 __asm__("x4") = e;
    register i64 x5 __asm__("x5") = f;
    __asm__ volatile("svc #0"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                     : "memory");
    return x0;
}
#else
#error no such processor on a virtual phone
#endif

#define CALL(n, a, b, c, d, e, f) \
    sys6(n, (i64)(a), (i64)(b), (i64)(c), (i64)(d), (i64)(e), (i64)(f))

enum {
    AF_UNIX = 1,
    SOCK_STREAM = 1,
    SOCK_DGRAM = 2,
    SOCK_CLOEXEC = 02000000,
    SOL_SOCKET = 1,
    SO_RCVTIMEO = 20,
    SCM_RIGHTS = 1,
    MSG_NOSIGNAL = 0x4000,
    EINTR = 4,
    AT_FDCWD = -100,
};

struct sockaddr_un {
    u16 family;
    char path[108];
};

struct iovec {
    const void *base;
    u64 length;
};

struct msghdr {
    void *name;
    u32 name_length;
    struct iovec *parts;
    u64 part_count;
    void *control;
    u64 control_length;
    u32 flags;
};

// Copies and fills byte by byte: the compiler would otherwise call a memcpy that is not there.
static inline void copy(void *to, const void *from, u64 count) {
    for (u64 i = 0; i < count; i++) ((volatile u8 *)to)[i] = ((const u8 *)from)[i];
}

static inline void clear(void *to, u64 count) {
    for (u64 i = 0; i < count; i++) ((volatile u8 *)to)[i] = 0;
}

static inline u64 length(const char *text) {
    u64 count = 0;
    while (text[count]) count++;
    return count;
}

static inline int starts_with(const char *text, const char *start) {
    while (*start)
        if (*text++ != *start++) return 0;
    return 1;
}

static inline int equal(const char *a, const char *b) {
    while (*a && *a == *b) a++, b++;
    return *a == *b;
}

// A socket that is connected to a service of the phone, or a negative number.
static inline int connect_to(const char *path, int kind) {
    struct sockaddr_un address;
    clear(&address, sizeof address);
    address.family = AF_UNIX;
    copy(address.path, path, length(path));
    int fd = (int)CALL(SYS_socket, AF_UNIX, kind | SOCK_CLOEXEC, 0, 0, 0, 0);
    if (fd < 0) return fd;
    i64 result = CALL(SYS_connect, fd, &address, sizeof address, 0, 0, 0);
    if (result < 0) {
        CALL(SYS_close, fd, 0, 0, 0, 0, 0);
        return (int)result;
    }
    return fd;
}

static inline i64 send_all(int fd, const void *data, u64 count) {
    struct iovec part = {data, count};
    struct msghdr message;
    clear(&message, sizeof message);
    message.parts = &part;
    message.part_count = 1;
    return CALL(SYS_sendmsg, fd, &message, MSG_NOSIGNAL, 0, 0, 0);
}

static inline i64 read_some(int fd, void *data, u64 count) {
    i64 result;
    do result = CALL(SYS_read, fd, data, count, 0, 0, 0);
    while (result == -EINTR);
    return result;
}

static inline __attribute__((noreturn)) void leave(int code) {
    for (;;) CALL(SYS_exit_group, code, 0, 0, 0, 0, 0);
}
