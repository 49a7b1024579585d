"""From the store to the files that an engine host loads."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from service.errors import NotFound, PlanDamaged, ServiceError, problem_details
from service.store.blobs import Blobs
from service.store.engines import Engines
from service.store.records import Engine


@dataclass(frozen=True)
class Materialiser:
    """Writes an engine's plan, or its model with the external data beside it, and gives the file to load."""

    engines: Engines
    blobs: Blobs

    def __call__(self, engine: Engine, reference: bool, folder: Path) -> Path:
        """Raises PlanDamaged, and then the engine has failed."""
        try:
            return self._model(engine, folder) if reference else self._plan(engine, folder)
        except PlanDamaged as error:
            self.engines.fail(engine.id, problem_details(error))
            raise

    def give_up(self, engine_id: str, error: ServiceError) -> None:
        """The engine has failed for a reason that only running it showed."""
        with suppress(NotFound):  # deleted meanwhile
            self.engines.fail(engine_id, problem_details(error))

    def _plan(self, engine: Engine, folder: Path) -> Path:
        assert engine.plan is not None, "only ready engines are loaded"
        self.blobs.copy_to(engine.plan.sha256, folder / "plan")
        return folder / "plan"

    def _model(self, engine: Engine, folder: Path) -> Path:
        self.blobs.copy_to(engine.model.sha256, folder / "model.onnx")
        for location, sha256 in self.engines.files(engine.id).items():  # locations are of our own naming
            self.blobs.copy_to(sha256, folder / location)
        return folder / "model.onnx"
