// y = activation(x * scale + bias): memory-bound, so each thread moves 16 bytes at a time and keeps a few in flight.
#include "numeric.cuh"

struct None { static __device__ float apply(float v) { return v; } };
struct Relu { static __device__ float apply(float v) { return v != v ? v : fmaxf(v, 0.0f); } };
struct Sigmoid { static __device__ float apply(float v) { return 1.0f / (1.0f + expf(-v)); } };
// At minus infinity the product would be NaN as 0 * inf is; the reference computes the same.
struct Silu { static __device__ float apply(float v) { return v * Sigmoid::apply(v); } };
struct Tanh { static __device__ float apply(float v) { return tanhf(v); } };
struct Gelu { static __device__ float apply(float v) { return 0.5f * v * (1.0f + erff(v * 0.70710678f)); } };
struct GeluTanh {
    static __device__ float apply(float v) {
        return 0.5f * v * (1.0f + tanhf(0.79788456f * (v + 0.044715f * v * v * v)));
    }
};

// `scales` and `biases` may be null: then the scalars count. Element i of x lies in channel (i / inner) % channels.
template <typename T, typename Activation>
__device__ void scale_bias(const T* x, const T* scales, const T* biases, T* y, float scale, float bias, long long size,
                           long long channels, long long inner) {
    const bool per_channel = scales || biases;
    auto compute = [&](T value, long long i) {
        float factor = scale, summand = bias;
        if (per_channel) {
            const long long channel = (i / inner) % channels;
            if (scales) factor = to_float(scales[channel]);
            if (biases) summand = to_float(biases[channel]);
        }
        return from_float<T>(Activation::apply(to_float(value) * factor + summand));
    };
    const long long stride = static_cast<long long>(gridDim.x) * blockDim.x;
    const long long first = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    const long long packs = aligned16(x) && aligned16(y) ? size / Pack<T>::size : 0;
    for (long long p = first; p < packs; p += stride) {
        Pack<T> pack = reinterpret_cast<const Pack<T>*>(x)[p];
#pragma unroll
        for (int k = 0; k < Pack<T>::size; ++k) pack.item[k] = compute(pack.item[k], p * Pack<T>::size + k);
        reinterpret_cast<Pack<T>*>(y)[p] = pack;
    }
    for (long long i = packs * Pack<T>::size + first; i < size; i += stride) y[i] = compute(x[i], i);
}

#define ENTRY(T, NAME, ACTIVATION)                                                                                    \
    extern "C" __global__ void scale_bias_##T##_##NAME(const T* x, const T* scales, const T* biases, T* y, float scale,  \
                                                       float bias, long long size, long long channels,                 \
                                                       long long inner) {                                              \
        scale_bias<T, ACTIVATION>(x, scales, biases, y, scale, bias, size, channels, inner);                           \
    }
#define ENTRIES(T)                                                                                                     \
    ENTRY(T, none, None) ENTRY(T, relu, Relu) ENTRY(T, gelu, Gelu) ENTRY(T, gelu_tanh, GeluTanh) ENTRY(T, silu, Silu)   \
    ENTRY(T, sigmoid, Sigmoid) ENTRY(T, tanh, Tanh)

ENTRIES(f32)
ENTRIES(f16)
ENTRIES(bf16)
