// Half precision on the host, for kernels that are compiled as C++.
#pragma once
#include "emulation.h"

struct __half {
    _Float16 value;
};
inline float __half2float(__half from) { return static_cast<float>(from.value); }
inline __half __float2half_rn(float from) { return {static_cast<_Float16>(from)}; }
