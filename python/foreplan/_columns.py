"""Tables as NumPy columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._record import pandas


def _array(values: list[Any]) -> NDArray[Any]:
    """Numbers as numbers, NaN where there is none; texts, and flags of which some are unknown, as objects."""
    if any(isinstance(value, str) for value in values):
        return np.array(values, dtype=object)
    if None not in values:
        return np.array(values)
    if any(isinstance(value, bool) for value in values):
        return np.array(values, dtype=object)
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


class Columns(Mapping[str, NDArray[Any]]):
    """A table: name to values, all of one length (``size``). What is not stated is NaN, None or an empty text."""

    def __init__(self, columns: dict[str, list[Any]]) -> None:
        self._columns = {name: _array(values) for name, values in columns.items()}
        for values in self._columns.values():
            values.setflags(write=False)

    def __getitem__(self, column: str) -> NDArray[Any]:
        return self._columns[column]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        """Number of columns, as of any mapping; ``size`` is the number of rows."""
        return len(self._columns)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Columns):
            return NotImplemented
        return list(self) == list(other) and all(
            self[name].dtype == other[name].dtype
            and np.array_equal(self[name], other[name], equal_nan=self[name].dtype.kind == "f") for name in self)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{self.size} rows of {', '.join(self)}>"

    @property
    def size(self) -> int:
        """Number of rows."""
        return next((len(values) for values in self._columns.values()), 0)

    def frame(self) -> Any:
        """The table as a pandas frame."""
        return pandas().DataFrame(self._columns)
