"""What a plugin's author writes against. Nothing here knows TensorRT: `creator` carries a plugin there.

A plugin is one class: fields, inputs, outputs (types and shapes), which kernels to launch for actual tensors, and a
reference in ONNX operators that says what is right.
"""

from __future__ import annotations

import hashlib
import inspect
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from service.plugins.fields import Field, FieldFault, Value, collect_fields
from service.plugins.shapes import Arithmetic, Names, ShapeFault, integer_arithmetic
from service.plugins.tensors import Call, Launch, Operator, Tensor, TensorType

ALL_TARGETS = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")


class PluginFault(ValueError):
    """Something about a node that the plugin cannot take. `subject` names the field or tensor, or is empty."""

    def __init__(self, detail: str, subject: str = "") -> None:
        super().__init__(detail)
        self.detail, self.subject = detail, subject


class CudaPlugin:
    """Base of every plugin; its docstring's first line is the summary that users see.

    Subclasses set the class variables below, declare fields with `field` and `required`, and write `launch` and
    `reference`. The kernel's source is `kernel.cu` beside the module.
    """

    name: ClassVar[str]
    version: ClassVar[str] = "1"
    namespace: ClassVar[str] = "planforge"
    inputs: ClassVar[tuple[Tensor, ...]] = ()
    outputs: ClassVar[tuple[Tensor, ...]] = ()
    operators: ClassVar[tuple[Operator, ...]] = ()
    targets: ClassVar[tuple[str, ...]] = ALL_TARGETS
    fields: ClassVar[tuple[Field, ...]] = ()

    def __init_subclass__(cls) -> None:
        cls.name = cls.__dict__.get("name", cls.__name__)
        annotations = {name: _spelled(kind) for name, kind in inspect.get_annotations(cls).items()}
        cls.fields = collect_fields(cls.__dict__, annotations, cls.__name__)

    def __init__(self, **given: Any) -> None:
        """Takes fields by name, in JSON's or Python's form. Raises PluginFault for the first that is wrong."""
        for fault in self.field_faults(given):
            raise fault
        self.given = frozenset(given)
        """Names of the fields that were set, not defaulted."""
        for declared in self.fields:
            setattr(
                self,
                declared.name,
                declared.parse(given[declared.name]) if declared.name in given else declared.default,
            )

    @classmethod
    def field_faults(cls, given: Mapping[str, Any]) -> Iterator[PluginFault]:
        """Everything wrong with a node's fields, by name."""
        known = {declared.name: declared for declared in cls.fields}
        for name in given.keys() - known.keys():
            yield PluginFault(f"{cls.name} has no field of this name; it has {', '.join(known) or 'none'}", name)
        for declared in cls.fields:
            if declared.name not in given:
                if declared.required:
                    yield PluginFault(
                        f"{cls.name} requires this field ({declared.description or declared.type})", declared.name
                    )
                continue
            try:
                declared.parse(given[declared.name])
            except FieldFault as fault:
                yield PluginFault(str(fault), declared.name)

    @property
    def values(self) -> dict[str, Value]:
        """Every field's value, defaults included."""
        return {declared.name: getattr(self, declared.name) for declared in self.fields}

    @property
    def given_values(self) -> dict[str, Value]:
        """The fields that were set. Equal given values make an equal plugin, and only they are written down."""
        return {name: value for name, value in self.values.items() if name in self.given}

    # What an author writes -------------------------------------------------------------------------------------------

    def check(self, tensors: Mapping[str, TensorType]) -> Iterable[PluginFault]:
        """Rules that declarations cannot say. `tensors` holds the inputs that are present. Called with what is known of
        the types before a build, then again with the concrete shapes of an execution."""
        return ()

    def workspace(self, tensors: Mapping[str, TensorType]) -> int:
        """Bytes of device memory that `launch` needs for inputs of (at most) these shapes."""
        return 0

    def launch(self, call: Call) -> Launch | Sequence[Launch]:
        """The kernels to run, in order. Not called where every output is empty."""
        raise NotImplementedError

    def reference(self, op: Any, *inputs: Any) -> Any:
        """The same function in ONNX operators (opset 21): `op.Add(a, b)`, see `tracing`. Takes one value an input, None
        where an optional one is absent, and returns one value an output."""
        raise NotImplementedError

    # What the SDK makes of it ----------------------------------------------------------------------------------------

    def infer(
        self, given: Sequence[TensorType | None], arithmetic: Arithmetic = integer_arithmetic
    ) -> list[TensorType]:
        """The outputs' types for inputs in declared order (None: absent). Raises the first PluginFault."""
        for fault in self.input_faults(given):
            raise fault
        types = self._by_name(given)
        names = self._bound(types)
        return [self._output_type(tensor, types, names, arithmetic) for tensor in self.outputs]

    def input_faults(self, given: Sequence[TensorType | None]) -> Iterator[PluginFault]:
        """Everything wrong with the inputs of a node: presence, datatypes, shapes, the plugin's own rules."""
        faults = [*self._presence_faults(given)]
        types = self._by_name(given)
        faults += self._datatype_faults(types)
        names = self._field_names()
        for tensor in self.inputs:
            if tensor.pattern and tensor.name in types:
                try:
                    tensor.pattern.bind(types[tensor.name].shape, names)
                except ShapeFault as fault:
                    faults.append(PluginFault(str(fault), tensor.name))
        yield from faults
        if not faults:
            yield from self.check(types)

    def _presence_faults(self, given: Sequence[TensorType | None]) -> Iterator[PluginFault]:
        if len(given) > len(self.inputs):
            listed = ", ".join(tensor.name for tensor in self.inputs)
            yield PluginFault(f"{self.name} takes at most {len(self.inputs)} inputs ({listed}), got {len(given)}")
        for index, tensor in enumerate(self.inputs):
            if not tensor.optional and (index >= len(given) or given[index] is None):
                yield PluginFault(f"{self.name} requires the input {tensor.name}", tensor.name)

    def _datatype_faults(self, types: Mapping[str, TensorType]) -> Iterator[PluginFault]:
        for tensor in self.inputs:
            found = types[tensor.name].datatype if tensor.name in types else None
            if found is None:
                continue
            if tensor.datatypes and found not in tensor.datatypes:
                expected = " or ".join(tensor.datatypes)
                yield PluginFault(f"{self.name} takes {expected} as {tensor.name}, got {found}", tensor.name)
            wanted = types[tensor.like].datatype if tensor.like in types else None
            if wanted is not None and wanted != found:
                yield PluginFault(f"{tensor.name} must be {wanted} as {tensor.like} is, got {found}", tensor.name)

    def _by_name(self, given: Sequence[TensorType | None]) -> dict[str, TensorType]:
        return {tensor.name: found for tensor, found in zip(self.inputs, given, strict=False) if found is not None}

    def _field_names(self) -> Names:
        return {name: value for name, value in self.values.items() if isinstance(value, int)}

    def _bound(self, types: Mapping[str, TensorType]) -> Names:
        names = self._field_names()
        for tensor in self.inputs:
            if tensor.pattern and tensor.name in types:
                tensor.pattern.bind(types[tensor.name].shape, names)
        return names

    def _output_type(
        self, tensor: Tensor, types: Mapping[str, TensorType], names: Names, arithmetic: Arithmetic
    ) -> TensorType:
        like = types.get(tensor.like, TensorType())
        datatype = like.datatype if tensor.like else tensor.datatypes[0]
        return TensorType(datatype, tensor.pattern.build(names, arithmetic) if tensor.pattern else like.shape)

    @classmethod
    def folder(cls) -> Path:
        """Where the plugin's module and kernel lie."""
        return Path(inspect.getfile(sys.modules[cls.__module__])).parent

    @classmethod
    def source(cls) -> Path:
        """The CUDA C++ file."""
        return cls.folder() / "kernel.cu"

    @classmethod
    def revision(cls) -> str:
        """SHA-256 of the plugin's Python and CUDA files: a plan made by another revision is not run by this one."""
        return _digest(cls.folder())


@cache
def _digest(folder: Path) -> str:
    """Read once: what counts is the code that this process has imported."""
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.iterdir() if path.suffix in (".py", ".cu", ".cuh")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _spelled(annotation: Any) -> str:
    """An annotation as text, whether the module postpones annotations or not."""
    return (
        annotation.__name__
        if isinstance(annotation, type) and not hasattr(annotation, "__origin__")
        else str(annotation)
    )
