// y = h / sqrt(mean(h^2) + epsilon) * weight + bias over rows of C, where h = x + residual as rounded to T.
// Memory-bound: 16-byte accesses where rows allow it, and the first KEPT of a thread's packs stay in registers, so that
// rows of up to KEPT packs a thread are read once.
#include "numeric.cuh"
#include "reduce.cuh"

constexpr int KEPT = 4;

// `bias`, `residual` and `sum` may be null. Rows are handed out to teams: a warp or a block.
template <typename T> struct Arguments {
    const T *x, *weight, *residual, *bias;
    T *y, *sum;
    float epsilon;
    long long rows, C;
};

// One row, read and written WIDTH elements at a time by `members` threads, of which this one is `member`.
template <typename T, int WIDTH, typename Sum>
__device__ __forceinline__ void norm_row(const Arguments<T>& a, long long row, int member, int members, Sum team_sum) {
    using Packed = Pack<T, WIDTH>;
    const long long base = row * a.C, packs = a.C / WIDTH;
    auto load = [](const T* from, long long p) { return reinterpret_cast<const Packed*>(from)[p]; };
    auto hidden = [&](long long p) {
        Packed h = load(a.x + base, p);
        if (a.residual) {
            const Packed r = load(a.residual + base, p);
#pragma unroll
            for (int k = 0; k < WIDTH; ++k) h.item[k] = from_float<T>(to_float(h.item[k]) + to_float(r.item[k]));
        }
        return h;
    };
    float squares = 0.0f;
    auto accumulate = [&](const Packed& h, long long p) {
        if (a.sum) reinterpret_cast<Packed*>(a.sum + base)[p] = h;
#pragma unroll
        for (int k = 0; k < WIDTH; ++k) squares += to_float(h.item[k]) * to_float(h.item[k]);
    };
    Packed kept[KEPT];
#pragma unroll
    for (int j = 0; j < KEPT; ++j) {
        const long long p = member + static_cast<long long>(j) * members;
        if (p < packs) accumulate(kept[j] = hidden(p), p);
    }
    const long long rest = member + static_cast<long long>(KEPT) * members;
#pragma unroll 1
    for (long long p = rest; p < packs; p += members) accumulate(hidden(p), p);

    const float factor = rsqrtf(team_sum(squares) / static_cast<float>(a.C) + a.epsilon);
    auto store = [&](Packed h, long long p) {
        const Packed w = load(a.weight, p);
        const Packed b = a.bias ? load(a.bias, p) : Packed{};
#pragma unroll
        for (int k = 0; k < WIDTH; ++k)
            h.item[k] = from_float<T>(to_float(h.item[k]) * factor * to_float(w.item[k]) + to_float(b.item[k]));
        reinterpret_cast<Packed*>(a.y + base)[p] = h;
    };
#pragma unroll
    for (int j = 0; j < KEPT; ++j) {
        const long long p = member + static_cast<long long>(j) * members;
        if (p < packs) store(kept[j], p);
    }
#pragma unroll 1
    for (long long p = rest; p < packs; p += members) store(a.sum ? load(a.sum + base, p) : hidden(p), p);
}

template <typename T, typename Sum>
__device__ __forceinline__ void norm_rows(const Arguments<T>& a, long long first, long long teams, int member,
                                          int members, Sum team_sum) {
    constexpr int WIDE = Pack<T>::size;
    const bool wide = a.C % WIDE == 0 && aligned16(a.x) && aligned16(a.weight) && aligned16(a.residual) &&
                      aligned16(a.bias) && aligned16(a.y) && aligned16(a.sum);
#pragma unroll 1
    for (long long row = first; row < a.rows; row += teams) {
        if (wide) norm_row<T, WIDE>(a, row, member, members, team_sum);
        else norm_row<T, 1>(a, row, member, members, team_sum);
    }
}

// A warp a row: for short ones.
template <typename T> __device__ void warps(const Arguments<T>& a) {
    const long long each = blockDim.x / 32;
    norm_rows(a, blockIdx.x * each + threadIdx.x / 32, gridDim.x * each, threadIdx.x % 32, 32,
              [](float v) { return warp_sum(v); });
}

// A block a row: for long ones.
template <typename T> __device__ void blocks(const Arguments<T>& a) {
    norm_rows(a, blockIdx.x, gridDim.x, threadIdx.x, blockDim.x,
              [](float v) { return block_sum(v); });
}

#define ENTRY(T, TEAM)                                                                                                 \
    extern "C" __global__ void __launch_bounds__(512)                                                                  \
        rms_norm_##TEAM##_##T(const T* x, const T* weight, const T* residual, const T* bias, T* y, T* sum,             \
                              float epsilon, long long rows, long long C) {                                            \
        TEAM<T>({x, weight, residual, bias, y, sum, epsilon, rows, C});                                                \
    }
#define ENTRIES(T) ENTRY(T, warps) ENTRY(T, blocks)

ENTRIES(f32)
ENTRIES(f16)
ENTRIES(bf16)
