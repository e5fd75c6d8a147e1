"""Operators as PyTorch runs them: buffers, the call, and the row that describes it.

Bytes are those of models/rank/: each input once, each output once, so that a fitted profile answers for the
simulator's own counts.
"""

import dataclasses
from typing import Any, Callable, Mapping

import torch
from torch import nn
from torch.nn import functional as F

from bench_points import Point
from gpt import Block, GptConfig, attend

TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
VOCABULARY = 8192  # rows of the embedding table where a point does not say
WIDTHS = {"fp32": 4, "bf16": 2, "fp16": 2}
STATISTIC_BYTES, ID_BYTES, FP32_BYTES = 4, 8, 4
Call = Callable[[], object]


@dataclasses.dataclass(frozen=True)
class Built:
    """One set of buffers: the call on them, and how many bytes they hold."""

    call: Call
    held_bytes: int


@dataclasses.dataclass(frozen=True)
class Recipe:
    kind: str  # of the measurement: gemm, attention, memory
    row: Callable[[Point], dict[str, Any]]
    build: Callable[[Point, torch.device], Built]


def random(shape: tuple[int, ...], point: Point, device: torch.device, grad: bool = False) -> torch.Tensor:
    return torch.randn(shape, dtype=TYPES[point.dtype], device=device).requires_grad_(grad)


def backward_call(output: torch.Tensor, inputs: list[torch.Tensor]) -> Call:
    gradient = torch.randn_like(output)
    return lambda: torch.autograd.grad(output, inputs, gradient, retain_graph=True)


def held(*tensors: torch.Tensor) -> int:
    return sum(tensor.untyped_storage().nbytes() for tensor in tensors)


def forward_or_backward(point: Point, function: Callable[..., torch.Tensor],
                        *inputs: torch.Tensor) -> Built:
    """`function` of `inputs`, or the gradients of those that want one."""
    output = function(*inputs)
    if point.direction == "forward":
        return Built(lambda: function(*inputs), held(output, *inputs))
    wanted = [tensor for tensor in inputs if tensor.requires_grad]
    return Built(backward_call(output, wanted), held(output, *inputs))


# ---- products -----------------------------------------------------------------------------------


def gemm_row(p: Point) -> dict[str, Any]:
    layout = {"forward": "tn", "dgrad": "nn", "wgrad": "nt"}[p.direction]
    return {"op": p.op, "m": p["m"], "n": p["n"], "k": p["k"], "dtype_in": p.dtype, "layout": layout}


def build_gemm(p: Point, device: torch.device) -> Built:
    """forward: x W^T; dgrad: g W; wgrad: g^T x, of a layer with weight [outputs, inputs]. A layer with bias
    also adds it, and sums its gradient."""
    m, n, k = p["m"], p["n"], p["k"]
    has_bias = p.op == "linear"
    if p.direction == "forward":
        x, weight = random((m, k), p, device), random((n, k), p, device)
        bias = random((n,), p, device) if has_bias else None
        return Built(lambda: F.linear(x, weight, bias), held(x, weight))
    if p.direction == "dgrad":
        gradient, weight = random((m, k), p, device), random((k, n), p, device)
        return Built(lambda: torch.mm(gradient, weight), held(gradient, weight))
    gradient, x = random((k, m), p, device), random((k, n), p, device)
    if has_bias:
        return Built(lambda: (torch.mm(gradient.t(), x), gradient.sum(0)), held(gradient, x))
    return Built(lambda: torch.mm(gradient.t(), x), held(gradient, x))


def attention_row(p: Point) -> dict[str, Any]:
    return {"phase": "train", "pass": "fwd" if p.direction == "forward" else "bwd", "causal": p.causal,
            "batch": p["batch"], "q_len": p["q_len"], "kv_len": p["kv_len"], "heads_q": p["heads"],
            "heads_kv": p.get("kv_heads", p["heads"]), "head_dim_qk": p["head_dim_qk"],
            "head_dim_v": p["head_dim_v"], "dtype_in": p.dtype}


def build_attention(p: Point, device: torch.device) -> Built:
    """Self-attention from packed q, k, v as a fused projection leaves them; else from three tensors."""
    heads, dim = p["heads"], p["head_dim_qk"]
    plain = p.get("kv_heads", heads) == heads and p["q_len"] == p["kv_len"] and dim == p["head_dim_v"]
    if plain and p.causal:
        qkv = random((p["batch"], p["q_len"], 3 * heads * dim), p, device, grad=True)
        return forward_or_backward(p, lambda packed: attend(packed, dim), qkv)
    q = random((p["batch"], heads, p["q_len"], dim), p, device, grad=True)
    k = random((p["batch"], p.get("kv_heads", heads), p["kv_len"], dim), p, device, grad=True)
    v = random((p["batch"], p.get("kv_heads", heads), p["kv_len"], p["head_dim_v"]), p, device, grad=True)
    return forward_or_backward(
        p, lambda *qkv: F.scaled_dot_product_attention(*qkv, is_causal=p.causal, enable_gqa=True), q, k, v)


# ---- rows ---------------------------------------------------------------------------------------


def memory_row(op: str, read_written: Callable[[Point, float], float]) -> Callable[[Point], dict[str, Any]]:
    """A row whose least traffic is `read_written(point, bytes of one tensor of its shape)`."""

    def row(p: Point) -> dict[str, Any]:
        tensor = float(p["rows"] * p["cols"] * WIDTHS[p.dtype])
        return {"op": op, "pass": "fwd" if p.direction == "forward" else "bwd", "rows": p["rows"],
                "cols": p["cols"], "dtype": p.dtype, "bytes": read_written(p, tensor)}

    return row


FLAT_ROW = 65536  # a flat buffer is told as rows of this length (simulator/step/pipeline_costs.cpp)


def flat_row(op: str, passes: int) -> Callable[[Point], dict[str, Any]]:
    """A row over `rows` elements in one buffer, read and written `passes` times in all."""

    def row(p: Point) -> dict[str, Any]:
        return {"op": op, "pass": "fwd", "rows": max(1, p["rows"] // FLAT_ROW), "cols": FLAT_ROW,
                "elements": p["rows"], "dtype": p.dtype, "bytes": float(passes * p["rows"] * WIDTHS[p.dtype])}

    return row


def tensors(forward: float, backward: float) -> Callable[[Point, float], float]:
    return lambda p, tensor: (forward if p.direction == "forward" else backward) * tensor


def norm_bytes(statistics: int, weights: int) -> Callable[[Point, float], float]:
    def count(p: Point, tensor: float) -> float:
        vectors = WIDTHS[p.dtype] * weights * p["cols"]
        rows = STATISTIC_BYTES * statistics * p["rows"]
        if p.direction == "forward":
            return 2 * tensor + vectors + rows
        return 3 * tensor + vectors + rows + FP32_BYTES * weights * p["cols"]

    return count


def embedding_bytes(p: Point, tensor: float) -> float:
    ids = ID_BYTES * p["rows"]
    table_gradient = FP32_BYTES * p["rows"] * p["cols"]
    return 2 * tensor + ids if p.direction == "forward" else tensor + ids + 2 * table_gradient


def cross_entropy_bytes(p: Point, tensor: float) -> float:
    logits = float(p["rows"] * p["cols"])
    fp32_passes = 9 if p.direction == "forward" else 3
    return tensor + fp32_passes * FP32_BYTES * logits


def build_norm(function: Callable[..., torch.Tensor]) -> Callable[[Point, torch.device], Built]:
    def build(p: Point, device: torch.device) -> Built:
        x = random((p["rows"], p["cols"]), p, device, grad=True)
        weight, bias = (random((p["cols"],), p, device, grad=True) for _ in range(2))
        if function is F.layer_norm:
            return forward_or_backward(p, lambda *a: F.layer_norm(a[0], (p["cols"],), *a[1:]), x, weight, bias)
        return forward_or_backward(p, lambda *a: F.rms_norm(a[0], (p["cols"],), a[1]), x, weight)

    return build


def build_gelu(p: Point, device: torch.device) -> Built:
    x = random((p["rows"], p["cols"]), p, device, grad=True)
    return forward_or_backward(p, lambda x: F.gelu(x, approximate="tanh"), x)


def build_silu_mul(p: Point, device: torch.device) -> Built:
    both = random((p["rows"], 2 * p["cols"]), p, device, grad=True)

    def gated(both: torch.Tensor) -> torch.Tensor:
        gate, up = both.chunk(2, -1)
        return F.silu(gate) * up

    return forward_or_backward(p, gated, both)


def build_rope(p: Point, device: torch.device) -> Built:
    """Rotary embedding of all heads, the first half of a head against the second."""
    head_dim = min(64, p["cols"])
    x = random((p["rows"], p["cols"] // head_dim, head_dim), p, device, grad=True)
    cos, sin = (random((p["rows"], 1, head_dim), p, device) for _ in range(2))

    def rotate(x: torch.Tensor) -> torch.Tensor:
        low, high = x.chunk(2, -1)
        return x * cos + torch.cat((-high, low), -1) * sin

    return forward_or_backward(p, rotate, x)


def build_add(p: Point, device: torch.device) -> Built:
    """Forward: a residual add. Backward: the gradients of the two branches meet, in place."""
    a, b = (random((p["rows"], p["cols"]), p, device) for _ in range(2))
    return Built((lambda: a + b) if p.direction == "forward" else (lambda: a.add_(b)), held(a, b))


def build_embedding(p: Point, device: torch.device) -> Built:
    vocabulary = p.get("vocabulary", VOCABULARY)
    table = random((vocabulary, p["cols"]), p, device, grad=True)
    ids = torch.randint(0, vocabulary, (p["rows"],), device=device)
    return forward_or_backward(p, lambda table: F.embedding(ids, table), table)


def build_cross_entropy(p: Point, device: torch.device) -> Built:
    logits = random((p["rows"], p["cols"]), p, device, grad=True)
    targets = torch.randint(0, p["cols"], (p["rows"],), device=device)
    return forward_or_backward(p, lambda logits: F.cross_entropy(logits.float(), targets), logits)


def build_optimizer(p: Point, device: torch.device) -> Built:
    """One fused AdamW step over fp32 tensors of at most a million elements, as layers have them."""
    largest = 1 << 20
    sizes = [min(largest, p["rows"] - begin) for begin in range(0, p["rows"], largest)]
    parameters = [nn.Parameter(torch.randn(size, device=device)) for size in sizes]
    for parameter in parameters:
        parameter.grad = torch.randn_like(parameter)
    step = torch.optim.AdamW(parameters, lr=1e-6, fused=True).step
    return Built(step, 4 * held(*parameters))


def build_copy(p: Point, device: torch.device) -> Built:
    source, target = (random((p["rows"],), p, device) for _ in range(2))
    return Built(lambda: target.copy_(source), held(source, target))


# ---- a layer ------------------------------------------------------------------------------------


def layer_config(p: Point) -> GptConfig:
    return GptConfig(p["cols"], 1, p["heads"], VOCABULARY, p["q_len"])


def layer_row(p: Point) -> dict[str, Any]:
    """Least traffic: input, output and weights once; backward: gradients and what was kept besides."""
    tokens, hidden, width = p["batch"] * p["q_len"], p["cols"], WIDTHS[p.dtype]
    weights = 12.0 * hidden * hidden * width
    state = float(tokens * hidden * width)
    backward = p.direction != "forward"
    return {"op": "transformer_layer", "pass": "bwd" if backward else "fwd", "rows": tokens, "cols": hidden,
            "dtype": p.dtype, "bytes": (2 if backward else 1) * (weights + 2 * state)}


def build_layer(p: Point, device: torch.device) -> Built:
    block = Block(layer_config(p)).to(device=device, dtype=TYPES[p.dtype])
    x = random((p["batch"], p["q_len"], p["cols"]), p, device, grad=True)
    output = block(x)
    if p.direction == "forward":
        return Built(lambda: block(x), held(x, *block.parameters()))
    return Built(backward_call(output, [x, *block.parameters()]), held(x, *block.parameters()))


RECIPES: Mapping[str, Recipe] = {
    "gemm": Recipe("gemm", gemm_row, build_gemm),
    "linear": Recipe("gemm", gemm_row, build_gemm),
    "attention": Recipe("attention", attention_row, build_attention),
    "layer_norm": Recipe("memory", memory_row("layer_norm", norm_bytes(2, 2)), build_norm(F.layer_norm)),
    "rms_norm": Recipe("memory", memory_row("rms_norm", norm_bytes(1, 1)), build_norm(F.rms_norm)),
    "gelu": Recipe("memory", memory_row("gelu", tensors(2, 3)), build_gelu),
    "silu_mul": Recipe("memory", memory_row("silu_mul", tensors(3, 5)), build_silu_mul),
    "rope": Recipe("memory", memory_row("rope", tensors(2, 2)), build_rope),
    "add": Recipe("memory", memory_row("add", tensors(3, 3)), build_add),
    "embedding": Recipe("memory", memory_row("embedding", embedding_bytes), build_embedding),
    "cross_entropy": Recipe("memory", memory_row("cross_entropy", cross_entropy_bytes), build_cross_entropy),
    # gradient, parameter and two moments read, parameter and two moments written
    "optimizer": Recipe("memory", flat_row("optimizer", 7), build_optimizer),
    "copy": Recipe("memory", flat_row("copy", 2), build_copy),
    "transformer_layer": Recipe("memory", layer_row, build_layer),
}
