"""Measured kernels and collectives: the shipped rows, and rows of one's own."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Union

from . import _native
from ._columns import Columns
from ._record import Record

Kind = Literal["gemm", "attention", "collectives", "memory", "moe"]


@dataclass(frozen=True)
class ImportedLine(Record):
    """A line of a file that was refused, or kept with a flag."""

    line: int
    reason: str


@dataclass(frozen=True)
class ImportedFile(Record):
    """What became of one file."""

    file: str
    format: str
    content_hash: str
    """SHA-256 of its bytes"""
    accepted: int
    added: int | None
    """rows that were not in the database"""
    duplicates: int
    rejected: tuple[ImportedLine, ...]
    flagged: tuple[ImportedLine, ...]
    notices: tuple[str, ...]


def measurements(kind: Kind, *, device: str | None = None, source: str | None = None,
                 database: str | os.PathLike[str] | None = None) -> Columns:
    """Measured rows of one kind as NumPy columns; ``.frame()`` makes a pandas frame of them.

    ``device``: name or alias; ``source``: a key of ``results/calibration/sources.yaml``, or a file's name.
    Without ``database`` the shipped rows. Columns: where a row comes from (``device``, ``library``, ``source``,
    ``licence``, ``date``, ...), its fields as in ``results/README.md``, ``time_s``, ``samples``, and ``flags``:
    why to distrust it, empty = nothing.

        >>> foreplan.measurements("gemm", device="H100").frame()
    """
    return Columns(_native.measurements(kind, device or "", source or "",
                                        None if database is None else os.fspath(database)))


File = Union[str, "os.PathLike[str]"]


def import_measurements(files: File | Sequence[File], *, database: str | os.PathLike[str],
                        device: str | None = None, operation: str | None = None) -> tuple[ImportedFile, ...]:
    """Measurements from files into a database: ``foreplan import``.

    ``files``: in any format of ``results/README.md``; ``device`` and ``operation`` (the collective) for files
    that do not say. A row that cannot be used is reported, not raised; a file that cannot be read at all is
    a ValueError and nothing is stored. A row that was imported before is not stored again.
    """
    paths = [os.fspath(files)] if isinstance(files, (str, os.PathLike)) else [os.fspath(file) for file in files]
    told = _native.import_measurements(paths, os.fspath(database), device or "", operation or "")
    return tuple(map(ImportedFile.from_json, told))
