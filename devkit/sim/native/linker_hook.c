// SPDX-License-Identifier: Apache-2.0
// What Android's linker does beyond glibc's ld.so when a program starts: it says in its own words which
// library is missing, and it installs the handlers through which a crash is reported (debuggerd_init).
// This code is appended to the phone's copy of ld.so and runs before it; it has no data of its own.
#define CRASH_SOCKET "/dev/socket/tombstoned_crash"
#include "crash.h"

enum {
    AT_NULL = 0,
    AT_ENTRY = 9,
    LINK_REPLY_TIMEOUT_S = 20,
    MAX_MESSAGE_BYTES = 4096,
    // Answers of the linker service.
    LINK_OK = 0,
    LINK_FAILED_EXIT = 1,
    LINK_FAILED_ABORT = 2,
};

// Replaced, when this is appended, by the distance from hook_start to ld.so's own entry.
__attribute__((section(".text"), used)) static const volatile i64 entry_distance = 0x6b6f6f6872656b6c;

extern const u8 hook_start[] __attribute__((visibility("hidden")));

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
    "  jmpq *%rax\n");
#else
__asm__(
    ".text\n"
    ".globl hook_start\n.hidden hook_start\n"
    "hook_start:\n"
    "  mov x0, sp\n"
    "  bl start_program\n"
    "  br x0\n");
#endif

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
