// y = a @ transpose(w) + bias with w[n, k] = (q[n, k] - zero[n, k / block]) * scale[n, k / block], q of 4 or 8 bits.
// `dot` suits few rows of a (a warp a column of y, weights read once for all of them), `tile` many (64 x 64 of y a
// block through shared memory). Both unpack weights where they are used and accumulate in FP32.
#include "numeric.cuh"
#include "reduce.cuh"

using u8 = unsigned char;
using i64 = long long;

constexpr int RUN = 8;          // weights that a thread unpacks at once: a part of one block, as blocks are 16 or more
constexpr int ROWS = 8;         // of a, that `dot` serves
constexpr int SIDE = 64;        // of a tile of y
constexpr int DEPTH = 16;       // of k, that lies in shared memory
constexpr int EACH = 4;         // rows and columns of y a thread computes, and elements it loads
constexpr int EDGE = SIDE / EACH;

// The blocks of weight row n lie one after the other, so element k of the row is at bit k * BITS of it.
template <typename T, int BITS> struct Weights {
    const u8* packed;            // [N, blocks * block / (8 / BITS)]
    const T* scales;             // [N, blocks]
    const u8* packed_zeros;      // [N, ceil(blocks * BITS / 8)], or null
    const T* float_zeros;        // [N, blocks], or null; with neither the zero is the middle of q's range
    i64 blocks, shift;           // block = 2^shift

    __device__ i64 row_bytes() const { return (blocks << shift) * BITS / 8; }

    __device__ float zero(i64 n, i64 block) const {
        if (float_zeros) return to_float(float_zeros[n * blocks + block]);
        if (!packed_zeros) return 1 << (BITS - 1);
        if constexpr (BITS == 8) return packed_zeros[n * blocks + block];
        const u8 pair = packed_zeros[n * ((blocks + 1) / 2) + block / 2];
        return block % 2 ? pair >> 4 : pair & 15;
    }

    // w[n, k] to w[n, k + COUNT - 1], k a multiple of COUNT and COUNT at most a block.
    template <int COUNT> __device__ void unpack(i64 n, i64 k, float (&w)[COUNT]) const {
        constexpr int BYTES = COUNT * BITS / 8;
        const u8* from = packed + n * row_bytes() + k * BITS / 8;
        const i64 block = k >> shift;
        const float scale = to_float(scales[n * blocks + block]), shifted = zero(n, block);
        Pack<u8, BYTES> bytes;
        if (reinterpret_cast<unsigned long long>(packed) % BYTES == 0) {
            bytes = *reinterpret_cast<const Pack<u8, BYTES>*>(from);
        } else {
#pragma unroll
            for (int i = 0; i < BYTES; ++i) bytes.item[i] = from[i];
        }
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            const int q = BITS == 8 ? bytes.item[i] : (bytes.item[i / 2] >> (i % 2 * 4)) & 15;
            w[i] = (static_cast<float>(q) - shifted) * scale;
        }
    }
};

// a[k] to a[k + COUNT - 1] of a row of K elements, zeros beyond its end.
template <int COUNT, typename T> __device__ void load(const T* row, i64 k, i64 K, bool wide, float (&values)[COUNT]) {
    if (wide && k + COUNT <= K) {
        const auto pack = *reinterpret_cast<const Pack<T, COUNT>*>(row + k);
#pragma unroll
        for (int i = 0; i < COUNT; ++i) values[i] = to_float(pack.item[i]);
    } else {
#pragma unroll
        for (int i = 0; i < COUNT; ++i) values[i] = k + i < K ? to_float(row[k + i]) : 0.0f;
    }
}

// Whether every run of COUNT elements at a multiple of COUNT of every row lies at a multiple of its own size.
template <int COUNT, typename T> __device__ bool runs_aligned(const T* a, i64 K) {
    return K % COUNT == 0 && reinterpret_cast<unsigned long long>(a) % (COUNT * sizeof(T)) == 0;
}

// A warp a column of y, M at most ROWS.
template <typename T, int BITS>
__device__ void dot(const T* a, Weights<T, BITS> weights, const T* bias, T* y, i64 M, i64 N, i64 K) {
    const i64 n = (static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
    if (n >= N) return;  // a whole warp
    const int lane = threadIdx.x % 32;
    const bool wide = runs_aligned<RUN>(a, K);
    float sums[ROWS] = {};
#pragma unroll 1
    for (i64 k = lane * RUN; k < K; k += 32 * RUN) {
        float w[RUN], values[RUN];
        weights.unpack(n, k, w);
#pragma unroll
        for (int m = 0; m < ROWS; ++m) {
            if (m >= M) break;
            load(a + m * K, k, K, wide, values);
#pragma unroll
            for (int i = 0; i < RUN; ++i)
                if (k + i < K) sums[m] += values[i] * w[i];
        }
    }
#pragma unroll
    for (int m = 0; m < ROWS; ++m) {
        if (m >= M) break;
        const float sum = warp_sum(sums[m]);
        if (lane == 0) y[m * N + n] = from_float<T>(bias ? sum + to_float(bias[n]) : sum);
    }
}

// EDGE * EDGE threads. Tiles are numbered down the rows first, so that neighbours share weights.
template <typename T, int BITS>
__device__ void tile(const T* a, Weights<T, BITS> weights, const T* bias, T* y, i64 M, i64 N, i64 K) {
    __shared__ float a_tile[DEPTH][SIDE + EACH], w_tile[DEPTH][SIDE + EACH];
    const int column = threadIdx.x % EDGE, row = threadIdx.x / EDGE;
    const int loaded = threadIdx.x / (DEPTH / EACH), depth = threadIdx.x % (DEPTH / EACH) * EACH;
    const bool wide = runs_aligned<EACH>(a, K);
    const i64 down = (M + SIDE - 1) / SIDE, tiles = down * ((N + SIDE - 1) / SIDE);
    for (i64 t = blockIdx.x; t < tiles; t += gridDim.x) {
        const i64 m0 = t % down * SIDE, n0 = t / down * SIDE;
        float sums[EACH][EACH] = {};
        for (i64 k0 = 0; k0 < K; k0 += DEPTH) {
            const i64 k = k0 + depth;
            float values[EACH] = {}, w[EACH] = {};
            if (m0 + loaded < M) load(a + (m0 + loaded) * K, k, K, wide, values);
            if (n0 + loaded < N && k < K) weights.unpack(n0 + loaded, k, w);
            __syncthreads();  // the previous step's readers are done
#pragma unroll
            for (int i = 0; i < EACH; ++i) {
                a_tile[depth + i][loaded] = values[i];
                w_tile[depth + i][loaded] = k + i < K ? w[i] : 0.0f;
            }
            __syncthreads();
#pragma unroll 4
            for (int d = 0; d < DEPTH; ++d)
#pragma unroll
                for (int i = 0; i < EACH; ++i)
#pragma unroll
                    for (int j = 0; j < EACH; ++j)
                        sums[i][j] += a_tile[d][row * EACH + i] * w_tile[d][column * EACH + j];
        }
#pragma unroll
        for (int i = 0; i < EACH; ++i)
#pragma unroll
            for (int j = 0; j < EACH; ++j) {
                const i64 m = m0 + row * EACH + i, n = n0 + column * EACH + j;
                if (m < M && n < N) y[m * N + n] = from_float<T>(bias ? sums[i][j] + to_float(bias[n]) : sums[i][j]);
            }
    }
}

#define ENTRY(T, BITS, KIND)                                                                                           \
    extern "C" __global__ void matmul_nbits_##KIND##_##T##_b##BITS(                                                    \
        const T* a, const u8* packed, const T* scales, const u8* packed_zeros, const T* float_zeros, const T* bias,    \
        T* y, i64 M, i64 N, i64 K, i64 blocks, i64 shift) {                                                            \
        KIND<T, BITS>(a, {packed, scales, packed_zeros, float_zeros, blocks, shift}, bias, y, M, N, K);                \
    }
#define ENTRIES(T) ENTRY(T, 4, dot) ENTRY(T, 8, dot) ENTRY(T, 4, tile) ENTRY(T, 8, tile)

ENTRIES(f32)
ENTRIES(f16)
ENTRIES(bf16)
