// What a program can ask of the clock, and how it waits by it: `clock` tells once, `clock follow` for each line.
#include <pthread.h>
#include <semaphore.h>
#include <sys/time.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <ctime>
#include <mutex>

static double uptime() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

static timespec soon(clockid_t clock) {
    timespec time;
    clock_gettime(clock, &time);
    time.tv_nsec += 200'000'000;
    time.tv_sec += time.tv_nsec / 1'000'000'000;
    time.tv_nsec %= 1'000'000'000;
    return time;
}

template <typename Wait>
static void measure(const char *name, Wait wait) {
    const double before = uptime();
    wait();
    std::printf("%s %.3f\n", name, uptime() - before);
}

int main(int argc, char **argv) {
    if (argc > 1) {
        do {
            std::printf("%ld\n", (long)std::time(nullptr));
            std::fflush(stdout);
        } while (std::getchar() != EOF);
        return 0;
    }
    timeval day;
    gettimeofday(&day, nullptr);
    timespec real, coarse, c11;
    clock_gettime(CLOCK_REALTIME, &real);
    clock_gettime(CLOCK_REALTIME_COARSE, &coarse);
    timespec_get(&c11, TIME_UTC);
    const auto chrono = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
    const long all[] = {(long)std::time(nullptr), day.tv_sec, real.tv_sec, coarse.tv_sec, c11.tv_sec, (long)chrono};
    for (long one : all) std::printf("time %ld\n", one);

    std::mutex mutex;
    std::unique_lock<std::mutex> lock(mutex);
    std::condition_variable condition;
    measure("wait_until", [&] {
        condition.wait_until(lock, std::chrono::system_clock::now() + std::chrono::milliseconds(200));
    });
    measure("wait_for", [&] { condition.wait_for(lock, std::chrono::milliseconds(200)); });
    sem_t semaphore;
    sem_init(&semaphore, 0, 0);
    timespec until = soon(CLOCK_REALTIME);
    measure("sem_timedwait", [&] { sem_timedwait(&semaphore, &until); });
    until = soon(CLOCK_REALTIME);
    measure("clock_nanosleep", [&] { clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &until, nullptr); });
    pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&held);
    until = soon(CLOCK_REALTIME);
    measure("mutex_timedlock", [&] { pthread_mutex_timedlock(&held, &until); });
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_t monotonic;
    pthread_cond_init(&monotonic, &attributes);
    until = soon(CLOCK_MONOTONIC);
    pthread_mutex_t other = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&other);
    measure("monotonic", [&] { pthread_cond_timedwait(&monotonic, &other, &until); });
}
