"""NVRTC: what compiles, what is cached, what a refusal says."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.plugins.kernels import CompileFailed, compile_image

SOURCE = 'extern "C" __global__ void twice(float* x) { x[threadIdx.x] *= FACTOR; }\n'


def written(folder: Path, source: str) -> Path:
    path = folder / "mine" / "kernel.cu"
    path.parent.mkdir(exist_ok=True)
    path.write_text(source)
    return path


def test_a_cubin_and_ptx(tmp_path: Path) -> None:
    source = written(tmp_path, SOURCE.replace("FACTOR", "2.0f"))
    assert compile_image(source, "sm_86", tmp_path / "cache").startswith(b"\x7fELF")
    assert b".target sm_120" in compile_image(source, "compute_120", tmp_path / "cache")


def test_an_image_is_compiled_once_and_again_when_anything_changes(tmp_path: Path) -> None:
    source, cache = written(tmp_path, '#include "factor.cuh"\n' + SOURCE), tmp_path / "cache"
    (source.parent / "factor.cuh").write_text("#define FACTOR 2.0f\n")
    first = compile_image(source, "sm_86", cache)
    (entry,) = cache.iterdir()
    entry.write_bytes(b"kept")
    assert compile_image(source, "sm_86", cache) == b"kept"
    (source.parent / "factor.cuh").write_text("#define FACTOR 3.0f\n")
    assert compile_image(source, "sm_86", cache) not in (b"kept", first)


@pytest.mark.parametrize("target", ["sm_999", "gfx90a", "compute_86x", "sm_86; rm", ""])
def test_an_unknown_target_is_named(tmp_path: Path, target: str) -> None:
    with pytest.raises(CompileFailed, match="the compiler has no target") as caught:
        compile_image(written(tmp_path, SOURCE), target, tmp_path / "cache")
    assert repr(target) in str(caught.value)
    assert not (tmp_path / "cache").exists()


def test_the_compilers_log_is_kept_without_paths(tmp_path: Path) -> None:
    with pytest.raises(CompileFailed, match=r"mine/kernel\.cu for sm_86") as caught:
        compile_image(written(tmp_path, SOURCE), "sm_86", tmp_path / "cache")
    assert 'identifier "FACTOR" is undefined' in str(caught.value)
    assert str(tmp_path) not in str(caught.value)
