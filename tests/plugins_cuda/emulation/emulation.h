// CUDA's execution model on one host thread: a block's threads are coroutines that yield where they wait for each other,
// blocks run one after the other. It shows wrong indices, tails and missing barriers' deadlocks, nothing about speed.
#pragma once
#include <ucontext.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define __device__
#define __global__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __shared__ static

struct Index {
    unsigned x, y, z;
};
inline Index threadIdx, blockIdx, blockDim, gridDim;

namespace emulation {

constexpr size_t STACK = 256 * 1024;
constexpr int WARP = 32;

// Where `members` threads meet. Threads that have returned no longer count.
struct Meeting {
    int members = 0, arrived = 0;
    long long round = 0;
    void arrive() {
        if (++arrived < members) return;
        arrived = 0;
        ++round;
    }
    void leave() {
        --members;
        if (arrived && arrived == members) {
            arrived = 0;
            ++round;
        }
    }
};

struct Thread {
    ucontext_t context;
    std::vector<char> stack = std::vector<char>(STACK);
    bool done = false;
};

inline ucontext_t scheduler;
inline std::vector<Thread> threads;
inline std::vector<Meeting> warps;
inline Meeting block;
inline std::vector<float> shuffled;
inline void (*body)();

inline void wait(Meeting& meeting) {
    const long long round = meeting.round;
    meeting.arrive();
    while (meeting.round == round) swapcontext(&threads[threadIdx.x].context, &scheduler);
}

inline void run_thread() {
    body();
    threads[threadIdx.x].done = true;
    block.leave();
    warps[threadIdx.x / WARP].leave();
    swapcontext(&threads[threadIdx.x].context, &scheduler);
}

inline void start(unsigned count) {
    threads.resize(count);
    shuffled.resize(count);
    warps.assign((count + WARP - 1) / WARP, {});
    block = {static_cast<int>(count)};
    for (unsigned t = 0; t < count; ++t) {
        ++warps[t / WARP].members;
        threads[t].done = false;
        getcontext(&threads[t].context);
        threads[t].context.uc_stack.ss_sp = threads[t].stack.data();
        threads[t].context.uc_stack.ss_size = STACK;
        makecontext(&threads[t].context, run_thread, 0);
    }
}

inline void run_block(unsigned count) {
    start(count);
    for (unsigned alive = count; alive > 0;) {
        for (unsigned t = 0; t < count; ++t) {
            if (threads[t].done) continue;
            threadIdx = {t, 0, 0};
            swapcontext(&scheduler, &threads[t].context);
            alive -= threads[t].done;
        }
    }
}

}  // namespace emulation

inline void __syncthreads() { emulation::wait(emulation::block); }

inline float __shfl_xor_sync(unsigned, float value, int mask) {
    auto& warp = emulation::warps[threadIdx.x / emulation::WARP];
    emulation::shuffled[threadIdx.x] = value;
    emulation::wait(warp);
    const float other = emulation::shuffled[threadIdx.x ^ mask];
    emulation::wait(warp);
    return other;
}

inline float rsqrtf(float value) { return 1.0f / std::sqrt(value); }
using std::fmax;

// Runs one launch. By the System V ABI of x86-64, integers and pointers on one side and floats on the other are counted
// apart, so one signature calls any kernel.
typedef long long Word;
typedef void (*Kernel)(Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word,
                       float, float, float, float);

inline Kernel emulated;
inline const Word* words;
inline const float* floats;

extern "C" void launch(Kernel kernel, unsigned grid, unsigned threads, const Word* integers, const float* reals) {
    emulated = kernel;
    words = integers;
    floats = reals;
    emulation::body = [] {
        const Word* w = words;
        emulated(w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8], w[9], w[10], w[11], w[12], w[13], w[14], w[15],
                 floats[0], floats[1], floats[2], floats[3]);
    };
    gridDim = {grid, 1, 1};
    blockDim = {threads, 1, 1};
    for (unsigned b = 0; b < grid; ++b) {
        blockIdx = {b, 0, 0};
        emulation::run_block(threads);
    }
}
