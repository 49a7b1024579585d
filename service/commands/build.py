"""`planforge build`: sends networks to a service, follows their builds and saves the plans."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from service.client import Client
from service.commands.common import CommandFailed, add_url_option, service_client
from service.commands.progress import ProgressLine

Json = dict[str, Any]
DESCRIPTION = """Build engines with a running service. A FILE is a JSON body as for POST /engines, or an ONNX model;
an ONNX model's external data is taken from the model's folder."""


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("build", help="build engines and save their plans", description=DESCRIPTION)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="a .json or .onnx file")
    parser.add_argument("--name", help="the engine's name (the file's name without its ending)")
    parser.add_argument("--backend", choices=("auto", "tensorrt", "tensorrt_rtx", "onnxruntime"))
    parser.add_argument("--target", action="append", metavar="sm_NN", help="a GPU to build for; may be repeated")
    parser.add_argument(
        "--profile", action="append", metavar="INPUT:MIN,OPT,MAX", default=[],
        help="shapes of an input, such as x:1x8,4x8,64x8; needed once for every input with dynamic dimensions",
    )  # fmt: skip
    parser.add_argument(
        "--options", type=Path, metavar="FILE", help="a JSON file with further options of POST /engines"
    )
    parser.add_argument("-o", "--output", type=Path, metavar="FOLDER", help="save plans here as NAME-VERSION.plan")
    parser.add_argument("--no-wait", action="store_true", help="queue the builds and end")
    add_url_option(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    if options.name and len(options.files) > 1:
        raise CommandFailed("--name goes with one file", 2)
    with service_client(options) as client:
        for path in options.files:
            engine = _sent(client, path, options)
            print(f"{path}: engine {engine['name']}:{engine['version']}, {engine['backend']}, id {engine['id']}")
            if not options.no_wait:
                _followed(client, engine, options.output)
    return 0


def _sent(client: Client, path: Path, options: argparse.Namespace) -> Json:
    chosen = _read_json(options.options) if options.options else {}
    given = {"name": options.name, "backend": options.backend, "targets": options.target}
    chosen |= {key: value for key, value in given.items() if value is not None}
    if options.profile:
        chosen["profiles"] = [dict(_profile(text) for text in options.profile)]
    if path.suffix == ".json":
        return client.build_json({**_read_json(path), **chosen})
    return client.build_onnx(path, {"name": path.stem, **chosen}, _external_data(path))


def _followed(client: Client, engine: Json, output: Path | None) -> None:
    progress = ProgressLine()
    ready = client.wait(engine["id"], progress.show)
    progress.end()
    plan = ready["plan"]
    print(f"ready in {ready['seconds']['building']:.2f} s: {plan['size']} bytes, SHA-256 {plan['sha256']}")
    if output is not None:
        output.mkdir(parents=True, exist_ok=True)
        path = output / f"{ready['name']}-{ready['version']}.plan"
        client.save_plan(ready["id"], path)
        print(f"saved as {path}")


def _read_json(path: Path) -> Json:
    try:
        given = json.loads(path.read_text())
    except (ValueError, UnicodeDecodeError) as error:
        raise CommandFailed(f"{path} is not JSON: {error}") from None
    if not isinstance(given, dict):
        raise CommandFailed(f"{path}: expected a JSON object")
    return given


def _profile(text: str) -> tuple[str, Json]:
    name, _, shapes = text.rpartition(":")
    try:
        bounds = [[int(size) for size in shape.split("x")] for shape in shapes.split(",")]
        return name, dict(zip(("min", "opt", "max"), bounds, strict=True))
    except ValueError:
        raise CommandFailed(f"--profile {text}: expected INPUT:MIN,OPT,MAX such as x:1x8,4x8,64x8", 2) from None


def _external_data(path: Path) -> list[Path]:
    """The files beside a model that it keeps tensors in."""
    import onnx

    from service.network.graph import FILE_WORDS
    from service.network.walking import all_tensors

    try:
        model = onnx.load(path, load_external_data=False)
    except Exception:  # protobuf's errors differ between its implementations
        raise CommandFailed(f"{path} is not an ONNX model") from None
    tensors = [tensor for tensor, _ in all_tensors(model.graph, "", FILE_WORDS)]
    entries = [entry for tensor in tensors for entry in tensor.external_data if entry.key == "location"]
    return [path.parent / location for location in sorted({entry.value for entry in entries})]
