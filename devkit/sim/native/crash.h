// SPDX-License-Identifier: Apache-2.0
// The handlers of fatal signals through which a crash is reported, as bionic's linker installs them
// (debuggerd_init). Whoever includes this defines CRASH_SOCKET. No data of its own.
#pragma once
#include "raw.h"

enum {
    SA_SIGINFO = 4,
    SA_RESTORER = 0x04000000,
    SA_ONSTACK = 0x08000000,
    SA_RESTART = 0x10000000,
    PROT_READ_WRITE = 3,
    MAP_PRIVATE_ANONYMOUS = 0x22,
    PR_SET_DUMPABLE = 4,
    PR_SET_PTRACER = 0x59616d61,
    SIGABRT = 6,
    O_CLOEXEC = 02000000,
    ALT_STACK_BYTES = 64 * 1024,
};

struct action {
    void *handler;
    u64 flags;
    void *restorer;
    u64 mask;
};
#if defined(__x86_64__)
enum { ACTION_FLAGS = SA_SIGINFO | SA_RESTART | SA_ONSTACK | SA_RESTORER };
#else
enum { ACTION_FLAGS = SA_SIGINFO | SA_RESTART | SA_ONSTACK };
#endif

struct alt_stack {
    void *start;
    int flags;
    u64 size;
};

// What the crash service is told; devkit/sim/crashes/service.py reads it.
struct crash_report {
    u32 version;
    u32 tid;
    u64 context;
    u8 siginfo[128];
};

void return_from_handler(void) __attribute__((visibility("hidden")));
#if defined(__x86_64__)
__asm__(
    ".text\n"
    ".globl return_from_handler\n.hidden return_from_handler\n"
    "return_from_handler:\n"
    "  movq $15, %rax\n"
    "  syscall\n");
#endif

static void set_action(int number, void *handler, u64 flags) {
    struct action action;
    clear(&action, sizeof action);
    action.handler = handler;
    action.flags = flags;
#if defined(__x86_64__)
    action.restorer = (void *)return_from_handler;
#endif
    action.mask = ~0ul;
    CALL(SYS_rt_sigaction, number, &action, 0, sizeof action.mask, 0, 0);
}

static void die_of(int number, void *info, i64 pid, i64 tid) {
    set_action(number, 0, 0);
#if defined(__aarch64__)
    // qemu, which runs such programs on other machines, dies of a fault that is queued. What has faulted
    // does so again when the handler returns.
    enum { SIGILL = 4, SIGBUS = 7, SIGFPE = 8, SIGSEGV = 11 };
    int faulted = number == SIGILL || number == SIGBUS || number == SIGFPE || number == SIGSEGV;
    if (faulted && ((int *)info)[2] > 0) return;
#endif
    // With the original siginfo, so that whoever waits or traces sees the true cause. It is delivered
    // when the handler returns and the signal is no longer blocked.
    if (CALL(SYS_rt_tgsigqueueinfo, pid, tid, number, info, 0, 0) != 0)
        CALL(SYS_tgkill, pid, tid, number, 0, 0, 0);
}

static void on_fatal_signal(int number, void *info, void *context) {
    i64 pid = CALL(SYS_getpid, 0, 0, 0, 0, 0, 0);
    i64 tid = CALL(SYS_gettid, 0, 0, 0, 0, 0, 0);
    int fd = connect_to(CRASH_SOCKET, SOCK_STREAM);
    if (fd >= 0) {
        // The service is no ancestor of this process: where Yama asks for a permission, this gives it.
        CALL(SYS_prctl, PR_SET_DUMPABLE, 1, 0, 0, 0, 0);
        CALL(SYS_prctl, PR_SET_PTRACER, -1, 0, 0, 0, 0);
        struct crash_report report;
        report.version = 1;
        report.tid = (u32)tid;
        report.context = (u64)context;
        copy(report.siginfo, info, sizeof report.siginfo);
        u8 answer;
        // Answered once everything has been read out of this process. Of two threads that crash together,
        // the second is never answered.
        if (send_all(fd, &report, sizeof report) == sizeof report) read_some(fd, &answer, 1);
        CALL(SYS_close, fd, 0, 0, 0, 0, 0);
    }
    die_of(number, info, pid, tid);
}

static void install_handlers(void) {
    // SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGSTKFLT, SIGSYS, as bionic's linker.
    static const u8 signals[] __attribute__((section(".text"))) = {4, 5, 6, 7, 8, 11, 16, 31};
    for (u64 i = 0; i < sizeof signals; i++) set_action(signals[i], (void *)on_fatal_signal, ACTION_FLAGS);
    // A stack overflow leaves no room for the handler; bionic gives every thread such a stack.
    i64 memory = CALL(SYS_mmap, 0, ALT_STACK_BYTES, PROT_READ_WRITE, MAP_PRIVATE_ANONYMOUS, -1, 0);
    if (memory > 0) {
        struct alt_stack stack;
        clear(&stack, sizeof stack);
        stack.start = (void *)memory;
        stack.size = ALT_STACK_BYTES;
        CALL(SYS_sigaltstack, &stack, 0, 0, 0, 0, 0);
    }
}

// Whether a debugger has started this program.
static int is_traced(void) {
    static const char label[] __attribute__((section(".text"))) = "TracerPid:\t";
    char status[1024];
    int fd = (int)CALL(SYS_openat, AT_FDCWD, "/proc/self/status", O_CLOEXEC, 0, 0, 0);
    if (fd < 0) return 0;
    i64 count = read_some(fd, status, sizeof status - 1);
    CALL(SYS_close, fd, 0, 0, 0, 0, 0);
    for (i64 at = 0; at + (i64)sizeof label < count; at++)
        if (starts_with(status + at, label)) return status[at + sizeof label - 1] != '0';
    return 0;
}
