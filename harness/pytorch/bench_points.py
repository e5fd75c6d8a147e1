"""What is measured: points from a bench file, or the standard list."""

import dataclasses
import itertools
from typing import Any, Iterator, Mapping

COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send_recv")
DTYPES = ("fp32", "bf16", "fp16")
# Shape keys of each operator; `vocabulary` and `heads` have fallbacks in torch_operators.py.
SHAPES: Mapping[str, tuple[str, ...]] = {
    "gemm": ("m", "n", "k"),
    "linear": ("m", "n", "k"),  # a layer with bias: more than one kernel
    "attention": ("batch", "heads", "q_len", "kv_len", "head_dim_qk", "head_dim_v"),
    "transformer_layer": ("batch", "q_len", "cols", "heads"),
    **{op: ("rows", "cols") for op in ("layer_norm", "rms_norm", "gelu", "silu_mul", "rope", "add",
                                       "embedding", "cross_entropy")},
    **{op: ("rows",) for op in ("optimizer", "copy")},  # elements
    **{op: ("size_bytes",) for op in COLLECTIVES},
}
OPTIONAL = {"op", "dtype", "pass", "layout", "reason", "kv_heads", "causal", "vocabulary", "ranks", "nodes"}
PASSES = ("forward", "dgrad", "wgrad", "backward")


class BadPoint(ValueError):
    """A point that cannot be measured, with the words for the person who wrote it."""


@dataclasses.dataclass(frozen=True)
class Point:
    op: str
    shape: tuple[tuple[str, int], ...]
    dtype: str = "fp32"
    direction: str = "forward"  # forward, dgrad or wgrad; backward of others is dgrad
    causal: bool = True

    def __getitem__(self, key: str) -> int:
        return dict(self.shape)[key]

    def get(self, key: str, fallback: int) -> int:
        return dict(self.shape).get(key, fallback)


def point(op: str, dtype: str = "fp32", direction: str = "forward", causal: bool = True,
          **shape: int) -> Point:
    return Point(op, tuple(sorted(shape.items())), dtype, direction, causal)


def parse_point(entry: Mapping[str, Any]) -> Point:
    """One mapping of a bench file. Raises BadPoint, which says what is wrong."""
    op = entry.get("op")
    if op not in SHAPES:
        raise BadPoint(f"op: {op!r} is not one of {', '.join(SHAPES)}")
    unknown = set(entry) - set(SHAPES[op]) - OPTIONAL
    if unknown:
        raise BadPoint(f"{op}: unknown keys {', '.join(sorted(unknown))}")
    missing = [key for key in SHAPES[op] if key not in entry]
    if missing:
        raise BadPoint(f"{op}: the keys {', '.join(missing)} are missing")
    dtype = entry.get("dtype", "fp32")
    if dtype not in DTYPES:
        raise BadPoint(f"{op}: dtype {dtype!r} is not one of {', '.join(DTYPES)}")
    direction = entry.get("pass", "forward")
    if direction not in PASSES:
        raise BadPoint(f"{op}: pass {direction!r} is not one of {', '.join(PASSES)}")
    shape = {key: entry[key] for key in (*SHAPES[op], "kv_heads", "vocabulary") if key in entry}
    for key, value in shape.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise BadPoint(f"{op}: {key} must be a whole number above 0, not {value!r}")
    return point(op, dtype, "dgrad" if direction == "backward" else direction,
                 bool(entry.get("causal", True)), **shape)


def read_bench_file(path: str) -> list[Point]:
    """Points of a bench file (`foreplan_bench: 1`), or of a list of such mappings in JSON."""
    import yaml  # only bench files need it

    with open(path, encoding="utf-8") as file:
        document = yaml.safe_load(file)
    if not isinstance(document, dict) or document.get("foreplan_bench") != 1:
        raise BadPoint(f"{path}: not a bench file: the key foreplan_bench: 1 is missing")
    points = []
    for number, entry in enumerate(document.get("points") or [], start=1):
        try:
            points.append(parse_point(entry))
        except BadPoint as wrong:
            raise BadPoint(f"{path}: point {number}: {wrong}") from None
    return points


def linear_points(rows: int, inputs: int, outputs: int, dtype: str, op: str = "gemm") -> Iterator[Point]:
    """The three products of a linear layer, with the shapes that models/rank/linear.cpp gives them."""
    yield point(op, dtype, "forward", m=rows, n=outputs, k=inputs)
    yield point(op, dtype, "dgrad", m=rows, n=inputs, k=outputs)
    yield point(op, dtype, "wgrad", m=outputs, n=inputs, k=rows)


def both_ways(op: str, dtype: str, **shape: int) -> Iterator[Point]:
    yield point(op, dtype, "forward", **shape)
    yield point(op, dtype, "dgrad", **shape)


def standard_points(dtype: str, largest: int = 2048) -> list[Point]:
    """Sizes that span what small and middle models use, for a machine that nothing is known of."""
    sizes = [size for size in (128, 256, 512, 1024, 2048, 4096, 8192) if size <= largest]
    points: list[Point] = []
    for rows, inputs, outputs in itertools.product(sizes[1:], sizes[1:], sizes[1:]):
        if 2.0 * rows * inputs * outputs <= 2.0 * largest**3 / 4:
            points += linear_points(rows, inputs, outputs, dtype)
    for rows, cols in itertools.product(sizes, sizes):
        for op in ("layer_norm", "rms_norm", "gelu", "silu_mul", "rope", "add"):
            points += both_ways(op, dtype, rows=rows, cols=cols)
        points += both_ways("embedding", dtype, rows=rows, cols=cols)
        points += both_ways("cross_entropy", dtype, rows=rows, cols=4 * cols)
    for length in sizes:
        for batch, heads, dim in ((1, 8, 64), (4, 8, 64), (2, 4, 128)):
            points += both_ways("attention", dtype, batch=batch, heads=heads, q_len=length, kv_len=length,
                                head_dim_qk=dim, head_dim_v=dim)
    for elements in (1 << 18, 1 << 20, 1 << 22, 1 << 24):
        points += [point("optimizer", "fp32", rows=elements), point("copy", dtype, rows=elements)]
    return points


def standard_collectives(dtype: str = "fp32", largest_bytes: int = 1 << 26) -> list[Point]:
    sizes = itertools.takewhile(lambda size: size <= largest_bytes, (1 << p for p in range(10, 40, 2)))
    return [point(op, dtype, size_bytes=size) for size in sizes for op in COLLECTIVES[:3]]
