/* Asks the phone's own FastRPC library what its compute DSP can do: the documented query DSPRPC_GET_DSP_INFO of
   remote_handle_control (remote.h of the Hexagon SDK and of github.com/qualcomm/fastrpc). It opens no session. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>

enum { GET_DSP_INFO = 2, COMPUTE_DSP = 3 };

struct capability {
  uint32_t domain, attribute, value;
};

int main(void) {
  static const char* const names[] = {"libcdsprpc.so", "/vendor/lib64/libcdsprpc.so"};
  static const struct {
    const char* name;
    uint32_t number;
  } asked[] = {{"DOMAIN_SUPPORT", 0}, {"UNSIGNED_PD_SUPPORT", 1}, {"ARCH_VER", 6}};
  void* library = NULL;
  for (unsigned i = 0; i < sizeof names / sizeof *names && !library; i++) {
    library = dlopen(names[i], RTLD_NOW);
    if (!library) printf("closed|%s\n", dlerror());
  }
  if (!library) return 0;
  int (*control)(uint32_t, void*, uint32_t) =
      (int (*)(uint32_t, void*, uint32_t))dlsym(library, "remote_handle_control");
  if (!control) {
    printf("old|remote_handle_control\n");
    return 0;
  }
  for (unsigned i = 0; i < sizeof asked / sizeof *asked; i++) {
    struct capability one = {COMPUTE_DSP, asked[i].number, 0};
    int error = control(GET_DSP_INFO, &one, sizeof one);
    printf("answer|%s|%u|%u\n", asked[i].name, (unsigned)error, one.value);
    fflush(stdout);
  }
  return 0;
}
