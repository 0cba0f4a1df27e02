// SPDX-License-Identifier: Apache-2.0
// LD_PRELOAD=wait.so PROGRAM: the program stands before its first line until a debugger has come. For sessions
// whose debugger cannot launch the program itself: it is started in a terminal, and attached to.
// No C library: bionic's and glibc's are alike in this. Its only effect afterwards: any process of the same
// user may trace this one.

typedef long i64;
typedef unsigned long u64;

#if defined(__x86_64__)
enum { SYS_read = 0, SYS_close = 3, SYS_nanosleep = 35, SYS_prctl = 157, SYS_openat = 257 };
static i64 call(i64 n, i64 a, i64 b, i64 c, i64 d) {
    i64 result;
    register i64 r10 __asm__("r10") = d;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10)
                     : "rcx", "r11", "memory");
    return result;
}
#elif defined(__aarch64__)
enum { SYS_read = 63, SYS_close = 57, SYS_nanosleep = 101, SYS_prctl = 167, SYS_openat = 56 };
static i64 call(i64 n, i64 a, i64 b, i64 c, i64 d) {
    register i64 x8 __asm__("x8") = n;
    register i64 x0 __asm__("x0") = a;
    register i64 x1 __asm__("x1") = b;
    register i64 x2 __asm__("x2") = c;
    register i64 x3 __asm__("x3") = d;
    __asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
    return x0;
}
#else
#error no such processor
#endif

enum {
    AT_FDCWD = -100,
    O_CLOEXEC = 02000000,
    PR_SET_PTRACER = 0x59616d61,
    STATUS_BYTES = 2048,
    // A minute: a debugger that never comes holds nothing for longer.
    POLLS = 12000,
    POLL_NS = 5000000,
};

static const char *after(const char *text, const char *prefix) {
    for (; *prefix; text++, prefix++)
        if (*text != *prefix) return 0;
    return text;
}

// Whether somebody traces this process. Whoever cannot look is not kept waiting.
static int is_traced(void) {
    char status[STATUS_BYTES + 1];
    i64 file = call(SYS_openat, AT_FDCWD, (i64) "/proc/self/status", O_CLOEXEC, 0);
    if (file < 0) return 1;
    i64 size = call(SYS_read, file, (i64)status, STATUS_BYTES, 0);
    call(SYS_close, file, 0, 0, 0);
    if (size <= 0) return 1;
    status[size] = 0;
    for (const char *at = status; *at; at++) {
        const char *value = after(at, "TracerPid:\t");
        if (value) return *value != '0';
    }
    return 1;
}

// What the program starts is not to wait: the variable loses this library, which devkit put first.
static void leave(char **environment) {
    for (; *environment; environment++) {
        char *value = (char *)after(*environment, "LD_PRELOAD=");
        if (!value) continue;
        char *rest = value;
        while (*rest && *rest != ':') rest++;
        if (*rest == ':') rest++;
        while ((*value++ = *rest++)) {}
    }
}

__attribute__((constructor)) static void wait_for_debugger(int count, char **arguments, char **environment) {
    (void)count;
    (void)arguments;
    if (environment) leave(environment);
    // -1 is PR_SET_PTRACER_ANY. Without Yama the kernel does not know it, and needs no leave.
    call(SYS_prctl, PR_SET_PTRACER, -1, 0, 0);
    struct {
        i64 seconds, nanoseconds;
    } pause = {0, POLL_NS};
    for (int poll = 0; poll < POLLS && !is_traced(); poll++) call(SYS_nanosleep, (i64)&pause, 0, 0, 0);
}
