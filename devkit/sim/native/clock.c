// SPDX-License-Identifier: Apache-2.0
// The clock of a phone that has jumped (devkit sim break clock): preloaded into programs while it does, it
// moves what they take for the time of day. Needs no C library to load; what it calls of one is the program's.
#include "raw.h"

#define EXPORT __attribute__((visibility("default")))

enum {
    CLOCK_REALTIME = 0,
    CLOCK_MONOTONIC = 1,
    CLOCK_REALTIME_COARSE = 5,
    CLOCK_TAI = 11,
    TIMER_ABSTIME = 1,
    TIME_UTC = 1,
    UTIME_NOW = (1 << 30) - 1,
    EPERM = 1,
    ENOSYS = 38,
    PROT_READ = 1,
    MAP_SHARED = 1,
    PAGE_BYTES = 4096,
    MAX_PATH_BYTES = 4096,
    // No phone has been up for so many seconds: a later time is one of the calendar.
    CALENDAR = 1000000000,
};

struct time {
    i64 seconds, nanoseconds;
};
struct time_of_day {
    i64 seconds, microseconds;
};

extern int *__errno_location(void) __attribute__((weak));
extern char **environ __attribute__((weak));
// Since glibc 2.30; without them the phone does not preload this.
extern int pthread_cond_clockwait(void *, void *, int, const struct time *) __attribute__((weak));
extern int pthread_mutex_clocklock(void *, int, const struct time *) __attribute__((weak));
extern int pthread_rwlock_clockrdlock(void *, int, const struct time *) __attribute__((weak));
extern int pthread_rwlock_clockwrlock(void *, int, const struct time *) __attribute__((weak));
extern int sem_clockwait(void *, int, const struct time *) __attribute__((weak));

static int failed(i64 result) {
    if (result >= 0) return (int)result;
    if (__errno_location) *__errno_location() = (int)-result;
    return -1;
}

// ---- how far the clock has jumped: the first 8 bytes of a file that is changed in place

static i64 no_jump;
static const volatile i64 *volatile page;

static const volatile i64 *map_page(void) {
    static const char variable[] = "DEVKIT_CONTROL=", name[] = "/clock.page";
    const char *folder = "/dev/.devkit";
    for (char **entry = &environ ? environ : 0; entry && *entry; entry++)
        if (starts_with(*entry, variable)) folder = *entry + sizeof variable - 1;
    char path[MAX_PATH_BYTES];
    u64 size = length(folder);
    if (size + sizeof name > sizeof path) return &no_jump;
    copy(path, folder, size);
    copy(path + size, name, sizeof name);
    enum { O_CLOEXEC = 02000000 };
    i64 fd = CALL(SYS_openat, AT_FDCWD, path, O_CLOEXEC, 0, 0, 0);
    if (fd < 0) return &no_jump;
    i64 address = CALL(SYS_mmap, 0, PAGE_BYTES, PROT_READ, MAP_SHARED, fd, 0);
    CALL(SYS_close, fd, 0, 0, 0, 0, 0);
    return address < 0 && address > -PAGE_BYTES ? &no_jump : (const volatile i64 *)address;
}

static i64 jump(void) {
    if (!page) page = map_page();
    return *page;
}

static i64 read_clock(int clock, struct time *now) {
    i64 result = CALL(SYS_clock_gettime, clock, now, 0, 0, 0, 0);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI))
        now->seconds += jump();
    return result;
}

// ---- reading it

EXPORT int clock_gettime(int clock, struct time *now) { return failed(read_clock(clock, now)); }

EXPORT int gettimeofday(struct time_of_day *now, void *zone) {
    struct time time = {0, 0};
    if (now) {
        i64 result = read_clock(CLOCK_REALTIME, &time);
        if (result < 0) return failed(result);
        now->seconds = time.seconds;
        now->microseconds = time.nanoseconds / 1000;
    }
    if (zone) clear(zone, 8);
    return 0;
}

EXPORT i64 time(i64 *now) {
    struct time time = {0, 0};
    read_clock(CLOCK_REALTIME, &time);
    if (now) *now = time.seconds;
    return time.seconds;
}

EXPORT int timespec_get(struct time *now, int base) {
    return base == TIME_UTC && read_clock(CLOCK_REALTIME, now) == 0 ? base : 0;
}

// ---- waiting for a time of day: the kernel knows the clock that has not jumped

// The time as the kernel counts it, and by which clock.
static int unjumped(const struct time *until, struct time *result) {
    *result = *until;
    if (until->seconds < CALENDAR && until->seconds - jump() < CALENDAR) return CLOCK_MONOTONIC;
    result->seconds -= jump();
    if (result->seconds < 0) result->seconds = result->nanoseconds = 0;
    return CLOCK_REALTIME;
}

EXPORT int pthread_cond_timedwait(void *condition, void *mutex, const struct time *until) {
    struct time time;
    // By which clock the condition waits is an attribute of it; the time tells.
    int clock = unjumped(until, &time);
    return pthread_cond_clockwait ? pthread_cond_clockwait(condition, mutex, clock, &time) : ENOSYS;
}

EXPORT int pthread_mutex_timedlock(void *mutex, const struct time *until) {
    struct time time;
    unjumped(until, &time);
    return pthread_mutex_clocklock ? pthread_mutex_clocklock(mutex, CLOCK_REALTIME, &time) : ENOSYS;
}

EXPORT int pthread_rwlock_timedrdlock(void *lock, const struct time *until) {
    struct time time;
    unjumped(until, &time);
    return pthread_rwlock_clockrdlock ? pthread_rwlock_clockrdlock(lock, CLOCK_REALTIME, &time) : ENOSYS;
}

EXPORT int pthread_rwlock_timedwrlock(void *lock, const struct time *until) {
    struct time time;
    unjumped(until, &time);
    return pthread_rwlock_clockwrlock ? pthread_rwlock_clockwrlock(lock, CLOCK_REALTIME, &time) : ENOSYS;
}

EXPORT int sem_timedwait(void *semaphore, const struct time *until) {
    struct time time;
    unjumped(until, &time);
    return sem_clockwait ? sem_clockwait(semaphore, CLOCK_REALTIME, &time) : failed(-ENOSYS);
}

EXPORT int clock_nanosleep(int clock, int flags, const struct time *wanted, struct time *left) {
    struct time time = *wanted;
    if (clock == CLOCK_REALTIME && flags & TIMER_ABSTIME) unjumped(wanted, &time);
    return (int)-CALL(SYS_clock_nanosleep, clock, flags, &time, left, 0, 0);
}

// ---- "now" as the time of a file

static i64 set_times(int folder, const char *path, const struct time *times, int flags) {
    struct time changed[2] = {{0, UTIME_NOW}, {0, UTIME_NOW}};
    if (times) changed[0] = times[0], changed[1] = times[1];
    int is_now = 0;
    for (int i = 0; i < 2 && jump(); i++)
        if (changed[i].nanoseconds == UTIME_NOW) is_now = 1, read_clock(CLOCK_REALTIME, &changed[i]);
    i64 result = CALL(SYS_utimensat, folder, path, is_now ? changed : times, flags, 0, 0);
    // Who may write a file may make it new, but only its owner may choose a time.
    if (result == -EPERM && is_now) result = CALL(SYS_utimensat, folder, path, times, flags, 0, 0);
    return result;
}

EXPORT int utimensat(int folder, const char *path, const struct time *times, int flags) {
    return failed(set_times(folder, path, times, flags));
}

EXPORT int futimens(int fd, const struct time *times) { return failed(set_times(fd, 0, times, 0)); }
