"""Where the parts of a sweep are computed: processes of this machine, Dask, Ray.

An engine is an object with ``workers`` (how many parts it computes at once) and ``run(work, parts, retries)``,
which yields ``work(part)`` for each part in any order, and tries parts whose worker died again.
"""

from __future__ import annotations

import importlib
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent import futures
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, Union

from . import _native
from .scenario import Scenario

PARTS_PER_WORKER = 4
"""Enough that a worker which ends early finds more to do, few enough that starting them costs little."""


@dataclass(frozen=True)
class Part:
    """One shard of a sweep, as it travels to a worker."""

    file: str | None
    text: str | None
    """of the file, for workers that cannot see it"""
    options: tuple[tuple[str, str], ...]
    keep_all: bool
    shard: str
    threads: int


def compute(part: Part) -> bytes:
    """Computes a shard and returns its database: what a worker does."""
    with tempfile.TemporaryDirectory(prefix="foreplan-") as folder:
        file = part.file
        if file is not None and part.text is not None and not _holds(file, part.text):
            file = os.path.join(folder, os.path.basename(file))
            Path(file).write_text(part.text, encoding="utf-8")
        database = os.path.join(folder, "part.db")
        _native.sweep(file, list(part.options), database, part.keep_all, part.shard, part.threads, None)
        return Path(database).read_bytes()


def _holds(file: str, text: str) -> bool:
    try:
        return Path(file).read_text(encoding="utf-8") == text
    except OSError:
        return False


Work = Callable[[Part], bytes]


class Engine(Protocol):
    """What :func:`foreplan.sweep` needs of an engine."""

    @property
    def workers(self) -> int: ...

    def run(self, work: Work, parts: list[Part], retries: int) -> Iterable[bytes]: ...


class Processes:
    """Processes of this machine, one per part: ``workers`` at once, by default one per core."""

    def __init__(self, workers: int | None = None) -> None:
        self.workers = workers if workers is not None else len(os.sched_getaffinity(0))
        if self.workers < 1:
            raise ValueError(f"workers: {self.workers} processes compute nothing")

    def run(self, work: Work, parts: list[Part], retries: int) -> Iterator[bytes]:
        """Ends with the first part that fails for another reason than a death of its process."""
        pool = futures.ThreadPoolExecutor(self.workers)
        try:
            waiting = [pool.submit(self._compute, work, part, retries) for part in parts]
            for future in futures.as_completed(waiting):
                yield future.result()
        finally:
            pool.shutdown(cancel_futures=True)

    @staticmethod
    def _compute(work: Work, part: Part, retries: int) -> bytes:
        # A process of its own rather than multiprocessing's: callers need no `if __name__ == "__main__"`.
        for _ in range(retries + 1):
            done = subprocess.run([sys.executable, "-m", "foreplan.worker"], input=pickle.dumps((work, part)),
                                  stdout=subprocess.PIPE, check=False)
            if done.returncode == 0:
                answer = pickle.loads(done.stdout)
                if isinstance(answer, BaseException):
                    raise answer
                return bytes(answer)
        raise RuntimeError(f"the process of shard {part.shard} died {retries + 1} times, the last time with "
                           f"code {done.returncode}")


class Dask:
    """A Dask.distributed cluster; without a client, a local one for the time of the sweep."""

    def __init__(self, client: Any = None) -> None:
        self._client = client

    @property
    def workers(self) -> int:
        if self._client is None:
            return len(os.sched_getaffinity(0))
        threads: dict[str, int] = self._client.nthreads()
        return max(1, sum(threads.values()))

    def run(self, work: Work, parts: list[Part], retries: int) -> Iterator[bytes]:
        """The scheduler itself moves the parts of a dead worker to others."""
        distributed = importlib.import_module("distributed")
        client = self._client if self._client is not None else distributed.Client()
        try:
            for future in distributed.as_completed(client.map(work, parts, retries=retries, pure=False)):
                yield future.result()
        finally:
            if self._client is None:
                client.close()


class Ray:
    """The Ray cluster that ``ray.init()`` reaches."""

    def __init__(self) -> None:
        self._ray = importlib.import_module("ray")
        if not self._ray.is_initialized():
            self._ray.init()

    @property
    def workers(self) -> int:
        return max(1, int(self._ray.cluster_resources().get("CPU", 1)))

    def run(self, work: Work, parts: list[Part], retries: int) -> Iterator[bytes]:
        remote = self._ray.remote(max_retries=retries)(work)
        waiting = [remote.remote(part) for part in parts]
        while waiting:
            done, waiting = self._ray.wait(waiting, num_returns=1)
            yield self._ray.get(done[0])


EngineLike = Union[Literal["processes", "dask", "ray"], Engine, Any, None]


def as_engine(engine: Any) -> Engine:
    """An engine from what callers pass: its name, a Dask client, or an engine."""
    named: dict[str, Callable[[], Engine]] = {"processes": Processes, "dask": Dask, "ray": Ray}
    if isinstance(engine, str):
        if engine not in named:
            raise ValueError(f"engine: {engine!r} is not in {{{','.join(named)}}}")
        return named[engine]()
    if hasattr(engine, "run") and hasattr(engine, "workers"):
        return engine  # type: ignore[no-any-return]
    if type(engine).__module__.partition(".")[0] == "distributed":
        return Dask(engine)
    raise ValueError(f"engine: {engine!r} is neither {', '.join(named)}, a dask.distributed.Client, nor an object "
                     "with workers and run()")


def _text_of(file: str | None) -> str | None:
    try:
        return None if file is None else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None  # whoever reads the scenario says what is wrong with it


def distribute(scenario: Scenario, engine: Any, database: str, keep_all: bool, retries: int, threads: int,
               progress: Callable[[int, int], object] | None) -> tuple[int, int, int]:
    """Computes what the database lacks of the sweep. Returns (run, chunks, chunks that were there)."""
    chosen = as_engine(engine)
    file, options = scenario.as_arguments()
    begun = _native.begin_sweep(file, options, database, keep_all)
    run, chunks, missing = begun["run"], begun["chunks"], set(begun["missing_chunks"])
    count = min(chunks, PARTS_PER_WORKER * chosen.workers)
    parts = [Part(file, _text_of(file), tuple(options), keep_all, f"{number + 1}/{count}", threads or 1)
             for number in range(count) if any(chunk % count == number for chunk in missing)]
    with tempfile.TemporaryDirectory(prefix="foreplan-") as folder:
        shard = os.path.join(folder, "shard.db")
        for done, data in enumerate(chosen.run(compute, parts, retries), 1):
            Path(shard).write_bytes(data)
            joined = _native.merge(database, [shard])["joined"]
            if [row["run"] for row in joined] != [run]:
                raise RuntimeError(f"a worker runs another foreplan than this one ({_native.version} "
                                   f"{_native.git_commit})")
            if progress is not None:
                progress(done, len(parts))
    return run, chunks, chunks - len(missing)
