"""Typed objects from the answers of the C++ side, which are dicts with the keys of ``--json``."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import keyword
import types
import typing
from typing import Any, Callable, TypeVar

R = TypeVar("R", bound="Record")


def _converter(hint: Any) -> Callable[[Any], Any] | None:
    """What makes a value of the type out of its JSON; None where JSON's own type is the type."""
    if isinstance(hint, type) and issubclass(hint, Record):
        return hint.from_json
    arguments = typing.get_args(hint)
    origin = typing.get_origin(hint)
    if origin is tuple:
        item = _converter(arguments[0])
        return (lambda values: tuple(map(item, values))) if item else tuple
    if origin in (typing.Union, types.UnionType):
        inner = _converter(arguments[0])
        return (lambda value: None if value is None else inner(value)) if inner else None
    return None


@functools.lru_cache(maxsize=None)
def _converters(cls: Any) -> dict[str, Callable[[Any], Any] | None]:
    hints = typing.get_type_hints(cls)
    return {field.name: _converter(hints[field.name]) for field in dataclasses.fields(cls)}


@dataclasses.dataclass(frozen=True)
class Record:
    """An answer, or a part of one. Compares by value, can be pickled, and does not change."""

    @classmethod
    def from_json(cls: type[R], data: dict[str, Any]) -> R:
        """The object of a dict with the keys of the command line's JSON; other keys are an error."""
        kind: Any = cls
        converters = _converters(kind)
        values = {}
        for key, value in data.items():
            name = f"{key}_" if keyword.iskeyword(key) else key
            convert = converters[name]
            values[name] = convert(value) if convert else value
        return cls(**values)

    def to_dict(self) -> dict[str, Any]:
        """The object as dicts and lists; absent optional parts are left out, as in ``--json``."""
        return {field.name.removesuffix("_"): _plain(value) for field in dataclasses.fields(self)
                if not ((value := getattr(self, field.name)) is None and _is_optional(field))}


def _is_optional(field: dataclasses.Field[Any]) -> bool:
    return field.default is not dataclasses.MISSING


def _plain(value: Any) -> Any:
    if isinstance(value, Record):
        return value.to_dict()
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    return value


def pandas() -> Any:
    """The module. Raises ImportError, saying what to install, where there is none."""
    try:
        return importlib.import_module("pandas")
    except ImportError as missing:
        raise ImportError("frames need pandas: pip install pandas") from missing


def frame(rows: list[dict[str, Any]]) -> Any:
    """The rows as a pandas frame."""
    return pandas().DataFrame(rows)
