"""The process that applies ONNX's rules: `python -m service.shape_rules.child`, frames on its standard streams.

It has limits on memory and time, and asks its parent for the types of plugins' outputs.
"""

from __future__ import annotations

import os
import resource
import sys
from typing import IO

from onnx import GraphProto, ModelProto, defs, inliner, shape_inference

from service.shape_rules.messages import (
    ASK,
    EXPAND,
    FINAL,
    INFER,
    MODEL,
    PLUGIN,
    RULES_DOMAIN,
    SAID,
    TYPES,
    Gone,
    receive,
    send,
)

MEMORY = 2 * 2**30
"""Address space, bytes."""
SECONDS = 60
"""Of processor time a model."""


class Child:
    def __init__(self, requests: IO[bytes], answers: IO[bytes]) -> None:
        self.requests, self.answers = requests, answers
        self.known: dict[tuple[int, bytes], GraphProto] = {}
        _register_plugin(self._apply)

    def run(self) -> None:
        """Until the parent is gone."""
        while True:
            kind, content = receive(self.requests)
            self.known.clear()
            _limit_time()
            model = ModelProto.FromString(content)
            said, result = self._expand(model) if kind == EXPAND else self._infer(model, kind == INFER)
            send(self.answers, SAID, said.encode(errors="replace"))
            send(self.answers, MODEL, result)

    def _infer(self, model: ModelProto, follow_values: bool) -> tuple[str, bytes]:
        """Strictly, for everything that is wrong; then leniently, for the types of what is right."""
        said = ""
        for strict in (True, False):
            try:
                inferred = shape_inference.infer_shapes(model, strict_mode=strict, data_prop=follow_values)
            except shape_inference.InferenceError as error:
                said = said or str(error)
            except Exception as error:  # rules throw what they like, for want of memory for one
                if follow_values:
                    return self._infer(model, False)
                said = said or str(error) or type(error).__name__
            else:
                return said, inferred.SerializeToString()
        return said, b""

    def _expand(self, model: ModelProto) -> tuple[str, bytes]:
        try:
            return "", inliner.inline_local_functions(model).SerializeToString()
        except Exception as error:  # the inliner has no error of its own
            return str(error) or type(error).__name__, b""

    def _apply(self, context: shape_inference.InferenceContext) -> None:
        """The rule of a plugin's node: what the parent says."""
        question = GraphProto()
        for index in range(context.get_num_inputs()):
            given = context.get_input_type(index)
            added = question.input.add()
            if given is not None:
                added.type.CopyFrom(given)
        key = context.get_attribute("alike").i, question.SerializeToString()
        answer = self.known.get(key)
        if answer is None:
            question.name = str(context.get_attribute("index").i)
            answer = self._ask(question)
            if answer.name == FINAL:
                self.known[key] = answer
        for index, output in enumerate(answer.output):
            if output.type.WhichOneof("value"):
                context.set_output_type(index, output.type)

    def _ask(self, question: GraphProto) -> GraphProto:
        send(self.answers, ASK, question.SerializeToString())
        kind, content = receive(self.requests)
        if kind != TYPES:
            raise Gone
        answer = GraphProto()
        answer.ParseFromString(content)
        return answer


def _register_plugin(rule) -> None:  # type: ignore[no-untyped-def]
    schema = defs.OpSchema
    everything = sorted(defs.get_schema("Identity").type_constraints[0].allowed_type_strs)

    def many(name: str, kind: str) -> defs.OpSchema.FormalParameter:
        variadic = schema.FormalParameterOption.Variadic
        return schema.FormalParameter(name, kind, param_option=variadic, is_homogeneous=False, min_arity=0)

    plugin = schema(
        PLUGIN, RULES_DOMAIN, 1,
        inputs=[many("inputs", "T")],
        outputs=[many("outputs", "U")],
        type_constraints=[("T", everything, ""), ("U", everything, "")],
        attributes=[schema.Attribute(name, schema.AttrType.INT) for name in ("index", "alike")],
    )  # fmt: skip
    plugin.set_type_and_shape_inference_function(rule)
    defs.register_schema(plugin)


def _limit_time() -> None:
    used = resource.getrusage(resource.RUSAGE_SELF)
    _, most = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (int(used.ru_utime + used.ru_stime) + SECONDS, most))


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # Frames go to what was standard output; whatever a library prints goes nowhere.
    answers = os.fdopen(os.dup(1), "wb")
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    try:
        Child(sys.stdin.buffer, answers).run()
    except Gone:
        return


if __name__ == "__main__":
    main()
