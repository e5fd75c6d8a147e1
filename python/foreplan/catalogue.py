"""Models, devices and clusters: those that are shipped, and files of one's own."""

from __future__ import annotations

import os
from dataclasses import dataclass

from . import _native
from ._record import Record


@dataclass(frozen=True)
class Operator(Record):
    """One kernel of a layer, for one sequence on one device."""

    operator: str
    # `pass` is a word of the language.
    pass_: str
    kind: str
    part: str
    shape: str
    flop: float
    read_bytes: float
    written_bytes: float


@dataclass(frozen=True)
class LayerKind(Record):
    """Layers of one kind: how many there are, and what one executes."""

    description: str
    layers: int
    operators: tuple[Operator, ...]


@dataclass(frozen=True)
class Sample(Record):
    """What a diffusion transformer was published for: a picture (one frame) or video, and its prompt."""

    width: int
    height: int
    frames: int
    latent_tokens: int
    text_tokens: int
    forward_flop: float
    """of one sample; a training step takes three times as many"""


@dataclass(frozen=True)
class Model(Record):
    """What a model counts, at one sequence length."""

    name: str
    family: str
    source: str
    parameters: int
    active_parameters: int
    """used per token; fewer than all in mixtures of experts"""
    layers: int
    hidden: int
    vocabulary: int
    sequence_length: int
    """tokens"""
    forward_flop_per_token: float
    """with full attention; a training step takes three times as many"""
    forward_flop_per_token_causal: float
    sample: Sample | None
    """None for a language model"""
    layer_kinds: tuple[LayerKind, ...]


@dataclass(frozen=True)
class ModelSummary(Record):
    """A line of the list of models."""

    name: str
    family: str
    parameters: int
    active_parameters: int
    layers: int
    hidden: int


@dataclass(frozen=True)
class Device(Record):
    """A data sheet. Peaks are dense rates in FLOP/s, None where there is none; bandwidths per direction."""

    name: str
    aliases: tuple[str, ...]
    vendor: str
    architecture: str
    sm_count: int
    boost_clock_hz: float
    peak_fp32_flop_per_s: float | None
    peak_tf32_flop_per_s: float | None
    peak_fp16_flop_per_s: float | None
    peak_bf16_flop_per_s: float | None
    peak_fp8_flop_per_s: float | None
    peak_fp4_flop_per_s: float | None
    memory_bytes: float
    memory_bandwidth_bytes_per_s: float
    l2_cache_bytes: float
    scale_up_link: str
    scale_up_bandwidth_bytes_per_s: float
    pcie_bandwidth_bytes_per_s: float
    devices_per_node: int
    """of a typical node"""
    nic_bandwidth_bytes_per_s: float
    power_w: float
    sources: tuple[str, ...]
    unconfirmed: tuple[str, ...]
    """fields that no source confirms"""
    note: str


@dataclass(frozen=True)
class Cluster(Record):
    """Nodes of devices and the links between them; bandwidths per device or NIC and direction."""

    name: str
    device: str
    nodes: int
    devices_per_node: int
    devices: int
    scale_up_size: int
    """devices of one NVLink domain"""
    scale_up_bandwidth_bytes_per_s: float
    scale_up_latency_s: float
    scale_up_switched: bool
    nics_per_node: int
    nic_bandwidth_bytes_per_s: float
    nic_latency_s: float
    rail_aligned: bool
    oversubscription: float
    nodes_per_pod: int
    host_memory_per_node_bytes: float
    """0 = unknown"""
    pcie_bandwidth_bytes_per_s: float
    note: str


def models() -> list[ModelSummary]:
    """The shipped models."""
    return [ModelSummary.from_json(row) for row in _native.model_list()]


def model(name: str | os.PathLike[str], sequence_length: int | None = None) -> Model:
    """A model by its catalogue name or the path of its ``config.json``.

    ``sequence_length``: tokens; by default the model's context, at most 8192.
    """
    return Model.from_json(_native.model(os.fspath(name), sequence_length))


def devices() -> list[Device]:
    """The shipped data sheets and those in the folder that ``FOREPLAN_DEVICES`` names."""
    return [device(name) for name in _native.device_names()]


def device(name: str | os.PathLike[str]) -> Device:
    """A device by its name, an alias, or the path of a device file."""
    return Device.from_json(_native.device(os.fspath(name)))


def clusters() -> list[Cluster]:
    """The shipped clusters."""
    return [cluster(name) for name in _native.cluster_names()]


def cluster(text: str | os.PathLike[str]) -> Cluster:
    """A cluster: ``"8x8xH100"`` (nodes x devices x device), ``"64xH100"``, a shipped one, or a file."""
    return Cluster.from_json(_native.cluster(os.fspath(text)))
