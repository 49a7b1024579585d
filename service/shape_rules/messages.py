"""What crosses between the process that checks networks and the one that applies ONNX's rules: frames on pipes.

A frame is its kind (one byte), its length (8 bytes, little-endian) and Protocol Buffers or text. The child has dealt
with hostile input, so what it says is data and nothing else.
"""

from __future__ import annotations

import struct
from typing import IO

RULES_DOMAIN = "planforge.rules"
PLUGIN = "Plugin"
"""The one operator that stands for every plugin. Its attribute `index` says which node it is; nodes of equal `alike`
and equal inputs are asked for once where nothing is wrong with them."""

INFER = b"I"
"""To the child, a model; back come any number of ASK, then SAID and MODEL."""
INFER_TYPES = b"J"
"""The same, without following the values that shapes are computed from: less is known then, and less can go wrong."""
EXPAND = b"E"
"""To the child, a model with functions; back come SAID and MODEL."""
ASK = b"A"
"""From the child, a graph whose name is a plugin node's index and whose inputs are its inputs' types."""
TYPES = b"T"
"""To the child, a graph whose outputs are the node's outputs' types, unknown ones without."""
FINAL = "final"
"""The name of such a graph where it holds for all nodes alike."""
SAID = b"S"
"""What ONNX has against the model, empty if nothing."""
MODEL = b"M"
"""The model with types, or expanded; empty where that failed."""

_HEADER = struct.Struct("<cQ")


class Gone(Exception):
    """The other side has closed its end."""


def send(pipe: IO[bytes], kind: bytes, content: bytes) -> None:
    try:
        pipe.write(_HEADER.pack(kind, len(content)))
        pipe.write(content)
        pipe.flush()
    except OSError:
        raise Gone from None


def receive(pipe: IO[bytes]) -> tuple[bytes, bytes]:
    """Kind and content of the next frame. Raises Gone."""
    kind, length = _HEADER.unpack(_exactly(pipe, _HEADER.size))
    return kind, _exactly(pipe, length)


def _exactly(pipe: IO[bytes], count: int) -> bytes:
    content = pipe.read(count)
    if len(content) < count:
        raise Gone
    return content
