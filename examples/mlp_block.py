"""A transformer's MLP block with weights in 4 bits: as a network description, and computed in NumPy.

y = x + down(silu(gate(n)) * up(n)), where n = norm(x)
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

HIDDEN, INNER, BLOCK_SIZE = 512, 1408, 32
EPSILON = 1e-5
PROFILES = [{"x": {"min": [1, HIDDEN], "opt": [16, HIDDEN], "max": [256, HIDDEN]}}]


@dataclass(frozen=True)
class Packed:
    """A matrix [N, K] in 4 bits: `data` UINT8 [N, K / 32, 16], low half first, `scales` FP32 [N, K / 32]."""

    data: Array
    scales: Array

    @classmethod
    def quantized(cls, weights: Array) -> Packed:
        blocks = weights.reshape(len(weights), -1, BLOCK_SIZE)
        scales = (np.abs(blocks).max(axis=-1) / 7).astype(np.float32)
        numbers = (np.rint(blocks / scales[..., None]) + 8).astype(np.uint8)
        return cls(numbers[..., 0::2] | numbers[..., 1::2] << 4, scales)

    @property
    def matrix(self) -> Array:
        """The weights that the packed ones stand for, [N, K] in float64."""
        numbers = np.stack([self.data & 15, self.data >> 4], axis=-1).reshape(*self.scales.shape, BLOCK_SIZE)
        return ((numbers - 8.0) * self.scales[..., None]).reshape(len(self.data), -1)


@dataclass(frozen=True)
class MlpBlock:
    norm: Array
    gate: Packed
    up: Packed
    down: Packed

    @classmethod
    def drawn(cls, seed: int = 0) -> MlpBlock:
        """Random weights, the same ones for a seed."""
        generator = np.random.default_rng(seed)

        def matrix(rows: int, columns: int) -> Packed:
            return Packed.quantized(generator.standard_normal((rows, columns)) / np.sqrt(columns))

        norm = generator.uniform(0.5, 1.5, HIDDEN).astype(np.float32)
        return cls(norm, matrix(INNER, HIDDEN), matrix(INNER, HIDDEN), matrix(HIDDEN, INNER))

    def network(self) -> dict[str, Any]:
        """The `network` of `POST /engines`: x and y are FP32 [tokens, HIDDEN]."""
        return {
            "inputs": [{"name": "x", "datatype": "FP32", "shape": ["tokens", HIDDEN]}],
            "constants": [
                constant("norm", self.norm),
                *(
                    constant(f"{name}_{part}", getattr(getattr(self, name), part))
                    for name in ("gate", "up", "down")
                    for part in ("data", "scales")
                ),
            ],
            "nodes": [
                {"plugin": "RMSNorm", "inputs": ["x", "norm"], "outputs": ["n"], "fields": {"epsilon": EPSILON}},
                product("gate", "n", "g", INNER, HIDDEN),
                {"plugin": "ScaleBias", "inputs": ["g"], "outputs": ["s"], "fields": {"activation": "silu"}},
                product("up", "n", "u", INNER, HIDDEN),
                {"op": "Mul", "inputs": ["s", "u"], "outputs": ["h"]},
                product("down", "h", "d", HIDDEN, INNER),
                {"op": "Add", "inputs": ["x", "d"], "outputs": ["y"]},
            ],
            "outputs": ["y"],
        }

    def compute(self, x: Array) -> Array:
        """The same in float64."""
        wide = x.astype(np.float64)
        n = wide / np.sqrt(np.mean(wide**2, axis=-1, keepdims=True) + EPSILON) * self.norm
        g = n @ self.gate.matrix.T
        return wide + (g / (1 + np.exp(-g)) * (n @ self.up.matrix.T)) @ self.down.matrix.T


def product(weights: str, source: str, output: str, rows: int, columns: int) -> dict[str, Any]:
    fields = {"K": columns, "N": rows, "bits": 4, "block_size": BLOCK_SIZE}
    inputs = [source, f"{weights}_data", f"{weights}_scales"]
    return {"plugin": "MatMulNBits", "inputs": inputs, "outputs": [output], "fields": fields}


def constant(name: str, array: Array) -> dict[str, Any]:
    datatype = {"float32": "FP32", "uint8": "UINT8"}[array.dtype.name]
    data = base64.b64encode(array.tobytes()).decode()
    return {"name": name, "datatype": datatype, "shape": list(array.shape), "base64": data}
