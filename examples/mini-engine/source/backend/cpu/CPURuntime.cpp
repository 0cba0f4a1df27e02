// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/compute/CommonOptFunction.h"
#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

namespace MNN {
const CPUInfo& MNNGetCPUInfo() {
    static const CPUInfo info = [] {
        CPUInfo found;
#if defined(__aarch64__) && defined(__linux__)
        // Bits of linux/arch/arm64/include/uapi/asm/hwcap.h; old headers lack some of the names.
        const unsigned long capabilities = getauxval(AT_HWCAP);
        found.dot = (capabilities >> 20) & 1;   // HWCAP_ASIMDDP
        found.fp16a = (capabilities >> 10) & 1; // HWCAP_ASIMDHP
#ifdef AT_HWCAP2
        const unsigned long long more = getauxval(AT_HWCAP2);
        found.i8mm = (more >> 13) & 1; // HWCAP2_I8MM
        found.sve2 = (more >> 1) & 1;  // HWCAP2_SVE2
        found.sme2 = (more >> 37) & 1; // HWCAP2_SME2
#endif
#endif
        MNN_PRINT("The device supports: i8sdot:%d, fp16:%d, i8mm: %d, sve2: %d, sme2: %d\n", found.dot, found.fp16a,
                  found.i8mm, found.sve2, found.sme2);
        return found;
    }();
    return info;
}
} // namespace MNN
