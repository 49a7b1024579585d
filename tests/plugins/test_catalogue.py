"""Which plugins are found, and how they are described."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import plugins_cuda
from service.plugins.catalogue import Catalogue, describe, discover


def test_every_folder_with_a_plugin_is_found() -> None:
    folders = {path.parent.name for path in Path(plugins_cuda.__path__[0]).glob("*/plugin.py")}
    built_in = {found.plugin.folder().name for found in discover() if found.origin == "built-in"}
    assert built_in == folders
    assert {"scale_bias", "rms_norm", "matmul_nbits"} <= folders


def test_a_description_says_all_that_a_caller_needs() -> None:
    (entry,) = Catalogue(discover()).find("MatMulNBits")
    assert (entry["version"], entry["namespace"], entry["origin"]) == ("1", "planforge", "built-in")
    assert entry["operators"] == ["com.microsoft.MatMulNBits"]
    fields = {each["name"]: each for each in entry["fields"]}
    assert fields["bits"] == {
        "name": "bits", "type": "INT32", "length": 1, "required": False, "default": 4, "choices": [4, 8],
        "minimum": None, "maximum": None, "description": "width of a packed weight",
    }  # fmt: skip
    assert fields["K"]["required"] is True
    assert [each["name"] for each in entry["inputs"] if not each["optional"]] == ["a", "b", "scales"]
    assert entry["outputs"][0]["datatype"] == "as a"
    assert entry["outputs"][0]["shape"] == "[..., N]"


def test_descriptions_are_sorted() -> None:
    entries = Catalogue(discover()).entries
    assert list(entries) == sorted(entries, key=lambda each: (each["namespace"], each["name"]))


def test_an_operator_finds_the_plugin_that_takes_it_over() -> None:
    catalogue = Catalogue(discover())
    taken = catalogue.taker("com.microsoft", "MatMulNBits")
    assert taken is not None
    assert taken[0].name == "MatMulNBits"
    assert catalogue.taker("com.microsoft", "FusedMatMul") is None


def test_a_package_that_cannot_be_imported_is_said_and_left_out(tmp_path: Path) -> None:
    """A real distribution on the path of a fresh interpreter, whose module raises."""
    info = tmp_path / "broken_ops-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-ops\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[planforge.plugins]\nall = broken_ops\n")
    (tmp_path / "broken_ops.py").write_text("raise RuntimeError('no such device')\n")
    look = "from service.plugins.catalogue import discover\nproblems = []\nprint(len(discover(problems)), problems)\n"
    root = str(Path(plugins_cuda.__path__[0]).parent)
    path = f"import sys; sys.path[:0] = [{str(tmp_path)!r}, {root!r}]\n"
    said = subprocess.run([sys.executable, "-c", path + look], capture_output=True, text=True, check=True).stdout
    assert "broken-ops: broken_ops cannot be imported: RuntimeError: no such device" in said
    assert int(said.split()[0]) >= 3


def test_finding_plugins_imports_no_runtime() -> None:
    look = (
        "import sys\nfrom service.plugins.catalogue import Catalogue, discover\nCatalogue(discover()).entries\n"
        "print([name for name in sys.modules if name.startswith(('tensorrt', 'onnxruntime', 'cuda'))])"
    )
    said = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True).stdout
    assert said.strip() == "[]"


def test_describing_a_plugin_is_json(tmp_path: Path) -> None:
    import json

    for found in discover():
        assert json.loads(json.dumps(describe(found))) == describe(found)
