// Writes behind the end of a block when it is told to: overflow [heap].
#include <cstdio>
#include <cstring>

static int fill(int* values, int count) {
  int last = 0;
  for (int i = 0; i <= count; ++i) values[i] = last = i;  // line 7
  return last;
}

int main(int argc, char** argv) {
  int* values = new int[4];
  std::printf("begin\n");
  const bool wrong = argc > 1 && std::strcmp(argv[1], "heap") == 0;
  const int last = fill(values, wrong ? 4 : 3);
  std::printf("last %d\n", last);
  delete[] values;
  return last;
}
