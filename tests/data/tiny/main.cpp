// What the tests run on the phone; the first argument says what to do.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <unistd.h>

extern "C" int inner(int value);

static void wait_forever() {
  std::puts("waiting");
  std::fflush(stdout);
  for (;;) sleep(1);
}

int main(int argc, char** argv) {
  std::string mode = argc > 1 ? argv[1] : "";
  if (mode == "exit") return std::atoi(argv[2]);
  if (mode == "abort") std::abort();
  if (mode == "wait") wait_forever();
  if (mode == "deaf") {
    std::signal(SIGTERM, SIG_IGN);
    std::signal(SIGHUP, SIG_IGN);
    wait_forever();
  }
  if (mode == "cat") {
    char line[4096];
    while (std::fgets(line, sizeof line, stdin)) std::fputs(line, stdout);
    std::fputs("eof\n", stderr);
    return 0;
  }
  if (mode == "env") {
    const char* value = std::getenv(argv[2]);
    std::puts(value ? value : "unset");
    return 0;
  }
  if (mode == "args") {
    for (int i = 2; i < argc; ++i) std::printf("[%s]\n", argv[i]);
    return 0;
  }
  int total = 0;
  for (int i = 0; i < 3; ++i) total += inner(i);
  std::printf("total %d\n", total);
  return 7;
}
