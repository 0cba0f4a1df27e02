// SPDX-License-Identifier: Apache-2.0
// What Android's linker does beyond glibc's ld.so when a program starts: it says in its own words which
// library is missing, and it installs the handlers through which a crash is reported (debuggerd_init).
// This code is appended to the phone's copy of ld.so and runs before it; it has no data of its own.
#include "raw.h"

enum {
    AT_NULL = 0,
    AT_ENTRY = 9,
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
    LINK_REPLY_TIMEOUT_S = 20,
    MAX_MESSAGE_BYTES = 4096,
    // Answers of the linker service.
    LINK_OK = 0,
    LINK_FAILED_EXIT = 1,
    LINK_FAILED_ABORT = 2,
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

// Replaced, when this is appended, by the distance from hook_start to ld.so's own entry.
__attribute__((section(".text"), used)) static const volatile i64 entry_distance = 0x6b6f6f6872656b6c;

extern const u8 hook_start[] __attribute__((visibility("hidden")));
void return_from_handler(void) __attribute__((visibility("hidden")));

#if defined(__x86_64__)
__asm__(
    ".text\n"
    ".globl hook_start\n.hidden hook_start\n"
    "hook_start:\n"
    "  movq %rsp, %rdi\n"
    "  pushq %rdx\n"
    "  subq $8, %rsp\n"
    "  call start_program\n"
    "  addq $8, %rsp\n"
    "  popq %rdx\n"
    "  jmpq *%rax\n"
    ".globl return_from_handler\n.hidden return_from_handler\n"
    "return_from_handler:\n"
    "  movq $15, %rax\n"
    "  syscall\n");
#else
__asm__(
    ".text\n"
    ".globl hook_start\n.hidden hook_start\n"
    "hook_start:\n"
    "  mov x0, sp\n"
    "  bl start_program\n"
    "  br x0\n");
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
    int fd = connect_to("/dev/socket/tombstoned_crash", SOCK_STREAM);
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

// Has the linker service look at the program's libraries before ld.so does; returns if they are all there.
static void check_libraries(void) {
    char path[16];
    i64 count = CALL(SYS_readlinkat, AT_FDCWD, "/proc/self/exe", path, sizeof path, 0, 0);
    // Programs of the phone itself are complete, and most starts are theirs.
    if (count < 0 || (count == sizeof path && starts_with(path, "/system/bin/"))) return;
    int fd = connect_to("/dev/socket/linker", SOCK_STREAM);
    if (fd < 0) return;
    i64 timeout[2] = {LINK_REPLY_TIMEOUT_S, 0};
    CALL(SYS_setsockopt, fd, SOL_SOCKET, SO_RCVTIMEO, timeout, sizeof timeout, 0);
    u8 reply[MAX_MESSAGE_BYTES];
    i64 got = 0;
    i64 piece;
    // The connection is the question: the service knows who made it.
    while (got < (i64)sizeof reply && (piece = read_some(fd, reply + got, sizeof reply - got)) > 0)
        got += piece;
    CALL(SYS_close, fd, 0, 0, 0, 0, 0);
    if (got <= 0 || reply[0] == LINK_OK) return;
    for (i64 at = 1; at < got;) {
        i64 written = CALL(SYS_write, 2, reply + at, got - at, 0, 0, 0);
        if (written <= 0 && written != -EINTR) break;
        if (written > 0) at += written;
    }
    if (reply[0] == LINK_FAILED_ABORT) {
        i64 self = CALL(SYS_getpid, 0, 0, 0, 0, 0, 0);
        CALL(SYS_tgkill, self, CALL(SYS_gettid, 0, 0, 0, 0, 0, 0), SIGABRT, 0, 0, 0);
    }
    leave(1);
}

// Where the kernel says that the program starts.
static u64 *find_entry(u64 *stack) {
    u64 *at = stack + 1 + stack[0] + 1;
    while (*at++) {
    }
    while (at[0] != AT_NULL && at[0] != AT_ENTRY) at += 2;
    return at + 1;
}

// The first code of every dynamic program; returns ld.so's own entry.
__attribute__((used, visibility("hidden"))) u64 start_program(u64 *stack) {
    u64 own_entry = (u64)hook_start + (u64)entry_distance;
    u64 *program_entry = find_entry(stack);
    // A debugger is told of every signal first. Through the handler it would be told twice, as on a phone;
    // that is kept for those that attach later.
    if (!is_traced()) install_handlers();
    // ld.so itself was started as the program: it knows that by its own entry.
    if (*program_entry == (u64)hook_start)
        *program_entry = own_entry;
    else
        check_libraries();
    return own_entry;
}
