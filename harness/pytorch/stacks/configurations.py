"""The stacks that are predicted and then trained on one device, sized by it."""

import dataclasses
from typing import Any, Mapping

import torch
from torch import nn

from .decoder import Decoder, DecoderConfig, decoder_batch
from .dit import Dit, DitConfig, dit_batch

GIB = 1 << 30


@dataclasses.dataclass(frozen=True)
class Precision:
    framework: str  # of simulator/frameworks/
    dtype: torch.dtype


PRECISIONS: Mapping[str, Precision] = {"bf16": Precision("pytorch", torch.bfloat16),
                                       "fp32": Precision("pytorch-cpu", torch.float32)}


@dataclasses.dataclass(frozen=True)
class Stack:
    config: DecoderConfig | DitConfig
    batch: int  # samples or sequences of a step
    length: int = 0  # tokens of a sequence

    def model(self) -> nn.Module:
        if isinstance(self.config, DitConfig):
            return Dit(self.config)
        return Decoder(self.config, self.length)

    def inputs(self, device: torch.device, dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
        if isinstance(self.config, DitConfig):
            return dit_batch(self.config, self.batch, device, dtype)
        return decoder_batch(self.config, self.batch, self.length, device, dtype)

    def media_options(self) -> list[str]:
        """What a sample is, for `foreplan simulate`."""
        if isinstance(self.config, DitConfig):
            return ["--image", f"{self.config.side}x{self.config.side}", "--global-batch", f"{self.batch} samples"]
        return ["--sequence-length", f"{self.length} tokens", "--global-batch", f"{self.batch} sequences"]


@dataclasses.dataclass(frozen=True)
class Configuration:
    stack_name: str
    stack: Stack
    recompute: bool

    @property
    def name(self) -> str:
        return f"{self.stack_name}{'-recompute' if self.recompute else ''}"

    def scenario_options(self, precision: str) -> list[str]:
        """What `foreplan simulate` is asked, beside model, cluster and profile."""
        return [*self.stack.media_options(), "--micro-batch", str(self.stack.batch), "--tp", "1", "--pp", "1",
                "--sequence-parallel", "false", "--zero", "0", "--framework", PRECISIONS[precision].framework,
                "--precision", precision, "--recompute", "full" if self.recompute else "none"]


LLAMA = DecoderConfig(hidden=4096, layers=4, heads=32, kv_heads=8, ffn=14336, vocabulary=128256)
MIXTRAL = DecoderConfig(hidden=4096, layers=2, heads=32, kv_heads=8, ffn=14336, vocabulary=32000, experts=8, top_k=2)
DIT_XL = DitConfig(layers=28, heads=16, head_dim=72, side=512)

# The published widths: of Llama-3-8B, Mixtral-8x7B and DiT-XL/2, a few layers of the first two.
FULL = {"llama": Stack(LLAMA, 1, 8192), "moe": Stack(MIXTRAL, 2, 4096), "dit": Stack(DIT_XL, 32)}
HALF = {"llama": Stack(dataclasses.replace(LLAMA, layers=2), 1, 4096),
        "moe": Stack(dataclasses.replace(MIXTRAL, layers=1), 1, 4096), "dit": Stack(DIT_XL, 8)}
# What a processor trains in seconds.
SMALL = {"llama": Stack(DecoderConfig(hidden=512, layers=4, heads=8, kv_heads=2, ffn=1792, vocabulary=8192), 2, 512),
         "moe": Stack(DecoderConfig(hidden=384, layers=3, heads=6, kv_heads=2, ffn=768, vocabulary=4096,
                                    experts=8, top_k=2), 2, 256),
         "dit": Stack(DitConfig(layers=6, heads=6, head_dim=64, side=256), 4)}
SIZES: Mapping[str, Mapping[str, Stack]] = {"full": FULL, "half": HALF, "small": SMALL}


def size_for(device: torch.device) -> str:
    """By what foreplan predicts for an H200, `full` needs 50 GB at its largest (dit), `half` 19 GB (llama)."""
    if device.type == "cpu":
        return "small"
    return "full" if torch.cuda.get_device_properties(device).total_memory >= 60 * GIB else "half"


def configurations(size: str) -> list[Configuration]:
    return [Configuration(name, stack, recompute) for name, stack in SIZES[size].items()
            for recompute in (False, True)]


def named(size: str, name: str) -> Configuration:
    found: dict[str, Any] = {one.name: one for one in configurations(size)}
    return found[name]
