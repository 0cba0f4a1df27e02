// SPDX-License-Identifier: Apache-2.0
// Programs of /system/bin whose work is done by a service of the phone (logcat, su, ...): hands over its
// standard files and working directory, waits, and ends as the service says. `log` needs no service. A
// recorder (simpleperf) does not die of the signals that end a recording, but passes them on.
#include "raw.h"

enum {
    F_GETFD = 1,
    O_RDWR = 2,
    O_PATH = 010000000,
    FD_COUNT = 4,
    MOST_FDS = 5,
    LOG_MAIN = 0,
    LOG_MAX_PAYLOAD = 4068,
    LOG_HEADER_BYTES = 11,
    CLOCK_REALTIME = 0,
    MAX_PATH_BYTES = 4096,
    SIGHUP = 1,
    SIGINT = 2,
    SIGTERM = 15,
    SIG_IGN = 1,
    SIG_BLOCK = 0,
    SIGNAL_INFO_BYTES = 128,
    POLLIN = 1,
};

struct pollfd {
    int fd;
    short wanted, found;
};

static void say(const char *text) { CALL(SYS_write, 2, text, length(text), 0, 0, 0); }

static const char *base_name(const char *path) {
    const char *name = path;
    for (; *path; path++)
        if (*path == '/') name = path + 1;
    return name;
}

// The path of a file in a folder; a reduced phone has its own and says so in a variable.
static void place(char *path, char **environment, const char *variable, const char *folder, const char *name) {
    for (; *environment; environment++)
        if (starts_with(*environment, variable)) folder = *environment + length(variable);
    u64 size = length(folder), rest = length(name) + 1;
    if (size + 1 + rest > MAX_PATH_BYTES) size = 0;
    copy(path, folder, size);
    path[size] = '/';
    copy(path + size + 1, name, rest);
}

static int connect_service(char **environment, const char *name, int kind) {
    char path[MAX_PATH_BYTES];
    place(path, environment, "DEVKIT_SOCKETS=", "/dev/socket", name);
    return length(path) < sizeof(((struct sockaddr_un *)0)->path) ? connect_to(path, kind) : -EINTR;
}

// ---- log [-p PRIORITY] [-t TAG] MESSAGE...

static int priority_of(const char *text) {
    static const char letters[] = "vdiwefs";
    for (int i = 0; letters[i]; i++)
        if ((text[0] | 0x20) == letters[i] && !text[1]) return i + 2;
    return -1;
}

// How many seconds the phone's clock is ahead (devkit sim break clock); the file is there when it is wrong.
static u64 clock_jump(char **environment) {
    char path[MAX_PATH_BYTES];
    place(path, environment, "DEVKIT_CONTROL=", "/dev/.devkit", "clock.page");
    int fd = (int)CALL(SYS_openat, AT_FDCWD, path, 0, 0, 0, 0);
    if (fd < 0) return 0;
    u64 seconds = 0;
    if (read_some(fd, &seconds, sizeof seconds) != sizeof seconds) seconds = 0;
    CALL(SYS_close, fd, 0, 0, 0, 0, 0);
    return seconds;
}

static int write_log(int count, char **arguments, char **environment) {
    const char *tag = "log";
    int priority = 4, at = 1;
    for (; at < count && arguments[at][0] == '-' && arguments[at][1]; at++) {
        char option = arguments[at][1];
        if (option == '-' && !arguments[at][2]) {
            at++;
            break;
        }
        const char *value = arguments[at] + 2;
        if (!*value) value = ++at < count ? arguments[at] : 0;
        if ((option != 'p' && option != 't') || !value) {
            say("usage: log [-p PRI] [-t TAG] MESSAGE...\n");
            return 1;
        }
        if (option == 't') {
            tag = value;
        } else if ((priority = priority_of(value)) < 0) {
            say("log: bad -p '");
            say(value);
            say("'\n");
            return 1;
        }
    }
    u8 packet[LOG_HEADER_BYTES + LOG_MAX_PAYLOAD];
    u64 now[2];
    CALL(SYS_clock_gettime, CLOCK_REALTIME, now, 0, 0, 0, 0);
    now[0] += clock_jump(environment);
    u16 tid = (u16)CALL(SYS_gettid, 0, 0, 0, 0, 0, 0);
    u32 seconds = (u32)now[0], nanoseconds = (u32)now[1];
    packet[0] = LOG_MAIN;
    copy(packet + 1, &tid, 2);
    copy(packet + 3, &seconds, 4);
    copy(packet + 7, &nanoseconds, 4);
    u64 size = LOG_HEADER_BYTES;
    packet[size++] = (u8)priority;
    u64 limit = sizeof packet - 1;
    for (; *tag && size < limit - 1; tag++) packet[size++] = (u8)*tag;
    packet[size++] = 0;
    for (int first = at; at < count; at++) {
        if (at > first && size < limit) packet[size++] = ' ';
        for (const char *text = arguments[at]; *text && size < limit; text++) packet[size++] = (u8)*text;
    }
    packet[size++] = 0;
    int fd = connect_service(environment, "logdw", SOCK_DGRAM);
    return fd < 0 || send_all(fd, packet, size) < 0;
}

// ---- everything else

// A descriptor that yields the signals which end a recording. A hang-up that is ignored stays ignored.
static int take_signals(void) {
    u64 action[4] = {0, 0, 0, 0};
    u64 set = 1UL << (SIGINT - 1) | 1UL << (SIGTERM - 1);
    CALL(SYS_rt_sigaction, SIGHUP, 0, action, sizeof set, 0, 0);
    if (action[0] != SIG_IGN) set |= 1UL << (SIGHUP - 1);
    CALL(SYS_rt_sigprocmask, SIG_BLOCK, &set, 0, sizeof set, 0, 0);
    return (int)CALL(SYS_signalfd4, -1, &set, sizeof set, 02000000, 0, 0);
}

// Returns when the service has something to say.
static void pass_signals_on(int fd, int signals) {
    for (;;) {
        struct pollfd both[2] = {{fd, POLLIN, 0}, {signals, POLLIN, 0}};
        if (CALL(SYS_ppoll, both, 2, 0, 0, 0, 0) < 0 || both[0].found) return;
        u8 info[SIGNAL_INFO_BYTES];
        if (both[1].found && read_some(signals, info, sizeof info) == sizeof info) send_all(fd, info, 1);
    }
}

// simpleperf writes STARTED into a descriptor and closes it: the service does, so that it is open nowhere else.
static int told_descriptor(char **arguments) {
    for (; *arguments; arguments++) {
        if (!equal(*arguments, "--start_profiling_fd") || !arguments[1]) continue;
        int fd = 0;
        for (const char *digit = arguments[1]; *digit >= '0' && *digit <= '9' && fd < 1 << 20; digit++)
            fd = fd * 10 + (*digit - '0');
        return fd;
    }
    return -1;
}

static int run_by_service(const char *name, char **arguments, char **environment) {
    int fd = connect_service(environment, equal(name, "su") ? "su" : "applets", SOCK_STREAM);
    if (fd < 0) {
        say(name);
        say(": its service does not answer\n");
        return 1;
    }
    int fds[MOST_FDS], told = -1;
    u64 count = FD_COUNT;
    for (int i = 0; i < 3; i++) {
        fds[i] = i;
        if (CALL(SYS_fcntl, i, F_GETFD, 0, 0, 0, 0) < 0)
            fds[i] = (int)CALL(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR, 0, 0, 0);
    }
    fds[3] = (int)CALL(SYS_openat, AT_FDCWD, ".", O_PATH, 0, 0, 0);
    if (fds[3] < 0) fds[3] = (int)CALL(SYS_openat, AT_FDCWD, "/", O_PATH, 0, 0, 0);
    if (starts_with(name, "simpleperf")) told = told_descriptor(arguments);
    if (told > 2 && CALL(SYS_fcntl, told, F_GETFD, 0, 0, 0, 0) >= 0) fds[count++] = told;
    struct {
        u64 size;
        int level, type;
        int fds[MOST_FDS + 1];
    } control = {16 + count * sizeof(int), SOL_SOCKET, SCM_RIGHTS, {0}};
    copy(control.fds, fds, count * sizeof(int));
    struct iovec part = {"A", 1};
    struct msghdr message;
    clear(&message, sizeof message);
    message.parts = &part;
    message.part_count = 1;
    message.control = &control;
    message.control_length = 16 + ((count * sizeof(int) + 7) & ~7UL);
    // Arguments and environment are read out of /proc by the service.
    if (CALL(SYS_sendmsg, fd, &message, MSG_NOSIGNAL, 0, 0, 0) != 1) return 1;
    if (count > FD_COUNT) CALL(SYS_close, told, 0, 0, 0, 0, 0);
    if (starts_with(name, "simpleperf")) pass_signals_on(fd, take_signals());
    u8 answer[2];
    for (u64 got = 0; got < sizeof answer;) {
        i64 piece = read_some(fd, answer + got, sizeof answer - got);
        if (piece <= 0) return 1;
        got += (u64)piece;
    }
    if (answer[1]) {
        i64 self = CALL(SYS_getpid, 0, 0, 0, 0, 0, 0);
        CALL(SYS_tgkill, self, self, answer[1], 0, 0, 0);
    }
    return answer[0];
}

__attribute__((used)) static void run(u64 *stack) {
    int count = (int)stack[0];
    char **arguments = (char **)(stack + 1);
    const char *name = count > 0 ? base_name(arguments[0]) : "";
    char **environment = arguments + count + 1;
    leave(equal(name, "log") ? write_log(count, arguments, environment) : run_by_service(name, arguments, environment));
}

#if defined(__x86_64__)
__asm__(".text\n.globl _start\n_start:\n  movq %rsp, %rdi\n  andq $-16, %rsp\n  call run\n");
#else
__asm__(".text\n.globl _start\n_start:\n  mov x0, sp\n  bl run\n");
#endif
