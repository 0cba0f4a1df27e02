// SPDX-License-Identifier: Apache-2.0
#include "core/ThreadPool.hpp"
#include <algorithm>
#if defined(__linux__)
#include <pthread.h>
#include <cstdio>
#endif

namespace MNN {
ThreadPool::ThreadPool(int threads) {
    for (int i = 1; i < std::max(threads, 1); ++i) {
        mWorkers.emplace_back([this, i] { work(i); });
    }
}

ThreadPool::~ThreadPool() {
    {
        std::lock_guard<std::mutex> lock(mMutex);
        mStop = true;
    }
    mWake.notify_all();
    for (auto& worker : mWorkers) {
        worker.join();
    }
}

void ThreadPool::enqueue(int parts, const std::function<void(int)>& task) {
    std::unique_lock<std::mutex> lock(mMutex);
    mTask = &task;
    mParts = parts;
    mNext = 0;
    mUnfinished = parts;
    if (parts > 1) {
        mWake.notify_all();
    }
    takeParts(lock);
    mDone.wait(lock, [this] { return mUnfinished == 0; });
    mTask = nullptr;
}

void ThreadPool::work(int index) {
#if defined(__linux__)
    char name[16];
    std::snprintf(name, sizeof(name), "MNN-worker-%d", index);
    pthread_setname_np(pthread_self(), name);
#else
    (void)index;
#endif
    std::unique_lock<std::mutex> lock(mMutex);
    while (true) {
        mWake.wait(lock, [this] { return mStop || (mTask != nullptr && mNext < mParts); });
        if (mStop) {
            return;
        }
        takeParts(lock);
    }
}

void ThreadPool::takeParts(std::unique_lock<std::mutex>& lock) {
    while (mNext < mParts) {
        const int part = mNext++;
        const auto& task = *mTask;
        lock.unlock();
        task(part);
        lock.lock();
        if (--mUnfinished == 0) {
            mDone.notify_one();
        }
    }
}
} // namespace MNN
