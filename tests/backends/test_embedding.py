"""Kernel images in plans: looked for after a build, and built in again where one is missing. On real TensorRT-RTX."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from plugins_cuda.scale_bias.plugin import ScaleBias
from service.backends.embedding import compile_bundles, missing_images, newest
from service.backends.libraries import child_environment
from service.builds.messages import Job
from service.errors import BuildFailed
from tests.builds.yard import PROFILE, model_of

BUILD = """
import sys
from service.backends import plan_builder
look, passes = plan_builder.missing_images, []

def once_missing(plan, bundles):
    passes.append(plan.read_bytes())
    return ["ScaleBias for sm_86"] if len(passes) == 1 else look(plan, bundles)

plan_builder.missing_images = once_missing
from functools import partial
from pathlib import Path
from service.backends.registry import backend
from service.builds.builder import run
run(Path(sys.argv[1]), 1, partial(backend, kernel_cache=Path(sys.argv[3])))
print([plan.count(open(sys.argv[2], "rb").read()) for plan in passes], file=sys.stderr)
"""


def test_a_missing_image_is_built_in_again_with_every_node(tmp_path: Path, kernels: Path) -> None:
    bundles = compile_bundles([ScaleBias], ["sm_86"], kernels)
    image = tmp_path / "image"
    image.write_bytes(bundles[ScaleBias].images[0].data)
    (tmp_path / "model.onnx").write_bytes(model_of([(ScaleBias(scale=2.0), "x", "h"), (ScaleBias(), "h", "y")]))
    (tmp_path / "job.json").write_text(Job("tensorrt_rtx", ("sm_86",), (PROFILE,), 2**36).to_json())
    command = [sys.executable, "-c", BUILD, str(tmp_path), str(image), str(kernels)]
    done = subprocess.run(command, env=child_environment(tmp_path / "lib"), capture_output=True, text=True, check=True)
    assert json.loads(done.stdout.splitlines()[-1])["kind"] == "finished"
    assert done.stderr.splitlines()[-1] == "[2, 4]"  # one node carries it, then both: TensorRT stores it twice for each


def test_what_is_not_in_the_plan_is_named(tmp_path: Path, kernels: Path) -> None:
    bundles = compile_bundles([ScaleBias], ["sm_86", "sm_89"], kernels)
    held = bundles[ScaleBias].images
    plan = tmp_path / "plan"
    plan.write_bytes(b"vtrt" + held[0].data + b"between" + held[2].data)
    assert missing_images(plan, bundles) == ["ScaleBias for sm_89"]
    plan.write_bytes(b"vtrt" + held[0].data[:-1] + held[1].data + held[2].data)
    assert missing_images(plan, bundles) == ["ScaleBias for sm_86"]


def test_ptx_is_made_for_the_newest_target(kernels: Path) -> None:
    assert newest(["sm_120", "sm_86"]) == "sm_120"
    bundles = compile_bundles([ScaleBias], ["sm_89", "sm_86"], kernels)
    assert [image.target for image in bundles[ScaleBias].images] == ["sm_89", "sm_86", "compute_89"]


def test_an_unknown_target_fails_the_build_and_is_named(kernels: Path) -> None:
    with pytest.raises(BuildFailed, match="no target 'sm_77'"):
        compile_bundles([ScaleBias], ["sm_77"], kernels)
