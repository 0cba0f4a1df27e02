// Prints a file as a program would print it, and exits with the code it is told: speak FILE [CODE [MODE]].
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <unistd.h>

int main(int argc, char** argv) {
  FILE* file = argc > 1 ? std::fopen(argv[1], "rb") : nullptr;
  if (!file) return 99;
  const std::string mode = argc > 3 ? argv[3] : "";
  for (int c; (c = std::fgetc(file)) != EOF;) std::putchar(c);
  std::fclose(file);
  std::fflush(stdout);
  if (mode == "stderr") std::fputs("Can't Find type=3 backend, use 0 instead\n", stderr);
  if (mode == "wait")
    for (;;) sleep(1);
  if (mode == "abort") std::abort();
  return argc > 2 ? std::atoi(argv[2]) : 0;
}
