"""Real models: a layer of a sentence encoder, and all those that PLANFORGE_TEST_CASES points at."""

from __future__ import annotations

import os
from pathlib import Path

import onnx
import pytest

from service.network.checking import check
from service.network.description import EngineOptions
from service.network.importing import import_model
from service.settings import Settings
from tests.profiles import profiles_for_model

DATA = Path(__file__).parents[1] / "data"
MODELS = sorted({*DATA.glob("*.onnx"), *Path(os.environ.get("PLANFORGE_TEST_CASES", DATA)).glob("*.onnx")})


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_every_operator_that_a_plugin_takes_over_is_taken_over(host, path):
    model = onnx.load(path, load_external_data=False)
    nodes = model.graph.node
    expected = sum(host.catalogue.taker(node.domain, node.op_type) is not None for node in nodes)
    graph = import_model(path, {}, host.catalogue)
    options = EngineOptions(name="case", backend="onnxruntime", profiles=profiles_for_model(model))
    result = check(graph, options, host, Settings())
    assert sum(use.nodes for use in result.plugins) == expected > 0
    assert len(result.model.graph.node) == len(nodes)
    assert all(-1 not in output.shape[2:] for output in result.outputs)
