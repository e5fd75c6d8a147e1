"""Answers to scenarios: the best plans, one plan in full, every plan as columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _native
from ._record import Record, frame, pandas
from .plans import FrontPlan, MemoryCurve, NearestFit, Plan, Report, Sensitivity
from .scenario import ScenarioLike, as_scenario

Progress = Callable[[int, int], object]
"""Called with (done, total) on the caller's thread about twenty times a second; what it raises ends the work."""


@dataclass(frozen=True)
class Recommendation(Record):
    """The best plans of a scenario's space. Equal, number for number, to ``foreplan recommend --json``."""

    scenario: str
    question: dict[str, Any]
    """all that the answer depends on, defaults filled in"""
    profile: str
    """what the costs come from"""
    plans_enumerated: int
    plans_scored: int
    plans_feasible: int
    seconds: float
    """of the search"""
    threads: int
    feasible: bool
    """False: nothing fits; ``nearest_fit`` then has the nearest plan that does, if any"""
    best: Report | None = None
    launch_arguments: tuple[str, ...] = ()
    """of the best plan, or the lines of its framework's file; empty for frameworks without known ones"""
    launch_obstacle: str | None = None
    """why the framework cannot express the best plan"""
    top: tuple[Report, ...] = ()
    """best first"""
    front: tuple[FrontPlan, ...] = ()
    nearest_fit: NearestFit | None = None

    def frame(self) -> Any:
        """The top plans as a pandas frame, one row per plan, best first."""
        return frame([report.row() for report in self.top])

    def to_dict(self) -> dict[str, Any]:
        """As ``--json``, which has no plans where nothing fits."""
        out = super().to_dict()
        if not self.feasible:
            for name in ("launch_arguments", "top", "front"):
                del out[name]
        return out

    def front_frame(self) -> Any:
        """The front as a pandas frame: plan, ``step_time_s``, ``peak_memory_bytes``."""
        return frame([{**point.plan.to_dict(), "step_time_s": point.step_time_s,
                       "peak_memory_bytes": point.peak_memory_bytes} for point in self.front])


@dataclass(frozen=True, kw_only=True)
class Simulation(Report):
    """One plan in full. Equal, number for number, to ``foreplan simulate --json``."""

    scenario: str
    question: dict[str, Any]
    profile: str
    feasible: bool
    memory_over_time: tuple[MemoryCurve, ...]
    nearest_fit: NearestFit | None = None


class ScoredPlans(Mapping[str, NDArray[Any]]):
    """Every scored plan of a space as NumPy columns, by place in the enumeration.

    ``index``, ``gpus``, ``tp``, ``pp``, ``vpp``, ``dp``, ``cp``, ``ep``, ``etp``, ``sequence_parallel``,
    ``dp_replicate``, ``zero``, ``micro_batch``, ``micro_batch_group``, ``offload_optimizer``, ``offload_parameters``,
    ``offload_activations``, ``recompute``, ``precision``, ``schedule``, ``framework`` (texts), ``fits`` (within the memory
    limit), ``step_time_s``, ``peak_memory_bytes``. The arrays cannot be written to.
    """

    def __init__(self, columns: dict[str, tuple[str, bytes]], names: dict[str, list[str]]) -> None:
        self._columns: dict[str, NDArray[Any]] = {
            name: np.frombuffer(data, dtype=dtype) for name, (dtype, data) in columns.items()}
        self._names = {name: np.array(texts, dtype=object) for name, texts in names.items()}

    def __getitem__(self, column: str) -> NDArray[Any]:
        values = self._columns[column]
        return self._names[column][values] if column in self._names else values

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        """Number of columns, as of any mapping; ``size`` is the number of plans."""
        return len(self._columns)

    @property
    def size(self) -> int:
        """Number of plans."""
        return len(self._columns["index"])

    def plan(self, position: int) -> Plan:
        """The plan in that row."""
        row = {name: self[name][position] for name in Plan.__dataclass_fields__}
        return Plan.from_json({name: value if isinstance(value, str) else value.item() for name, value in row.items()})

    def frame(self) -> Any:
        """All columns as a pandas frame; the texts as categories."""
        pd = pandas()
        out = pd.DataFrame(self._columns)
        for name, texts in self._names.items():
            known = list(dict.fromkeys(texts))
            out[name] = pd.Categorical(self[name], categories=known).remove_unused_categories()
        return out


def recommend(scenario: ScenarioLike = None, *, threads: int = 0, progress: Progress | None = None,
              **options: Any) -> Recommendation:
    """The best plans for a model on a cluster.

    ``scenario``: a :class:`Scenario`, the path of a scenario file, or nothing but ``options``, the keyword
    arguments of :class:`Scenario`. ``threads``: 0 = all cores. Raises ValueError with the command line's
    messages on bad input. Ctrl-C ends the search.

        >>> foreplan.recommend("scenarios/llama3-70b-64xh100.yaml", precision=["bf16", "fp8"]).best.plan
    """
    asked = as_scenario(scenario, options)
    return Recommendation.from_json(_native.recommend(*asked.as_arguments(), threads, progress))


def simulate(scenario: ScenarioLike = None, **options: Any) -> Simulation:
    """One plan in full: the scenario file's ``plan`` section, or degrees as options (``tp=8, pp=4``).

    A plan that does not fit is an answer (``feasible`` is False); one that breaks a rule of the model,
    the batch or the framework is a ValueError.
    """
    asked = as_scenario(scenario, options)
    return Simulation.from_json(_native.simulate(*asked.as_arguments()))


def sensitivity(scenario: ScenarioLike = None, **options: Any) -> Sensitivity:
    """What the step time of one plan hangs on: the report page's numbers.

    Arguments and failures are those of :func:`simulate`.
    """
    return Sensitivity.from_json(_native.sensitivity(*as_scenario(scenario, options).as_arguments()))


def trace(scenario: ScenarioLike = None, **options: Any) -> dict[str, Any]:
    """The step of one plan as Chrome trace events, as ``foreplan simulate --trace`` writes them.

    ``traceEvents`` has a process per pipeline stage (``pid`` = stage + 1) and threads for compute and the exposed
    communication; times (``ts``, ``dur``) are microseconds. Category ``slot`` holds the slots of the pipeline
    schedule. ``json.dump`` of it opens in Perfetto. Arguments and failures are those of :func:`simulate`.
    """
    return _native.trace(*as_scenario(scenario, options).as_arguments())


def search(scenario: ScenarioLike = None, *, threads: int = 0, progress: Progress | None = None,
           **options: Any) -> ScoredPlans:
    """Every plan of the scenario's space that obeys its rules, with step time and peak memory.

    Arguments and failures are those of :func:`recommend`.
    """
    asked = as_scenario(scenario, options)
    return ScoredPlans(*_native.score(*asked.as_arguments(), threads, progress))
