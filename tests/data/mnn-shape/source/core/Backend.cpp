#include <MNN/Engine.hpp>
namespace MNN {
const char* backends() {
#if defined(MNN_QNN_ENABLED)
    return "cpu qnn";
#else
    return "cpu";
#endif
}
} // namespace MNN
