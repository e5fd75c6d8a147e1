"""What sweeps stored: runs and their plans, read from the SQLite file."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Literal

from . import _native
from ._record import Record, frame
from .plans import Memory, Plan


@dataclass(frozen=True)
class Run(Record):
    """One execution of a sweep. Counts and the end are None until it is finished."""

    run: int
    scenario: str
    profile: str
    program_version: str
    status: str
    """``finished``, or ``running``: not all chunks are stored"""
    keep: str
    """``best`` plans or ``all``"""
    started_at_utc: int
    """seconds since 1970-01-01"""
    finished_at_utc: int | None
    plans_enumerated: int | None
    plans_scored: int | None
    plans_feasible: int | None


@dataclass(frozen=True)
class StoredPlan(Record):
    """A plan that a run kept, with its prediction; what was not predicted is None."""

    rank: int | None
    """1 = best; None = not among the top"""
    on_front: bool
    feasible: bool
    reason: str | None
    """why it cannot run"""
    key: str
    plan: Plan
    step_time_s: float | None
    step_time_low_s: float | None
    step_time_high_s: float | None
    peak_memory_bytes: float | None
    memory_headroom_bytes: float | None
    tokens_per_s_per_gpu: float | None
    mfu_fraction: float | None
    objective: float | None
    """what ranks are made by, smaller first"""
    extra: dict[str, float | None] | None
    """columns that the scenario's hooks added"""
    breakdown: dict[str, Any] | None
    memory: Memory | None

    def row(self) -> dict[str, Any]:
        """The plan as one flat row, without breakdown and memory by component."""
        return {**self.plan.to_dict(), **{name: getattr(self, name) for name in (
            "rank", "on_front", "feasible", "reason", "step_time_s", "step_time_low_s", "step_time_high_s",
            "peak_memory_bytes", "memory_headroom_bytes", "tokens_per_s_per_gpu", "mfu_fraction", "objective")},
                **(self.extra or {})}


@dataclass(frozen=True)
class HistogramBin(Record):
    """How many of the scored plans have ``quantity`` in [low, high); its name says the unit."""

    quantity: str
    low: float
    high: float
    plans: int


Which = Literal["ranked", "front", "all"]


class Store:
    """A database of sweeps, opened for reading. Raises ValueError where the file is not a sound one."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self._reader = _native.Reader(self.path)

    def runs(self) -> list[Run]:
        """All runs, oldest first."""
        return [Run.from_json(row) for row in self._reader.runs()]

    def plans(self, run: int, which: Which = "ranked", limit: int | None = None) -> list[StoredPlan]:
        """Plans of a run: ranked ones by rank, then the others by their place in the enumeration."""
        _check_which(which)
        return [StoredPlan.from_json(row) for row in self._reader.plans(run, which, limit)]

    def frame(self, run: int, which: Which = "ranked", limit: int | None = None) -> Any:
        """The same plans as a pandas frame."""
        return frame([plan.row() for plan in self.plans(run, which, limit)])

    def histogram(self, run: int) -> list[HistogramBin]:
        """How step time and peak memory of all scored plans are spread; empty until the run is finished."""
        return [HistogramBin.from_json(row) for row in self._reader.histogram(run)]

    def scenario_text(self, run: int) -> str:
        """The scenario file of a run as its author wrote it; empty where options alone asked."""
        return self._reader.scenario_text(run)


def _check_which(which: str) -> None:
    if which not in ("ranked", "front", "all"):
        raise ValueError(f"which: {which!r} is not in {{ranked,front,all}}")
