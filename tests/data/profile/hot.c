// Three functions that take 60, 30 and 10 % of the time, each in one loop. Arguments: seconds, then words:
// `thread` works in a thread of its own, `sleep` waits as long afterwards in nap(), `cat` copies its input, `file` writes made.txt.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define HOT __attribute__((noinline))
enum { SIXTY = 60, THIRTY = 30, TEN = 10 };

static unsigned state = 1;

HOT void sixty(int rounds) {
    for (int i = 0; i < SIXTY * rounds; i++) state = state * 1664525u + 1013904223u; // line of sixty
    __asm__ volatile("" : "+r"(rounds), "+m"(state));
}

HOT void thirty(int rounds) {
    for (int i = 0; i < THIRTY * rounds; i++) state = state * 1664525u + 1013904223u; // line of thirty
    __asm__ volatile("" : "+r"(rounds), "+m"(state));
}

HOT void ten(int rounds) {
    for (int i = 0; i < TEN * rounds; i++) state = state * 1664525u + 1013904223u; // line of ten
    __asm__ volatile("" : "+r"(rounds), "+m"(state));
}

static double seconds;

HOT void *work(void *unused) {
    struct timespec now;
    double end = 0;
    do {
        // Of changing length: with a steady beat, samples would always find the same function.
        const int rounds = 1000 + (int)(state >> 16) % 6000;
        sixty(rounds);
        thirty(rounds);
        ten(rounds);
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
        end = now.tv_sec + now.tv_nsec * 1e-9;
    } while (end < seconds);
    return unused;
}

HOT void nap(void) {
    usleep((useconds_t)(seconds * 1e6));
    __asm__ volatile("");
}

int main(int argc, char **argv) {
    seconds = argc > 1 ? atof(argv[1]) : 1;
    int in_thread = 0, sleeps = 0, copies = 0, writes = 0;
    for (int i = 2; i < argc; i++) {
        in_thread |= !strcmp(argv[i], "thread");
        sleeps |= !strcmp(argv[i], "sleep");
        copies |= !strcmp(argv[i], "cat");
        writes |= !strcmp(argv[i], "file");
    }
    if (copies) {
        char line[256];
        while (fgets(line, sizeof line, stdin)) fputs(line, stdout);
    }
    if (writes) {
        FILE *made = fopen("made.txt", "w");
        if (!made || fputs("made\n", made) < 0 || fclose(made)) return 1;
    }
    if (in_thread) {
        pthread_t thread;
        pthread_create(&thread, NULL, work, NULL);
        pthread_setname_np(thread, "worker");
        pthread_join(thread, NULL);
    } else {
        work(NULL);
    }
    if (sleeps) nap();
    printf("state %u\n", state != 0);
    return 7;
}
