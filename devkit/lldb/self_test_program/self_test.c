/* The program that `devkit debug --self-test` debugs. No C++: nothing but libc is needed on the phone. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int doubled(int value) {
    int result = value * 2;
    return result; /* devkit self-test: breakpoint */
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    char line[64] = "";
    int total = doubled(21);
    if (strcmp(what, "read") == 0) {
        if (fgets(line, sizeof line, stdin) == NULL)
            return 1;
        printf("heard %s", line);
    }
    if (strcmp(what, "wait") == 0) {
        puts("waiting");
        fflush(stdout);
        /* It ends by itself, whatever becomes of its debugger. */
        for (int i = 0; i < 6000; i++)
            usleep(10000);
    }
    printf("total %d\n", total);
    return total;
}
