#pragma once
namespace MNN {
int cpuThreads(int wanted);
const char* backends();
} // namespace MNN
