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

// Scale and bias of every element.
struct Uniform {
    float scale, bias;
    __device__ __forceinline__ void seek(long long) {}
    __device__ __forceinline__ float next(float v) { return v * scale + bias; }
};

// Scale and bias by channel: element i lies in channel (i / inner) % channels. Either vector may be null, then the scalar
// counts. The place is divided out once in `seek` and stepped from there: 64-bit divisions are slow.
template <typename T> struct PerChannel {
    const T *scales, *biases;
    float scale, bias;
    long long channels, inner, channel, within;
    __device__ __forceinline__ void seek(long long i) {
        within = i % inner;
        channel = (i / inner) % channels;
    }
    __device__ __forceinline__ float next(float v) {
        const float factor = scales ? to_float(scales[channel]) : scale;
        const float summand = biases ? to_float(biases[channel]) : bias;
        if (++within == inner) {
            within = 0;
            if (++channel == channels) channel = 0;
        }
        return v * factor + summand;
    }
};

template <Activation A, typename T, typename Affine>
__device__ __forceinline__ void transform(const T* x, T* y, long long size, Affine affine) {
    const long long stride = static_cast<long long>(gridDim.x) * blockDim.x;
    const long long first = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    const long long packs = aligned16(x) && aligned16(y) ? size / Pack<T>::size : 0;
    for (long long p = first; p < packs; p += stride) {
        Pack<T> pack = reinterpret_cast<const Pack<T>*>(x)[p];
        affine.seek(p * Pack<T>::size);
#pragma unroll
        for (int k = 0; k < Pack<T>::size; ++k) {
            pack.item[k] = from_float<T>(activate<A>(affine.next(to_float(pack.item[k]))));
        }
        reinterpret_cast<Pack<T>*>(y)[p] = pack;
    }
    for (long long i = packs * Pack<T>::size + first; i < size; i += stride) {
        affine.seek(i);
        y[i] = from_float<T>(activate<A>(affine.next(to_float(x[i]))));
    }
}

template <typename T, typename Affine>
__device__ __forceinline__ void dispatch(const T* x, T* y, long long size, Affine affine, long long activation) {
    switch (activation) {
        case RELU: return transform<RELU>(x, y, size, affine);
        case GELU: return transform<GELU>(x, y, size, affine);
        case GELU_TANH: return transform<GELU_TANH>(x, y, size, affine);
        case SILU: return transform<SILU>(x, y, size, affine);
        case SIGMOID: return transform<SIGMOID>(x, y, size, affine);
        case TANH: return transform<TANH>(x, y, size, affine);
        default: return transform<NONE>(x, y, size, affine);
    }
}

#define ENTRIES(T)                                                                                                      \
    extern "C" __global__ void scale_bias_uniform_##T(const T* x, T* y, long long size, float scale, float bias,         \
                                                      long long activation) {                                           \
        dispatch(x, y, size, Uniform{scale, bias}, activation);                                                         \
    }                                                                                                                   \
    extern "C" __global__ void scale_bias_channels_##T(const T* x, const T* scales, const T* biases, T* y,               \
                                                       long long size, float scale, float bias, long long channels,      \
                                                       long long inner, long long activation) {                         \
        dispatch(x, y, size, PerChannel<T>{scales, biases, scale, bias, channels, inner, 0, 0}, activation);             \
    }

ENTRIES(f32)
ENTRIES(f16)
ENTRIES(bf16)
