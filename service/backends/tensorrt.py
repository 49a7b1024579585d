"""The TensorRT backends. `tensorrt` and `tensorrt_rtx` have nearly the same API, so the module is a parameter."""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from service.backends.base import BuildRequest, Built, Capabilities, Progress, Session
from service.backends.flavour import Flavour
from service.backends.gpu import host_gpu
from service.backends.importers import aliases
from service.backends.plan_builder import PlanBuilder, warm_up
from service.backends.runtime_cache import RuntimeCache
from service.errors import Conflict
from service.plugins.catalogue import Found, discover
from service.plugins.creator import register
from service.plugins.registration import Registration, StalePlugin


class TensorRT:
    """Needs `libraries.child_environment` to build or run. One instance a process: TensorRT's registry is one."""

    def __init__(self, module: str, plugin_libraries: tuple[Path, ...], kernel_cache: Path) -> None:
        self.name = module
        self._libraries, self._cache = plugin_libraries, kernel_cache

    @cached_property
    def flavour(self) -> Flavour:
        return Flavour(self.name, importlib.import_module(self.name))

    @cached_property
    def found(self) -> tuple[Found, ...]:
        """Our plugins. A package whose plugins cannot be imported costs only the networks that use them."""
        return discover(problems=[])

    @cached_property
    def registration(self) -> Registration:
        """Registers all creators, once."""
        registration = Registration()
        _ = self.natives  # loaded first, so that ours come on top
        named = () if self.flavour.imports_own_domains else aliases(self.found)
        self._creators = register(self.flavour.trt, self.found, registration, named)
        return registration

    @cached_property
    def natives(self) -> list[tuple[Any, str]]:
        """Creators of TensorRT itself and of the plugin libraries, each with its origin."""
        trt, registry = self.flavour.trt, self.flavour.trt.get_plugin_registry()
        trt.init_libnvinfer_plugins(self.logger, "")
        origins = {_identity(each): "tensorrt" for each in registry.all_creators}
        for library in self._libraries:
            if registry.load_library(str(library)) is None:
                raise RuntimeError(f"{library.name} is no library of TensorRT plugins")
            for each in registry.all_creators:
                origins.setdefault(_identity(each), library.name)
        return [(each, origins[_identity(each)]) for each in registry.all_creators]

    @cached_property
    def logger(self) -> Any:
        return logger(self.flavour.trt)

    def capabilities(self) -> Capabilities:
        return self.flavour.capabilities(host_gpu())

    def build(self, request: BuildRequest, out: Path, progress: Progress) -> Built:
        builder = PlanBuilder(self.flavour, self.registration, self.logger, self.found, self._cache)
        return builder.build(request, out, progress)

    def warm_up(self) -> None:
        """Registers the creators and builds a network of one node: the first build of a process takes half a second
        longer than those after it."""
        if not self.flavour.ahead_of_time:
            return  # it would need the GPU, which may be busy
        _ = self.registration
        with self.logger.silenced():
            warm_up(self.flavour, self.logger)

    def load(self, plan: Path) -> Session:
        from service.backends.tensorrt_session import TensorRTSession

        registration, trt = self.registration, self.flavour.trt
        runtime = trt.Runtime(self.logger)
        data = plan.read_bytes()
        self.logger.errors.clear()
        engine = runtime.deserialize_cuda_engine(data)
        if engine is None:
            raise Conflict(self._refusal())
        gpu = host_gpu()
        made_for = f"{hashlib.sha256(data).hexdigest()[:32]}-{gpu and gpu.target}-{gpu and gpu.driver}"
        cache = RuntimeCache(self._cache.with_name("runtime") / f"{made_for}-{trt.__version__}")
        return TensorRTSession(trt, runtime, engine, registration, cache)

    def _refusal(self) -> str:
        said, error = self.registration.faults.take() or (self.logger.first_error(), None)
        if isinstance(error, StalePlugin):
            return said
        return f"{self.name} {self.flavour.trt.__version__} does not take the plan: {said}"


def _identity(creator: Any) -> tuple[str, str, str]:
    return creator.name, creator.plugin_version, creator.plugin_namespace


SDK_KNOWS_DEFAULTS = "not found in plugin node! Ensure that the plugin creator has a default value"


def logger(trt: Any) -> Any:
    """TensorRT's log on standard output, errors kept."""
    severities = trt.ILogger.Severity

    class Logger(trt.ILogger):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.errors: list[str] = []
            self.silent = False

        @contextmanager
        def silenced(self) -> Iterator[None]:
            self.silent = True
            yield
            self.silent = False

        def log(self, severity: Any, message: str) -> None:
            if self.silent:
                return
            if severity.value <= severities.ERROR.value:
                self.errors.append(message)
            if severity.value <= severities.INFO.value and SDK_KNOWS_DEFAULTS not in message:
                print(f"[{severity.name}] {message}", flush=True)

        def first_error(self) -> str:
            return self.errors[0] if self.errors else "it gives no reason"

    return Logger()
