// What the tests of `devkit run` and `devkit watch` run on the phone; the first argument says what to do.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sched.h>
#include <string>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

static void say(const char* text) {
  std::puts(text);
  std::fflush(stdout);
}

static volatile std::sig_atomic_t resized = 0;
static void on_resize(int) { resized = 1; }

static void show_size() {
  struct winsize size = {};
  ioctl(0, TIOCGWINSZ, &size);
  std::printf("terminal %d%d%d %dx%d\n", isatty(0), isatty(1), isatty(2), size.ws_row, size.ws_col);
  std::fflush(stdout);
}

// write FILE TEXT [FILE TEXT…]: folders are made.
static int write_files(int argc, char** argv) {
  for (int i = 2; i + 1 < argc; i += 2) {
    std::string path = argv[i];
    for (size_t slash = path.find('/', 1); slash != std::string::npos; slash = path.find('/', slash + 1))
      mkdir(path.substr(0, slash).c_str(), 0777);
    FILE* file = std::fopen(path.c_str(), "w");
    if (!file || std::fputs(argv[i + 1], file) < 0 || std::fclose(file) != 0) return 9;
  }
  return 0;
}

// As llm_demo's chat: the end of the input is not noticed.
static int chat() {
  char line[4096];
  for (;;) {
    if (!std::fgets(line, sizeof line, stdin)) {
      std::clearerr(stdin);
      usleep(20000);
      continue;
    }
    line[std::strcspn(line, "\n")] = 0;
    if (!std::strcmp(line, "/exit")) return 0;
    std::printf("A: %s\n", line);
    std::fflush(stdout);
  }
}

int main(int argc, char** argv) {
  std::string mode = argc > 1 ? argv[1] : "";
  if (mode == "exit") return std::atoi(argv[2]);
  if (mode == "write") return write_files(argc, argv);
  if (mode == "chat") return chat();
  if (mode == "env") {
    for (int i = 2; i < argc; ++i) say(std::getenv(argv[i]) ? std::getenv(argv[i]) : "unset");
    return 0;
  }
  if (mode == "args") {
    for (int i = 2; i < argc; ++i) std::printf("[%s]\n", argv[i]);
    return 0;
  }
  if (mode == "cat") {
    for (int c; (c = std::getchar()) != EOF;) std::putchar(c);
    return 0;
  }
  if (mode == "where") {
    char folder[4096];
    say(getcwd(folder, sizeof folder));
    std::printf("user %d\n", static_cast<int>(getuid()));
    cpu_set_t cpus;
    sched_getaffinity(0, sizeof cpus, &cpus);
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(cpu, &cpus)) std::printf("cpu %d\n", cpu);
    return 0;
  }
  if (mode == "ticks") {  // ticks COUNT EXIT_CODE
    for (int i = 0; i < std::atoi(argv[2]); ++i) {
      std::printf("tick %d\n", i);
      std::fflush(stdout);
      usleep(100000);
    }
    return std::atoi(argv[3]);
  }
  if (mode == "buffered") {  // as many programs: it leaves flushing to the C library
    std::printf("terminal %d%d%d\n", isatty(0), isatty(1), isatty(2));
    std::fputs("to stderr\n", stderr);
    for (;;) sleep(1);
  }
  if (mode == "size") {
    std::signal(SIGWINCH, on_resize);
    show_size();
    for (;;) {
      usleep(20000);
      if (resized) {
        resized = 0;
        show_size();
      }
    }
  }
  if (mode == "deaf") {
    std::signal(SIGTERM, SIG_IGN);
    std::signal(SIGHUP, SIG_IGN);
    std::signal(SIGINT, SIG_IGN);
  }
  say("waiting");
  for (;;) sleep(1);
}
