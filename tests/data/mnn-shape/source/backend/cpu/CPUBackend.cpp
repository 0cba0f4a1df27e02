#include <MNN/Engine.hpp>
namespace MNN {
int cpuThreads(int wanted) {
    return wanted > 0 ? wanted : 1;
}
} // namespace MNN
