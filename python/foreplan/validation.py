"""Predictions beside what was measured."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Union

from . import _native
from ._record import Record, frame
from .calibration import GroupScore

File = Union[str, "os.PathLike[str]"]


@dataclass(frozen=True)
class KernelValidation(Record):
    """Measured kernels and collectives against the shipped profiles."""

    rows: int
    """scored"""
    rows_without_profile: int
    groups: tuple[GroupScore, ...]

    def frame(self) -> Any:
        """The errors by group as a pandas frame."""
        return frame([score.to_dict() for score in self.groups])


@dataclass(frozen=True)
class ErrorSummary(Record):
    """Errors of one quantity over many runs, as shares."""

    n: int
    mape: float
    median: float
    p90: float
    p95: float
    worst: float
    bias: float
    worst_id: str
    coverage_90: float


@dataclass(frozen=True)
class SourceScore(Record):
    """Runs of one source, or of all (``source`` is then ``all``)."""

    source: str
    n: int
    skipped: int
    time: ErrorSummary
    memory: ErrorSummary
    spreadsheet: ErrorSummary
    """of the baseline, for time"""
    oom: dict[str, int]
    """runs of which the question was whether they fit: how many, and how many were told right"""
    regret: dict[str, float]
    """time lost by running the plan that was predicted best, over groups of runs of one problem"""


@dataclass(frozen=True)
class RunValidation(Record):
    """Measured training runs against predictions."""

    profile: str
    groups: tuple[SourceScore, ...]
    rows: tuple[dict[str, Any], ...]
    """one per run: what was measured, and ``prediction`` or why it was ``skipped``"""

    def frame(self) -> Any:
        """Predicted runs as a pandas frame: measured and predicted step time and memory."""
        def row(run: dict[str, Any]) -> dict[str, Any]:
            told = {name: value for name, value in run["prediction"].items() if not isinstance(value, dict)}
            return {**{name: value for name, value in run.items() if name not in ("prediction", "assumptions")},
                    **told}

        return frame([row(run) for run in self.rows if "prediction" in run])


def run_tables() -> list[Path]:
    """The shipped tables of measured training runs, for :func:`validate`."""
    return [Path(file) for file in _native.run_files()]


def validate(files: File | Sequence[File], *, profile: str = "best") -> KernelValidation | RunValidation:
    """Scores predictions against measurements, without fitting: ``foreplan validate``.

    ``files``: measurements of kernels in any format that ``foreplan import`` reads, or tables of measured
    runs; not both. ``profile``, for runs: ``best`` (the shipped profile of each device, else its data
    sheet), ``datasheet``, ``calibrated`` or a profile file.
    """
    paths = [os.fspath(files)] if isinstance(files, (str, os.PathLike)) else [os.fspath(file) for file in files]
    runs = [_native.is_run_file(path) for path in paths]
    if runs and all(runs):
        return RunValidation.from_json(_native.validate_runs(paths, profile))
    if any(runs):
        raise ValueError("tables of runs and of kernels are scored apart: name one kind")
    return KernelValidation.from_json(_native.validate_kernels(paths))
