"""Fitting a device's profile to measurements."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Sequence

from . import _native
from ._columns import Columns
from ._record import Record, frame
from .search import Progress


@dataclass(frozen=True)
class GroupScore(Record):
    """Errors of one group of measured rows: |predicted / measured - 1|."""

    device: str
    op: str
    dtype: str
    pass_: str
    library: str
    n: int
    median: float
    mean: float
    p90: float
    p95: float
    worst: float
    worst_shape: str
    bias: float
    """median of predicted / measured - 1, with its sign"""
    coverage_90: float
    """share of rows inside the 90 % interval"""


@dataclass(frozen=True)
class ClusterFactor(Record):
    """By what one's own cluster multiplies predicted times of one kind."""

    name: str
    factor: float
    log_sigma: float
    """standard deviation of the factor's logarithm"""


@dataclass(frozen=True)
class ClusterFit(Record):
    """What whole runs of one's own cluster say. Errors are mean absolute fractions."""

    runs: int
    skipped: int
    problems: int
    factors: tuple[ClusterFactor, ...]
    left_out_before: float
    """of runs whose problem the fit had not seen, without the factors"""
    left_out_after: float
    """the same with them"""
    taken: bool
    """whether the profile has them: they did better on what was left out"""
    mape: float
    """of all runs with the profile as it is now"""


@dataclass(frozen=True)
class Calibration(Record):
    """A fitted profile, and how good it is on shapes that the fit had not seen."""

    profile: str
    device: str
    gemm_rows: int
    attention_rows: int
    bandwidth_rows: int
    collective_rows: int
    """measurements of this device that it rests on"""
    notes: tuple[str, ...]
    """what does not rest on measurements of this device"""
    folds: int
    models: tuple[GroupScore, ...]
    groups: tuple[GroupScore, ...]
    text: str
    """the profile as the text of its file"""
    points: Columns
    """predictions for rows that their fit had not seen: ``model``, ``size`` (FLOPs, or bytes), ``measured_s``,
    ``predicted_s``, ``covered`` (inside the 90 % interval); none where nothing was judged"""
    cluster: ClusterFit | None = None
    """with ``runs``"""

    def save(self, file: str | os.PathLike[str]) -> Path:
        """Writes the profile, for ``profile=`` of scenarios."""
        path = Path(file)
        path.write_text(self.text)
        return path

    def frame(self) -> Any:
        """The errors by group as a pandas frame."""
        return frame([score.to_dict() for score in self.groups])


def calibrate(device: str, *, database: str | os.PathLike[str] | None = None, prior: str | None = None,
              folds: int = 5, runs: Sequence[str | os.PathLike[str]] = (),
              progress: Progress | None = None) -> Calibration:
    """Fits the profile of a device: ``foreplan calibrate``.

    Without ``database`` to the shipped measurements; with one, its rows move the shipped profile of the
    device, or that of ``prior``. ``folds``: fits for cross-validation by shape, 0 = do not judge.
    ``runs``: tables of whole runs of one's own cluster, which move times by a few factors.
    Takes seconds; Ctrl-C takes effect between folds, and after the fit where there are none.
    """
    if not 0 <= folds <= 20:
        raise ValueError(f"folds: {folds} is not in range [0 - 20]")
    fitted, text, points = _native.calibrate(device, None if database is None else os.fspath(database), prior,
                                             folds, [os.fspath(file) for file in runs], progress)
    return Calibration.from_json({**fitted, "text": text, "points": Columns(points)})
