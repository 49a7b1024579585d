// Element types and vector access shared by all kernels: values are kept in memory in their own type, computed in FP32.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

using f32 = float;
using f16 = __half;
using bf16 = __nv_bfloat16;

__device__ __forceinline__ float to_float(f32 value) { return value; }
__device__ __forceinline__ float to_float(f16 value) { return __half2float(value); }
__device__ __forceinline__ float to_float(bf16 value) { return __bfloat162float(value); }

template <typename T> __device__ __forceinline__ T from_float(float value);
template <> __device__ __forceinline__ f32 from_float<f32>(float value) { return value; }
template <> __device__ __forceinline__ f16 from_float<f16>(float value) { return __float2half_rn(value); }
template <> __device__ __forceinline__ bf16 from_float<bf16>(float value) { return __float2bfloat16_rn(value); }

// Elements that move as one: by default 16 bytes of them, the widest access a thread can make.
template <typename T, int SIZE = 16 / sizeof(T)> struct alignas(SIZE * sizeof(T)) Pack {
    static constexpr int size = SIZE;
    T item[size];
};

__device__ __forceinline__ bool aligned16(const void* address) {
    return (reinterpret_cast<unsigned long long>(address) & 15) == 0;
}
