#!/usr/bin/env python3
"""Counts the bytes that Megatron core moves between its matrix products, as an oracle for models/.

Writes tests/data/megatron_traffic/eager.csv: for each piece of a layer the bytes that its kernels
read and write in one forward and one backward, and how many kernels that takes. The pieces are
megatron-core's own functions, run on the CPU; the grouped products of TransformerEngine, which needs
a GPU, are replaced by ones that are not counted. Every operation of PyTorch is one kernel that reads
each input once and writes its result once; views are free. What `jit_fuser` compiles counts as one
kernel. A gradient that autograd makes of zeros is counted as it is made.

Run with the Python that scripts/frameworks.sh makes.
"""

import csv
import functools
import importlib.metadata
import pathlib
import types
from unittest import mock

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

OUT = pathlib.Path(__file__).resolve().parents[1] / "tests" / "data" / "megatron_traffic"
TOKENS, HIDDEN, FFN, EXPERTS = 96, 512, 384, 4
HEADS, HEAD_DIM, SAMPLES = 64, 32, 2
VIEWS = {"split_with_sizes", "split", "slice", "view", "_unsafe_view", "expand", "unsqueeze", "squeeze",
          "t", "transpose", "select", "detach", "alias", "permute", "unbind", "as_strided", "chunk"}


def size(tensors) -> int:
    """Bytes of the tensors' own elements: those that a broadcast repeats count once."""
    total = 0
    for tensor in {id(t): t for t in tree_leaves(tensors) if isinstance(t, torch.Tensor)}.values():
        elements = 1
        for length, stride in zip(tensor.shape, tensor.stride()):
            elements *= length if stride else 1
        total += elements * tensor.element_size()
    return total


class Counter(TorchDispatchMode):
    """Adds up what kernels read and write; `paused` while what is not counted runs."""

    def __init__(self):
        super().__init__()
        self.start()
        self.paused = False

    def start(self) -> None:
        self.read = self.written = self.kernels = 0

    def note(self, read: int, written: int) -> None:
        self.read, self.written, self.kernels = self.read + read, self.written + written, self.kernels + 1

    def __torch_dispatch__(self, function, kinds, arguments=(), named=None):
        result = function(*arguments, **(named or {}))
        name = function.overloadpacket.__name__
        made = [t for t in tree_leaves(result) if isinstance(t, torch.Tensor) and t.numel() > 1]
        if self.paused or name in VIEWS or not made or name.startswith("empty"):
            return result
        reads = () if name in ("zeros", "zeros_like", "new_zeros", "full", "scalar_tensor") else (arguments, named)
        if name == "copy_":
            reads = arguments[1]
        self.note(size(reads), size(made))
        return result


def uncounted(counter: Counter, function):
    @functools.wraps(function)
    def run(*arguments, **named):
        before, counter.paused = counter.paused, True
        try:
            return function(*arguments, **named)
        finally:
            counter.paused = before
    return run


def fused(counter: Counter, function):
    """One kernel, whatever it is made of."""
    quiet = uncounted(counter, function)

    def run(*arguments, **named):
        result = quiet(*arguments, **named)
        made = {id(t): t for t in tree_leaves(result) if isinstance(t, torch.Tensor)}
        counter.note(size((arguments, named)), size(list(made.values())))
        return result
    return run


class Product(torch.autograd.Function):
    """A grouped product that costs nothing."""

    @staticmethod
    def forward(ctx, counter, rows, width):
        ctx.counter, ctx.shape = counter, rows.shape
        return uncounted(counter, lambda: torch.randn(rows.shape[0], width, dtype=rows.dtype))()

    @staticmethod
    def backward(ctx, gradient):
        return None, uncounted(ctx.counter, lambda: torch.randn(ctx.shape, dtype=gradient.dtype))(), None


def experts(counter: Counter, bias: bool, activation, clamp):
    """megatron-core's grouped experts between their two products, fc2's bias included; and what the
    gradients of the result are taken by."""
    from megatron.core.transformer.moe.experts import TEGroupedMLP

    config = types.SimpleNamespace(
        fp8=None, fp4=None, moe_apply_probs_on_input=False, use_te_activation_func=False, bias_activation_fusion=True,
        gated_linear_unit=True, activation_func_fp8_input_store=False, activation_func_clamp_value=clamp,
        glu_linear_offset=1.0 if clamp else 0.0, activation_func=activation)
    biases = [torch.nn.Parameter(torch.randn(HIDDEN, dtype=torch.bfloat16)) for _ in range(EXPERTS)] if bias else None
    module = types.SimpleNamespace(
        config=config, activation_func=activation, activation_recompute=False,
        offload_expert_fc1=False, offload_moe_act=False, _apply_bias=TEGroupedMLP._apply_bias,
        linear_fc1=lambda rows, split: (Product.apply(counter, rows, 2 * FFN), None),
        linear_fc2=lambda rows, split: (Product.apply(counter, rows, HIDDEN), biases))
    rows = torch.randn(TOKENS, HIDDEN, dtype=torch.bfloat16, requires_grad=True)
    probabilities = torch.rand(TOKENS, requires_grad=True)
    per_expert = torch.tensor([TOKENS // EXPERTS] * EXPERTS)
    inputs = [rows, probabilities, *(biases or [])]
    return lambda: TEGroupedMLP.forward(module, rows, per_expert, probabilities)[0], inputs


def rope(heads: int):
    """Rotary embedding whose sines are scaled (YaRN): TransformerEngine's kernel is passed over."""
    from megatron.core.models.common.embeddings import rope_utils

    tensor = torch.randn(TOKENS // SAMPLES, SAMPLES, heads, HEAD_DIM, dtype=torch.bfloat16, requires_grad=True)
    angles = torch.randn(TOKENS // SAMPLES, 1, 1, HEAD_DIM)
    config = types.SimpleNamespace(apply_rope_fusion=True, rotary_interleaved=False, multi_latent_attention=False,
                                   mrope_section=None, fused_single_qkv_rope=False)
    return lambda: rope_utils.apply_rotary_pos_emb(tensor, angles, config, mscale=1.3, cp_group=mock.Mock()), [tensor]


def count(make) -> list[tuple]:
    counter = Counter()
    function, inputs = make(counter)
    rows = []
    with counter:
        output = function()
        rows.append(("forward", counter.read, counter.written, counter.kernels))
        gradient = uncounted(counter, lambda: torch.ones_like(output))()
        counter.start()
        torch.autograd.grad(output, inputs, gradient)
        rows.append(("backward", counter.read, counter.written, counter.kernels))
    return rows


def fusing(counter: Counter, made):
    """Activations are one kernel each way, as `jit_fuser` compiles them."""
    from megatron.core.fusions import fused_bias_geglu, fused_bias_swiglu

    for module, names in ((fused_bias_geglu, ("weighted_quick_geglu", "weighted_quick_geglu_back")),
                          (fused_bias_swiglu, ("weighted_swiglu", "weighted_swiglu_back"))):
        for name in names:
            real = getattr(module, name)
            one = fused(counter, getattr(real, "real", real))
            one.real = getattr(real, "real", real)
            setattr(module, name, one)
    return made


def main() -> None:
    from megatron.core.jit import disable_jit_fuser

    disable_jit_fuser()
    from megatron.core.fusions.fused_bias_geglu import quick_gelu

    silu = torch.nn.functional.silu
    cases = {
        "experts": lambda c: fusing(c, experts(c, False, silu, None)),
        "experts_clamped": lambda c: fusing(c, experts(c, False, quick_gelu, 7.0)),
        "experts_clamped_bias": lambda c: fusing(c, experts(c, True, quick_gelu, 7.0)),
        "rope_scaled": lambda c: rope(HEADS),
    }
    OUT.mkdir(exist_ok=True)
    with open(OUT / "eager.csv", "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["piece", "pass", "read", "written", "kernels", "megatron_core"])
        for name, make in cases.items():
            for row in count(make):
                print(name, *row)
                writer.writerow([name, *row, importlib.metadata.version("megatron-core")])


if __name__ == "__main__":
    main()
