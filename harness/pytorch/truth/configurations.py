"""The training configurations that are predicted and then run."""

import dataclasses

from gpt import GptConfig

SMALL = GptConfig(hidden=384, layers=4, heads=6, vocabulary=4096, positions=256)
LARGE = GptConfig(hidden=512, layers=6, heads=8, vocabulary=8192, positions=512)
MODELS = {"small": SMALL, "large": LARGE}
SEQUENCES = {"small": (4, 256), "large": (2, 512)}  # per step of one process: sequences, tokens in each


@dataclasses.dataclass(frozen=True)
class Configuration:
    size: str  # key of MODELS
    parallelism: str  # single, ddp, fsdp or tp
    recompute: bool

    @property
    def name(self) -> str:
        return f"{self.size}-{self.parallelism}{'-recompute' if self.recompute else ''}"

    @property
    def model(self) -> GptConfig:
        return MODELS[self.size]

    @property
    def ranks(self) -> int:
        return 1 if self.parallelism == "single" else 2

    @property
    def data_parallel(self) -> int:
        return 2 if self.parallelism in ("ddp", "fsdp") else 1

    @property
    def tensor_parallel(self) -> int:
        return 2 if self.parallelism == "tp" else 1

    @property
    def micro_batch(self) -> int:
        return SEQUENCES[self.size][0]

    @property
    def sequence_length(self) -> int:
        return SEQUENCES[self.size][1]

    def scenario_options(self) -> list[str]:
        """What `foreplan simulate` is asked, beside model, cluster and profile."""
        return ["--sequence-length", f"{self.sequence_length} tokens",
                "--global-batch", f"{self.micro_batch * self.data_parallel} sequences",
                "--micro-batch", str(self.micro_batch), "--framework", "pytorch-cpu", "--precision", "fp32",
                "--tp", str(self.tensor_parallel), "--pp", "1", "--sequence-parallel", "false",
                "--zero", "3" if self.parallelism == "fsdp" else "0",
                "--recompute", "full" if self.recompute else "none"]


PARALLELISMS = ("single", "ddp", "fsdp", "tp")
ALL = [Configuration(size, parallelism, recompute)
       for size in MODELS for parallelism in PARALLELISMS for recompute in (False, True)]
QUICK = [Configuration("small", "single", False), Configuration("small", "tp", False),
         Configuration("small", "ddp", True)]
BY_NAME = {configuration.name: configuration for configuration in ALL}
