"""The runtime cache's file. TensorRT's cache needs a GPU: FakeCache, a FAKE that holds bytes, stands in for it."""

from __future__ import annotations

from pathlib import Path

from service.backends.runtime_cache import RuntimeCache


class FakeCache:
    """A FAKE of TensorRT-RTX's `IRuntimeCache`: takes only what begins with its own mark, as the real one does."""

    def __init__(self, data: bytes = b"") -> None:
        self.data = data

    def serialize(self) -> bytes:
        return b"fake" + self.data

    def deserialize(self, data: bytes) -> bool:
        if not data.startswith(b"fake"):
            return False
        self.data = data[4:]
        return True


def test_what_one_process_compiled_the_next_one_reads(tmp_path: Path) -> None:
    file = RuntimeCache(tmp_path / "runtime" / "plan")
    file.keep(FakeCache(b"kernels"))
    later = FakeCache()
    RuntimeCache(file.path).fill(later)
    assert later.data == b"kernels"
    assert [path.name for path in file.path.parent.iterdir()] == ["plan"]


def test_nothing_is_written_where_nothing_is_new(tmp_path: Path) -> None:
    file = RuntimeCache(tmp_path / "plan")
    file.keep(FakeCache(b"kernels"))
    before = file.path.stat().st_mtime_ns
    file.keep(FakeCache(b"kernels"))
    assert file.path.stat().st_mtime_ns == before
    file.keep(FakeCache(b"kernels and more"))
    assert file.path.read_bytes() == b"fakekernels and more"


def test_a_file_that_tensorrt_refuses_is_removed(tmp_path: Path) -> None:
    file = RuntimeCache(tmp_path / "plan")
    file.path.write_bytes(b"of another GPU")
    cache = FakeCache()
    file.fill(cache)
    assert cache.data == b""
    assert not file.path.exists()
    file.fill(cache)  # nor is a missing one a fault
