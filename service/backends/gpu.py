"""The GPU of this host, if there is one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Gpu:
    """`target` is how compilers call it: `sm_90`."""

    name: str
    target: str
    driver: str


def host_gpu() -> Gpu | None:
    """The first GPU, or None where no driver or device is to be had."""
    from cuda.bindings import driver

    try:
        (status,) = driver.cuInit(0)
    except RuntimeError:  # how cuda-bindings says that there is no driver library
        return None
    if status != driver.CUresult.CUDA_SUCCESS or driver.cuDeviceGetCount()[1] == 0:
        return None
    device = driver.cuDeviceGet(0)[1]
    attribute = driver.CUdevice_attribute
    major = driver.cuDeviceGetAttribute(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device)[1]
    minor = driver.cuDeviceGetAttribute(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device)[1]
    name = driver.cuDeviceGetName(128, device)[1].split(b"\0", 1)[0].decode()
    return Gpu(name, f"sm_{major}{minor}", str(driver.cuDriverGetVersion()[1]))
