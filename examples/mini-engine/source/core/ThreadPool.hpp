// SPDX-License-Identifier: Apache-2.0
#ifndef MNN_THREADPOOL_HPP
#define MNN_THREADPOOL_HPP

#include <MNN/MNNDefine.h>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace MNN {
// A fixed set of threads that share the parts of one task; the caller works too.
// Idle threads sleep. MNN's own pool spins, which is what makes it slow on busy machines.
class MNN_PUBLIC ThreadPool {
public:
    explicit ThreadPool(int threads);
    ~ThreadPool();
    ThreadPool(const ThreadPool&) = delete;
    ThreadPool& operator=(const ThreadPool&) = delete;

    int size() const {
        return static_cast<int>(mWorkers.size()) + 1;
    }
    // Calls task(0) … task(parts - 1), each once, and returns when all are done.
    void enqueue(int parts, const std::function<void(int)>& task);

private:
    void work(int index);
    void takeParts(std::unique_lock<std::mutex>& lock);

    std::vector<std::thread> mWorkers;
    std::mutex mMutex;
    std::condition_variable mWake;
    std::condition_variable mDone;
    const std::function<void(int)>* mTask = nullptr;
    int mParts = 0;
    int mNext = 0;
    int mUnfinished = 0;
    bool mStop = false;
};
} // namespace MNN

#endif
