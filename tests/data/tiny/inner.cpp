#include <cstdio>
extern "C" int inner(int value) {
  int doubled = value * 2;
  std::printf("inner %d\n", doubled);  // line 4
  return doubled;
}
