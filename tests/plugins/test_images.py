"""Bundles of kernel images: bytes survive, damage is seen, and the right image is taken for a GPU."""

from __future__ import annotations

import pytest

from service.plugins.images import Bundle, ImageFault, ImageLibrary, KernelImage

NASTY = bytes([0x00, 0x80, 0xFF, 0x0A]) * 300


def bundle(*targets: str) -> Bundle:
    return Bundle(tuple(KernelImage(target, NASTY + target.encode()) for target in targets))


def test_bytes_survive() -> None:
    original = bundle("sm_86", "sm_120", "compute_120")
    assert Bundle.from_bytes(original.to_bytes()) == original


def test_images_stand_verbatim_in_the_bytes() -> None:
    original = bundle("sm_86", "sm_120")
    assert all(image.data in original.to_bytes() for image in original.images)


@pytest.mark.parametrize("damage", [lambda b: b[:-1], lambda b: b[:-5] + b"xxxxx", lambda b: b"", lambda b: b[:3]])
def test_damage_is_seen(damage: object) -> None:
    with pytest.raises(ImageFault):
        Bundle.from_bytes(damage(bundle("sm_86").to_bytes()))  # type: ignore[operator]


@pytest.mark.parametrize(
    ("capability", "target"),
    [
        ((8, 6), "sm_86"),
        ((8, 9), "sm_86"),
        ((8, 0), "sm_80"),
        ((12, 0), "sm_120"),
        ((12, 1), "sm_120"),
        ((13, 0), "compute_120"),
    ],
)
def test_the_best_image_is_taken(capability: tuple[int, int], target: str) -> None:
    held = bundle("sm_80", "sm_86", "sm_120", "compute_120")
    assert held.for_capability(capability).target == target


def test_no_image_for_a_gpu_names_what_there_is() -> None:
    with pytest.raises(ImageFault, match="no kernel for sm_90: it holds sm_86, sm_120, compute_120"):
        bundle("sm_86", "sm_120", "compute_120").for_capability((9, 0))


def test_a_node_finds_the_images_that_another_carries() -> None:
    library, held = ImageLibrary(), bundle("sm_86")
    digest = library.add(held)
    assert library.find(digest) is held
    with pytest.raises(ImageFault, match="no node of the plan carries"):
        library.find("0" * 64)
