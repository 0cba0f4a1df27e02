// SPDX-License-Identifier: Apache-2.0
// Preloaded into the programs of a reduced phone, whose ld.so is this machine's: a crash is reported all the same.
static char crash_socket[108];
#define CRASH_SOCKET crash_socket
#include "crash.h"

__attribute__((constructor)) static void start(int count, char **arguments, char **environment) {
    static const char variable[] = "DEVKIT_SOCKETS=", name[] = "/tombstoned_crash";
    (void)count, (void)arguments;
    for (; environment && *environment; environment++) {
        if (!starts_with(*environment, variable)) continue;
        const char *folder = *environment + sizeof variable - 1;
        u64 size = length(folder);
        if (size + sizeof name > sizeof crash_socket) return;
        copy(crash_socket, folder, size);
        copy(crash_socket + size, name, sizeof name);
        // As for the programs of other phones: see linker_hook.c.
        if (!is_traced()) install_handlers();
        return;
    }
}
