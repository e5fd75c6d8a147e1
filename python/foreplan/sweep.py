"""Stored sweeps: on this machine, in parts, or on an engine that others run."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from . import _native
from ._record import Record
from .engines import EngineLike, distribute
from .scenario import Scenario, ScenarioLike, as_scenario
from .search import Progress
from .store import Store


@dataclass(frozen=True)
class SweepOutcome(Record):
    """What a sweep came to, and where it is kept; :class:`foreplan.Store` reads it."""

    database: str
    run: int
    shard: str
    """``1/1`` for a whole sweep"""
    complete: bool
    """False: chunks of other shards are not in this database"""
    resumed_chunks: int
    """found in the database and not computed again"""
    chunks: int
    plans_enumerated: int
    plans_scored: int
    plans_feasible: int
    seconds: float
    threads: int


@dataclass(frozen=True)
class JoinedRun(Record):
    """A run that :func:`merge` put together."""

    run: int
    status: str
    """``finished``, or ``running``: chunks are still missing"""
    chunks: int
    chunks_added: int
    missing_chunks: tuple[int, ...]


@dataclass(frozen=True)
class MergeOutcome(Record):
    """What became of the runs of the merged databases."""

    database: str
    joined: tuple[JoinedRun, ...]
    copied_runs: tuple[int, ...]
    """finished runs that were copied: their numbers in ``database``"""
    known_runs: int
    """finished runs that were there"""


def merge(out: str | os.PathLike[str], inputs: Iterable[str | os.PathLike[str]]) -> MergeOutcome:
    """Joins the databases of a sweep's shards, or of several sweeps, into ``out``: ``foreplan merge``.

    ``out`` is made if it does not exist. Merging the same file again changes nothing.
    """
    return MergeOutcome.from_json(_native.merge(os.fspath(out), [os.fspath(file) for file in inputs]))


def sweep(scenario: ScenarioLike = None, *, database: str | os.PathLike[str] = "foreplan.db",
          keep: Literal["best", "all"] = "best", shard: str | None = None, engine: EngineLike = None,
          retries: int = 3, threads: int = 0, progress: Progress | None = None, **options: Any) -> SweepOutcome:
    """Every plan of a scenario's space, kept in a database: ``foreplan sweep``.

    ``database`` is made if it does not exist. ``keep``: the top k, the front and histograms, or all plans.
    ``progress`` is called with (parts done, parts). What was interrupted, even by a kill, goes on when
    the same sweep is asked for again.

    ``shard="2/8"`` computes one part; :func:`merge` joins the databases of all.

    ``engine`` computes the parts elsewhere and merges them as they come:

    - ``"processes"`` or ``foreplan.Processes(4)``: processes of this machine;
    - a ``dask.distributed.Client`` (or ``"dask"``, a local cluster of its own): whatever it runs on, Slurm and
      Kubernetes by dask-jobqueue and dask-kubernetes among it;
    - ``"ray"``: the Ray cluster that ``ray.init()`` reaches.

    Workers need foreplan of the same version and commit. A scenario file that workers cannot see is sent
    to them; files that it names must be visible there. A part whose worker dies is tried again up to
    ``retries`` times. ``threads`` is then that of one worker, 0 = 1. The result equals that of the local
    sweep, row for row.
    """
    if keep not in ("best", "all"):
        raise ValueError(f"keep: {keep!r} is not in {{best,all}}")
    asked = as_scenario(scenario, options)
    if engine is not None:
        if shard is not None:
            raise ValueError("shard: an engine cuts the sweep into shards itself")
        return _on_engine(asked, engine, os.fspath(database), keep == "all", retries, threads, progress)
    return SweepOutcome.from_json(_native.sweep(*asked.as_arguments(), os.fspath(database), keep == "all",
                                                shard or "1/1", threads, progress))


def _on_engine(scenario: Scenario, engine: EngineLike, database: str, keep_all: bool, retries: int,
               threads: int, progress: Progress | None) -> SweepOutcome:
    start = time.perf_counter()
    number, chunks, there = distribute(scenario, engine, database, keep_all, retries, threads, progress)
    if there == chunks:  # all was stored, by a process that was killed before it could finish the run
        return SweepOutcome.from_json(_native.sweep(*scenario.as_arguments(), database, keep_all, "1/1", 1, None))
    run = next(row for row in Store(database).runs() if row.run == number)
    assert run.plans_enumerated is not None and run.plans_scored is not None and run.plans_feasible is not None
    return SweepOutcome(database, number, "1/1", True, there, chunks, run.plans_enumerated, run.plans_scored,
                        run.plans_feasible, time.perf_counter() - start, threads or 1)
