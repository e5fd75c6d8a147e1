"""How long one call takes: pilot, batches, a stopping rule, and the statistics that are kept."""

import dataclasses
import statistics
import time
from typing import Callable, Sequence

import torch

SHORTEST_BATCH_S = 2e-3  # a batch this long hides the clock's own cost
LONGEST_CALL_S = 100.0  # results/import refuses longer ones
FEWEST_SAMPLES = 7
MOST_SAMPLES = 200
WARM_UPS = 2


@dataclasses.dataclass(frozen=True)
class Sample:
    """Seconds of one call over `count` batches: median, mean, quartiles, first and last tenth."""

    median_s: float
    mean_s: float
    low_s: float
    high_s: float
    first_tenth_s: float
    last_tenth_s: float
    count: int

    @property
    def noise(self) -> float:
        """Standard error of the median over the median, from the quartiles (normal: 0.93 IQR / sqrt n)."""
        return 0.93 * (self.high_s - self.low_s) / self.count**0.5 / self.median_s


def summarise(times_s: Sequence[float]) -> Sample:
    """At least two times."""
    low, median, high = statistics.quantiles(times_s, n=4, method="inclusive")
    tenths = statistics.quantiles(times_s, n=10, method="inclusive")
    return Sample(median, statistics.fmean(times_s), low, high, tenths[0], tenths[-1], len(times_s))


class CpuClock:
    """Wall time of calls that end when their work has ended."""

    def run(self, calls: Sequence[Callable[[], object]], launches: int) -> float:
        begin = time.perf_counter()
        for i in range(launches):
            calls[i % len(calls)]()
        return (time.perf_counter() - begin) / launches


class CudaClock:
    """Device time between two events around the launches."""

    def run(self, calls: Sequence[Callable[[], object]], launches: int) -> float:
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for i in range(launches):
            calls[i % len(calls)]()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1e-3 / launches


class CudaGraphClock(CudaClock):
    """As CudaClock, with the launches recorded once and replayed: the host's time is hidden."""

    def __init__(self) -> None:
        self._graphs: dict[int, torch.cuda.CUDAGraph] = {}

    def run(self, calls: Sequence[Callable[[], object]], launches: int) -> float:
        graph = self._graphs.get(launches)
        if graph is None:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                for i in range(launches):
                    calls[i % len(calls)]()
            self._graphs[launches] = graph
        return super().run([graph.replay], 1) / launches


def clock_for(device: torch.device, graph: bool):
    if device.type == "cuda":
        return CudaGraphClock() if graph else CudaClock()
    return CpuClock()


def measure(
    calls: Sequence[Callable[[], object]],
    clock,
    limit_s: float = 1.0,
    noise: float = 0.01,
    agree: Callable[[float], float] = lambda value: value,
) -> Sample:
    """Time of one of `calls`, which do the same on different buffers and take turns.

    A pilot finds how many launches make a batch long enough for the clock. Batches repeat until the
    median's standard error is below `noise`, or `limit_s` or MOST_SAMPLES is reached. `agree` makes the
    ranks of a group decide alike: it returns the largest of what the ranks say.
    """
    clock.run(calls, max(WARM_UPS, len(calls)))
    pilot = agree(clock.run(calls, len(calls)))
    launches = max(1, round(SHORTEST_BATCH_S / pilot))
    times: list[float] = []
    begin = time.perf_counter()
    while True:
        times.append(agree(clock.run(calls, launches)))
        if len(times) < FEWEST_SAMPLES:
            continue
        sample = summarise(times)
        spent = agree(time.perf_counter() - begin)
        if sample.noise <= noise or spent >= limit_s or len(times) >= MOST_SAMPLES:
            return sample
