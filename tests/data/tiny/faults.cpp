// What can go wrong, each with a mark at the line that a report has to name; the first argument says which.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <thread>

template <typename T>
static T* opaque(T* pointer) {
  asm volatile("" : "+r"(pointer) : : "memory");
  return pointer;
}

__attribute__((noinline)) static int read_weight(const int* weights, int index) {
  return weights[index];  // READ
}

__attribute__((noinline)) static int* make_weights(int count) {
  int* weights = static_cast<int*>(std::malloc(count * sizeof(int)));  // MALLOC
  std::memset(weights, 1, count * sizeof(int));
  return opaque(weights);
}

__attribute__((noinline)) static int overflow() {
  int* weights = make_weights(10);
  int value = 0;
  std::thread worker([&] { value = read_weight(weights, 11); });  // THREAD
  worker.join();
  return value;
}

__attribute__((noinline)) static int late_use() {
  int* weights = make_weights(4);
  std::free(weights);  // FREE
  return read_weight(opaque(weights), 1);
}

__attribute__((noinline)) static int missing(const char* name) {
  throw std::out_of_range(std::string("no tensor ") + name);  // THROW
}

__attribute__((noinline)) static int own_handler(int count) {
  std::fprintf(stderr, "#%d\n", count);
  std::abort();  // ABORT
}

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "";
  if (!std::strcmp(what, "null")) return read_weight(opaque<int>(nullptr), 2);
  if (!std::strcmp(what, "overflow")) return overflow();  // CALL
  if (!std::strcmp(what, "free")) return late_use();
  if (!std::strcmp(what, "throw")) return missing("attention.7");
  if (!std::strcmp(what, "abort")) return own_handler(argc);
  std::puts("fine");
  return 0;
}
