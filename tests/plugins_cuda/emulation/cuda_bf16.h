// BF16 on the host: the upper half of a float, rounded to nearest even.
#pragma once
#include <cstdint>
#include <cstring>

#include "emulation.h"

struct __nv_bfloat16 {
    uint16_t bits;
};
inline float __bfloat162float(__nv_bfloat16 from) {
    const uint32_t bits = static_cast<uint32_t>(from.bits) << 16;
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}
inline __nv_bfloat16 __float2bfloat16_rn(float from) {
    uint32_t bits;
    std::memcpy(&bits, &from, sizeof bits);
    if (from != from) return {0x7fc0};
    return {static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}
