"""Questions: a scenario file, options that override its keys, or options alone."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Union

from . import _native

Degrees = Union[int, Sequence[int]]
Shares = Union[float, Sequence[float]]
Replicas = Union[int, str, Sequence[Union[int, str]]]
Names = Union[str, Sequence[str]]
Flags = Union[bool, Sequence[bool]]


def _text(value: Any) -> str:
    """An option's value as on the command line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int, float)):
        return str(value)
    if isinstance(value, os.PathLike):
        return str(os.fspath(value))
    return ",".join(map(_text, value))


class Scenario:
    """A question: model, cluster, job, search space, constraints and objective.

    ``file`` is a scenario file (YAML); every other argument stands for a key of such a file, as the
    option of the same name does on the command line, and goes before the file's. Lists are values to
    search. Nothing is read before the question is asked; mistakes are then a ValueError that names
    file, line and key, or the option, one line per mistake.

    Quantities are texts with a unit: ``sequence_length="8192 tokens"``, ``global_batch="4Mi tokens"`` or
    ``"512 sequences"``, ``headroom="3 %"``, dropout ``"10 %"``. A diffusion transformer takes
    ``image="1024x1024"``, ``frames`` and ``text_tokens`` in place of a sequence length.
    """

    def __init__(
        self,
        file: str | os.PathLike[str] | None = None,
        *,
        model: str | os.PathLike[str] | None = None,
        cluster: str | os.PathLike[str] | None = None,
        sequence_length: str | None = None,
        image: str | None = None,
        frames: int | None = None,
        text_tokens: int | None = None,
        global_batch: str | None = None,
        hidden_dropout: str | None = None,
        attention_dropout: str | None = None,
        expert_imbalance: float | None = None,
        framework: Names | None = None,
        precision: Names | None = None,
        gpus: Degrees | None = None,
        tp: Degrees | None = None,
        pp: Degrees | None = None,
        vpp: Degrees | None = None,
        cp: Degrees | None = None,
        ep: Degrees | None = None,
        etp: Degrees | None = None,
        micro_batch: Degrees | None = None,
        sequence_parallel: Flags | None = None,
        dp_replicate: Replicas | None = None,
        zero: Degrees | None = None,
        recompute: Names | None = None,
        micro_batch_group: Degrees | None = None,
        offload_optimizer: Shares | None = None,
        offload_parameters: Shares | None = None,
        offload_activations: Shares | None = None,
        schedule: Names | None = None,
        headroom: str | None = None,
        objective: str | None = None,
        profile: str | os.PathLike[str] | None = None,
        top: int | None = None,
        hooks: str | os.PathLike[str] | None = None,
    ) -> None:
        given = {name: value for name, value in locals().items()
                 if name not in ("self", "file") and value is not None}
        self.file: str | None = None if file is None else os.fspath(file)
        self.options: dict[str, Any] = given

    def with_options(self, **options: Any) -> Scenario:
        """The same question with these options set, or unset where the value is None."""
        return Scenario(self.file, **{**self.options, **options})

    def resolved(self, *, one_plan: bool = False) -> dict[str, Any]:
        """Everything that the answer depends on, defaults filled in: the ``question`` of the JSON answers.

        ``one_plan``: read as for :func:`foreplan.simulate`, degrees being those of the one plan.
        """
        return _native.question(*self.as_arguments(), one_plan=one_plan)

    def as_arguments(self) -> tuple[str | None, list[tuple[str, str]]]:
        """File and options as the C++ side takes them: ``("--tp", "4,8")``."""
        return self.file, [(f"--{name.replace('_', '-')}", _text(value))
                           for name, value in self.options.items()]

    def __repr__(self) -> str:
        arguments = [] if self.file is None else [repr(self.file)]
        arguments += [f"{name}={value!r}" for name, value in self.options.items()]
        return f"Scenario({', '.join(arguments)})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Scenario) and (self.file, self.options) == (other.file, other.options)

    __hash__ = None  # type: ignore[assignment]


ScenarioLike = Union[Scenario, str, "os.PathLike[str]", None]


def as_scenario(scenario: ScenarioLike, options: dict[str, Any]) -> Scenario:
    """A scenario from what callers pass: one, the path of a file, or None with options alone."""
    if not isinstance(scenario, Scenario):
        scenario = Scenario(scenario)
    return scenario.with_options(**options) if options else scenario


def scenarios() -> list[Path]:
    """The shipped scenario files."""
    return [Path(file) for file in _native.scenario_files()]
