"""Plugins' own rules within ONNX's shape inference, and ONNX's rules where they cannot be left to themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from threading import Lock

from onnx import NodeProto, TensorProto, TypeProto, defs, shape_inference

from service.datatypes import DATATYPES, datatype_from_onnx
from service.network.graph import Placement
from service.network.skeleton import PLUGIN, RULES_DOMAIN
from service.plugins.plugin import PluginFault
from service.plugins.tensors import TensorType

Context = shape_inference.InferenceContext


@dataclass
class PluginRules:
    """The plugins of one graph while it is inferred, by index in the skeleton; `faults` by index too."""

    nodes: Sequence[NodeProto]
    placements: Mapping[str, Placement]
    faults: dict[int, list[PluginFault]] = field(default_factory=dict)

    def apply(self, context: Context) -> None:
        """Sets the outputs' types of one node, or keeps what is wrong with it."""
        index = context.get_attribute("index").i
        node = self.nodes[index]
        plugin = self.placements[node.name].plugin
        assert plugin is not None
        given = [tensor_type(context.get_input_type(at)) if name else None for at, name in enumerate(node.input)]
        try:
            faults = list(plugin.input_faults(given))
            types = [] if faults else plugin.infer(given)
        except Exception as error:  # whatever a stranger's check does; ONNX would give up on the whole graph
            faults, types = [PluginFault(f"{plugin.name} cannot say: {type(error).__name__}: {error}")], []
        if faults:
            self.faults[index] = faults
        for at, kind in enumerate(types[: len(node.output)]):
            if kind.datatype is not None:
                context.set_output_type(at, type_proto(kind))


_CURRENT: ContextVar[PluginRules] = ContextVar("plugin rules")
_LOCK = Lock()


@contextmanager
def applied(rules: PluginRules) -> Iterator[None]:
    """Makes inference in this thread (or task) use these rules."""
    with _LOCK:
        _register()
    token = _CURRENT.set(rules)
    try:
        yield
    finally:
        _CURRENT.reset(token)


@cache
def _register() -> None:
    """Teaches ONNX the one operator that stands for all plugins, and corrects one of its own."""
    schema = defs.OpSchema
    everything = sorted(defs.get_schema("Identity").type_constraints[0].allowed_type_strs)
    many = schema.FormalParameterOption.Variadic

    def parameter(name: str, kind: str) -> defs.OpSchema.FormalParameter:
        return schema.FormalParameter(name, kind, param_option=many, is_homogeneous=False, min_arity=0)

    plugin = schema(
        PLUGIN, RULES_DOMAIN, 1,
        inputs=[parameter("inputs", "T")],
        outputs=[parameter("outputs", "U")],
        type_constraints=[("T", everything, ""), ("U", everything, "")],
        attributes=[schema.Attribute("index", schema.AttrType.INT, required=True)],
    )  # fmt: skip
    plugin.set_type_and_shape_inference_function(lambda context: _CURRENT.get().apply(context))
    defs.register_schema(plugin)
    for each in defs.get_all_schemas_with_history():
        if each.name == "Slice" and each.domain == "":
            _replace_rule(each, _without_negative(each.get_type_and_shape_inference_function()))


def _replace_rule(schema: defs.OpSchema, rule: Callable[[Context], None]) -> None:
    schema.set_type_and_shape_inference_function(rule)
    defs.deregister_schema(schema.name, schema.since_version, schema.domain)
    defs.C.register_schema(schema)


def _without_negative(rule: Callable[[Context], None]) -> Callable[[Context], None]:
    """ONNX 1.23 ends the process over a Slice of a negative dimension, which other operators' rules can give."""

    def guarded(context: Context) -> None:
        given = context.get_input_type(0)
        if given is None or any(dim.dim_value < 0 for dim in given.tensor_type.shape.dim):
            return
        rule(context)

    return guarded


def tensor_type(given: TypeProto | None) -> TensorType:
    """What the SDK calls a type: names instead of ONNX's numbers, None where unknown."""
    if given is None or not given.HasField("tensor_type"):
        return TensorType()
    found = datatype_from_onnx(given.tensor_type.elem_type)
    datatype = found.name if found else _onnx_name(given.tensor_type.elem_type)
    if not given.tensor_type.HasField("shape"):
        return TensorType(datatype)
    dims = given.tensor_type.shape.dim
    return TensorType(
        datatype, tuple(each.dim_value if each.HasField("dim_value") else each.dim_param or None for each in dims)
    )


def _onnx_name(number: int) -> str | None:
    return TensorProto.DataType.Name(number) if number in TensorProto.DataType.values() and number else None


def type_proto(kind: TensorType) -> TypeProto:
    """The other way round."""
    result = TypeProto()
    result.tensor_type.elem_type = DATATYPES[kind.datatype or ""].onnx
    if kind.shape is not None:
        result.tensor_type.shape.SetInParent()
        for dim in kind.shape:
            added = result.tensor_type.shape.dim.add()
            if isinstance(dim, int):
                added.dim_value = dim
            elif dim is not None:
                added.dim_param = dim
    return result
