"""What the store's tests ask for and build."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sqlalchemy import func, select

from service.store.claims import Claims
from service.store.database import Database
from service.store.models import Base
from service.store.records import Engine, NewEngine

BUILT: dict[str, Any] = {
    "backend_version": "1.7.1",
    "targets": ["sm_86"],
    "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 8]}],
    "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1, 8]}],
    "plugins": [{"name": "ScaleBias", "kernels": []}],
}
PROBLEM = {"type": "about:blank", "title": "Build failed", "status": 500, "detail": "killed by signal 9"}


def new(name: str = "demo", **values: Any) -> NewEngine:
    return NewEngine(name=name, backend="onnxruntime", model=values.pop("model", b"\x08\x0a a model"), **values)


def build(claims: Claims, tmp_path: Path, plan: bytes = b"a plan") -> Engine:
    """Builds what is queued next."""
    claim = claims.claim("worker", lease=60)
    assert claim
    path = tmp_path / "plan"
    path.write_bytes(plan)
    return claims.succeed(claim, path, BUILT)


def rows(database: Database) -> dict[str, int]:
    """How many rows each table has that has any."""
    with database.read() as session:
        counts = {t.name: session.scalar(select(func.count()).select_from(t)) or 0 for t in Base.metadata.sorted_tables}
    return {name: number for name, number in counts.items() if number}
