"""`planforge infer`: runs an engine on arrays from NumPy files."""

from __future__ import annotations

import argparse
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from service.commands.common import CommandFailed, add_url_option, service_client
from service.datatypes import DATATYPES

Array = np.ndarray[Any, np.dtype[Any]]
DESCRIPTION = """Run an engine of a running service. Inputs come from .npz files (arrays named as the engine's inputs)
or from .npy files as NAME=FILE. BF16 arrays are stored as UINT16 by NumPy and taken so where the engine says BF16."""


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("infer", help="run an engine on .npy or .npz files", description=DESCRIPTION)
    parser.add_argument("engine", help="an engine's id, NAME or NAME:VERSION")
    parser.add_argument("inputs", nargs="*", metavar="INPUT", help="FILE.npz, or NAME=FILE.npy")
    parser.add_argument("--reference", action="store_true", help="run the plugins' reference functions on CPU")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="save the outputs as .npz instead of printing"
    )
    add_url_option(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    arrays = _arrays(options.inputs)
    with service_client(options) as client:
        wanted = {tensor["name"]: tensor["datatype"] for tensor in client.engine(options.engine)["inputs"]}
        inputs = {name: _typed(array, wanted[name]) for name, array in arrays.items() if name in wanted}
        outputs = client.infer(options.engine, inputs, parameters={"reference": options.reference})
    if options.output is None:
        for name, array in outputs.items():
            print(f"{name} {array.dtype} {list(array.shape)}\n{array}")
    else:
        np.savez(options.output, **outputs)  # type: ignore[arg-type]  # NumPy's own keyword is no output's name here
    return 0


def _arrays(given: list[str]) -> dict[str, Array]:
    arrays: dict[str, Array] = {}
    for text in given:
        name, _, path = text.rpartition("=")
        try:
            loaded = np.load(path, allow_pickle=False)
        except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
            reason = (
                error.strerror if isinstance(error, OSError) and error.strerror else "no NumPy file without objects"
            )
            raise CommandFailed(f"{path}: {reason}") from None
        if isinstance(loaded, np.ndarray) != bool(name):
            raise CommandFailed(f"{text}: expected FILE.npz, or NAME=FILE.npy", 2)
        arrays |= {name: loaded} if name else dict(loaded)
    return arrays


def _typed(array: Array, datatype: str) -> Array:
    stored_as_bits = datatype == "BF16" and array.dtype.itemsize == 2 and array.dtype.kind in "Vu"
    return array.view(DATATYPES["BF16"].numpy) if stored_as_bits else array
