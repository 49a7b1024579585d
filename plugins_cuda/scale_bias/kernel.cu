// y = activation(x * scale + bias): memory-bound, so each thread moves 16 bytes at a time.
#include "numeric.cuh"

// In the order of the plugin's ACTIVATIONS.
enum Activation { NONE, RELU, GELU, GELU_TANH, SILU, SIGMOID, TANH };

__device__ __forceinline__ float sigmoid(float v) { return 1.0f / (1.0f + expf(-v)); }

template <Activation A> __device__ __forceinline__ float activate(float v) {
    if (A == RELU) return v != v ? v : fmaxf(v, 0.0f);  // fmaxf alone would turn NaN into 0
    if (A == GELU) return 0.5f * v * (1.0f + erff(v * 0.70710678f));
    if (A == GELU_TANH) return 0.5f * v * (1.0f + tanhf(0.79788456f * (v + 0.044715f * v * v * v)));
    if (A == SILU) return v * sigmoid(v);
    if (A == SIGMOID) return sigmoid(v);
    if (A == TANH) return tanhf(v);
    return v;
}

// One copy for all: the channel path is bound by finding its channels, and inlining would make it 100 kB.
__device__ __noinline__ float activate_any(float v, int activation) {
    switch (activation) {
        case RELU: return activate<RELU>(v);
        case GELU: return activate<GELU>(v);
        case GELU_TANH: return activate<GELU_TANH>(v);
        case SILU: return activate<SILU>(v);
        case SIGMOID: return activate<SIGMOID>(v);
        case TANH: return activate<TANH>(v);
        default: return v;
    }
}

// The same scale and bias for every element.
template <Activation A> struct Uniform {
    float scale, bias;
    __device__ __forceinline__ void seek(long long) {}
    __device__ __forceinline__ float operator()(float v) { return activate<A>(v * scale + bias); }
};

// Scale and bias by channel: element i lies in channel (i / inner) % channels. Either vector may be null, then the scalar
// counts. The place is divided out once in `seek` and stepped from there: 64-bit divisions are slow.
template <typename T> struct PerChannel {
    const T *scales, *biases;
    float scale, bias;
    long long channels, inner;
    int activation;
    long long channel, within;
    __device__ __forceinline__ void seek(long long i) {
        within = i % inner;
        channel = (i / inner) % channels;
    }
    __device__ __forceinline__ float operator()(float v) {
        const float factor = scales ? to_float(scales[channel]) : scale;
        const float summand = biases ? to_float(biases[channel]) : bias;
        if (++within == inner) {
            within = 0;
            if (++channel == channels) channel = 0;
        }
        return activate_any(v * factor + summand, activation);
    }
};

// y = f(x). `f.seek(i)` says where in x the next call's value lies; calls after it follow each other.
template <typename T, typename F> __device__ __forceinline__ void for_each(const T* x, T* y, long long size, F f) {
    const long long stride = static_cast<long long>(gridDim.x) * blockDim.x;
    const long long first = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    const long long packs = aligned16(x) && aligned16(y) ? size / Pack<T>::size : 0;
#pragma unroll 1
    for (long long p = first; p < packs; p += stride) {
        Pack<T> pack = reinterpret_cast<const Pack<T>*>(x)[p];
        f.seek(p * Pack<T>::size);
#pragma unroll
        for (int k = 0; k < Pack<T>::size; ++k) pack.item[k] = from_float<T>(f(to_float(pack.item[k])));
        reinterpret_cast<Pack<T>*>(y)[p] = pack;
    }
#pragma unroll 1
    for (long long i = packs * Pack<T>::size + first; i < size; i += stride) {
        f.seek(i);
        y[i] = from_float<T>(f(to_float(x[i])));
    }
}

template <typename T>
__device__ __forceinline__ void uniform(const T* x, T* y, long long size, float scale, float bias,
                                        long long activation) {
    switch (activation) {
        case RELU: return for_each(x, y, size, Uniform<RELU>{scale, bias});
        case GELU: return for_each(x, y, size, Uniform<GELU>{scale, bias});
        case GELU_TANH: return for_each(x, y, size, Uniform<GELU_TANH>{scale, bias});
        case SILU: return for_each(x, y, size, Uniform<SILU>{scale, bias});
        case SIGMOID: return for_each(x, y, size, Uniform<SIGMOID>{scale, bias});
        case TANH: return for_each(x, y, size, Uniform<TANH>{scale, bias});
        default: return for_each(x, y, size, Uniform<NONE>{scale, bias});
    }
}

#define ENTRIES(T)                                                                                                      \
    extern "C" __global__ void scale_bias_uniform_##T(const T* x, T* y, long long size, float scale, float bias,         \
                                                      long long activation) {                                           \
        uniform(x, y, size, scale, bias, activation);                                                                   \
    }                                                                                                                   \
    extern "C" __global__ void scale_bias_channels_##T(const T* x, const T* scales, const T* biases, T* y,               \
                                                       long long size, float scale, float bias, long long channels,      \
                                                       long long inner, long long activation) {                         \
        const int which = static_cast<int>(activation);                                                                 \
        for_each(x, y, size, PerChannel<T>{scales, biases, scale, bias, channels, inner, which, 0, 0});                  \
    }

ENTRIES(f32)
ENTRIES(f16)
ENTRIES(bf16)
