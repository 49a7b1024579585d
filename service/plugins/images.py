"""Kernel images as they travel inside a plan: one bundle a plugin, looked up by digest once all nodes exist."""

from __future__ import annotations

import hashlib
import json
import re
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

_TARGET = re.compile(r"(sm|compute)_(\d+)(\d)[af]?")


class ImageFault(Exception):
    """A bundle that is damaged, missing, or holds nothing for this GPU."""


@dataclass(frozen=True)
class KernelImage:
    """A cubin (`sm_86`) or PTX (`compute_120`)."""

    target: str
    data: bytes

    @cached_property
    def sha256(self) -> str:
        return hashlib.sha256(self.data).hexdigest()

    @property
    def capability(self) -> tuple[int, int]:
        """Compute capability, (8, 6)."""
        match = _TARGET.fullmatch(self.target)
        if match is None:
            raise ImageFault(f"{self.target!r} is no target")
        return int(match[2]), int(match[3])

    @property
    def is_ptx(self) -> bool:
        return self.target.startswith("compute_")


@dataclass(frozen=True)
class Bundle:
    """All images of one plugin. In bytes: the length of a JSON header (uint32, little-endian), the header, the images
    one after the other as the compiler gave them."""

    images: tuple[KernelImage, ...]

    def to_bytes(self) -> bytes:
        return self._bytes

    @cached_property
    def _bytes(self) -> bytes:
        header = json.dumps(
            [{"target": image.target, "size": len(image.data), "sha256": image.sha256} for image in self.images]
        ).encode()
        return b"".join([struct.pack("<I", len(header)), header, *(image.data for image in self.images)])

    @cached_property
    def digest(self) -> str:
        return hashlib.sha256(self.to_bytes()).hexdigest()

    @classmethod
    def from_bytes(cls, data: bytes) -> Bundle:
        """Raises ImageFault where an image's SHA-256 does not match."""
        try:
            (length,) = struct.unpack_from("<I", data)
            header = json.loads(data[4 : 4 + length])
            return cls(tuple(_read_images(header, data[4 + length :])))
        except (struct.error, ValueError, KeyError, TypeError) as error:
            raise ImageFault(f"the kernel images in the plan cannot be read: {error}") from None

    def for_capability(self, capability: tuple[int, int]) -> KernelImage:
        """The best image for a GPU: machine code of its generation, else PTX of an older one. Raises ImageFault."""
        fitting = [
            image
            for image in self.images
            if image.capability <= capability and (image.is_ptx or image.capability[0] == capability[0])
        ]
        if not fitting:
            held = ", ".join(image.target for image in self.images)
            raise ImageFault(f"the plan holds no kernel for sm_{capability[0]}{capability[1]}: it holds {held}")
        return max(fitting, key=lambda image: (not image.is_ptx, image.capability))


def _read_images(header: Sequence[dict[str, object]], body: bytes) -> Iterable[KernelImage]:
    start = 0
    for entry in header:
        size = int(str(entry["size"]))
        image = KernelImage(str(entry["target"]), body[start : start + size])
        if image.sha256 != entry["sha256"]:
            raise ImageFault(f"the kernel image for {image.target} in the plan is damaged")
        yield image
        start += size


@dataclass
class ImageLibrary:
    """The bundles of one process, by digest. A node that carries none finds its plugin's here."""

    bundles: dict[str, Bundle] = field(default_factory=dict)

    def add(self, bundle: Bundle) -> str:
        digest = bundle.digest
        self.bundles.setdefault(digest, bundle)
        return digest

    def find(self, digest: str) -> Bundle:
        try:
            return self.bundles[digest]
        except KeyError:
            raise ImageFault(f"no node of the plan carries the kernel images {digest[:12]}") from None
