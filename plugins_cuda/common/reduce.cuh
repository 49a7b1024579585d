// Sums over the threads of a warp and of a block; every thread gets the total.
#pragma once

__device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffffu, value, offset);
    return value;
}

// The block's threads must be whole warps, and all of them must call.
__device__ __forceinline__ float block_sum(float value) {
    __shared__ float partial[32];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    value = warp_sum(value);
    __syncthreads();  // the previous call's readers are done
    if (lane == 0) partial[warp] = value;
    __syncthreads();
    return warp_sum(lane < static_cast<int>(blockDim.x / 32) ? partial[lane] : 0.0f);
}
