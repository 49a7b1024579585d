"""Shared memory: regions that never overlap, and nothing that stays behind."""

from __future__ import annotations

import gc
import os
import random
from pathlib import Path

import numpy as np
import pytest

from service.datatypes import DATATYPES
from service.hosting.memory import Arena, new_segment, open_segment
from service.hosting.tensors import place, room_for, view


@pytest.fixture
def arena():
    made = Arena(64 * 1024)
    yield made
    made.close()


def test_regions_never_overlap_and_come_back_whole(arena):
    held: list[tuple[int, int]] = []
    choose = random.Random(7)
    for _ in range(2000):
        if held and choose.random() < 0.5:
            arena.give_back(*held.pop(choose.randrange(len(held))))
        size = 64 * choose.randint(1, 200)
        offset = arena.take(size)
        if offset is not None:
            assert all(offset + size <= other or other + length <= offset for other, length in held)
            held.append((offset, size))
    for region in held:
        arena.give_back(*region)
    assert arena.take(64 * 1024) == 0


def test_a_full_arena_says_so(arena):
    assert arena.take(64 * 1024) == 0
    assert arena.take(64) is None


def test_every_datatype_and_layout_is_placed_exactly():
    generator = np.random.default_rng(3)
    arrays = {name: generator.integers(0, 2, (3, 5)).astype(kind.numpy) for name, kind in DATATYPES.items()}
    arrays |= {"turned": generator.random((4, 6)).T, "empty": np.zeros((0, 4), np.float32), "scalar": np.array(7)}
    descriptor, memory = new_segment(room_for(arrays.values()))
    placed = place(arrays.items(), memory, 0)
    seen = open_segment(descriptor)
    for (name, array), place_of in zip(arrays.items(), placed, strict=True):
        back = view(place_of, seen)
        assert back.dtype == array.dtype and back.shape == array.shape
        assert back.tobytes() == array.tobytes(), name


def test_a_segment_goes_with_its_last_array():
    gc.collect()
    before = len(list(Path("/proc/self/fd").iterdir()))
    descriptor, memory = new_segment(4096)
    array = view(("x", "FP32", (16,), 0), open_segment(os.dup(descriptor)))
    os.close(descriptor)
    memory[:4] = np.float32(1.5).tobytes()
    assert array[0] == 1.5
    del array, memory
    gc.collect()
    assert len(list(Path("/proc/self/fd").iterdir())) == before
