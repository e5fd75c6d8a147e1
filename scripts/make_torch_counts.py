#!/usr/bin/env python3
"""Counts the FLOPs of small models with PyTorch's own counter, as an oracle for models/rank_graph.

Writes tests/data/torch_counts/<case>.json (the Hugging Face configuration) and counts.csv (FLOPs of
one forward and one backward). Needs torch and transformers; runs on the CPU in seconds.

Two attention implementations are counted: "eager" (two batched matrix products per pass, each full
square of scores) and "sdpa" (fused; PyTorch's formula counts full squares as well, and five
products in backward; the counter applies it to GPU kernels and is told here that the CPU kernel is
one). What the rotary embedding multiplies is left out: it depends on no weight, and frameworks that
train compute it once.
"""

import argparse
import csv
import pathlib

import torch
import transformers
from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop_count, sdpa_flop_count

BATCH, SEQUENCE = 2, 48

COMMON = dict(vocab_size=256, max_position_embeddings=64)
LLAMA = dict(**COMMON, hidden_size=96, intermediate_size=256, num_hidden_layers=2,
             num_attention_heads=6, num_key_value_heads=2)

CASES = {
    "llama_gqa": transformers.LlamaConfig(**LLAMA),
    "qwen3_qk_norm": transformers.Qwen3Config(**LLAMA, head_dim=32, tie_word_embeddings=True),
    "gemma2_post_norms": transformers.Gemma2Config(**LLAMA, head_dim=32, sliding_window=64),
    "mixtral_moe": transformers.MixtralConfig(**LLAMA, num_local_experts=4, num_experts_per_tok=2),
    "qwen2_moe_shared_gate": transformers.Qwen2MoeConfig(
        **{**LLAMA, "num_key_value_heads": 6}, num_experts=6, num_experts_per_tok=2,
        moe_intermediate_size=64, shared_expert_intermediate_size=128, decoder_sparse_step=1),
    "deepseek_v3_mla": transformers.DeepseekV3Config(
        **{**LLAMA, "num_key_value_heads": 6}, q_lora_rank=40, kv_lora_rank=32, qk_nope_head_dim=16,
        qk_rope_head_dim=8, v_head_dim=20, n_routed_experts=8, num_experts_per_tok=3, n_group=2,
        topk_group=1, n_shared_experts=1, moe_intermediate_size=48, first_k_dense_replace=1),
    "gpt2": transformers.GPT2Config(vocab_size=256, n_positions=64, n_embd=96, n_layer=2, n_head=6,
                                    attn_pdrop=0.0),
    "gpt_neox_parallel": transformers.GPTNeoXConfig(
        **COMMON, hidden_size=96, intermediate_size=384, num_hidden_layers=2,
        num_attention_heads=6),
}

# No fused kernel: Gemma 2's soft cap on the scores; MLA's unequal head dimensions on the CPU.
EAGER_ONLY = {"gemma2_post_norms", "deepseek_v3_mla"}


def fused_forward(query, key, value, *_, out_shape=None, **__):
    heads = query[1]
    widen = lambda shape: (shape[0], heads, *shape[2:])  # the formula wants KV heads repeated
    return sdpa_flop_count(query, widen(key), widen(value))


def fused_backward(gradient, query, key, value, *_, out_shape=None, **__):
    heads = query[1]
    widen = lambda shape: (shape[0], heads, *shape[2:])
    return sdpa_backward_flop_count(gradient, query, widen(key), widen(value))


CPU_KERNELS = {
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: fused_forward,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward: fused_backward,
}


def without_rotary(counter):
    total = counter.get_total_flops()
    rotary = sum(sum(ops.values()) for module, ops in counter.get_flop_counts().items()
                 if module.rsplit(".", 1)[-1] == "rotary_emb")
    return total - rotary


def count(config, attention):
    torch.manual_seed(0)
    options = {"attn_implementation": attention}
    if hasattr(config, "num_experts_per_tok"):
        options["experts_implementation"] = "eager"  # one counted product per expert
    model = transformers.AutoModelForCausalLM.from_config(config, **options).train()
    tokens = torch.randint(0, config.vocab_size, (BATCH, SEQUENCE))
    with FlopCounterMode(model, display=False, custom_mapping=CPU_KERNELS) as forward:
        loss = model(input_ids=tokens, labels=tokens, use_cache=False).loss
    with FlopCounterMode(display=False, custom_mapping=CPU_KERNELS) as backward:
        loss.backward()
    return without_rotary(forward), backward.get_total_flops()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = pathlib.Path(__file__).resolve().parent.parent / "tests/data/torch_counts"
    parser.add_argument("--out", type=pathlib.Path, default=default)
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    with open(out / "counts.csv", "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["case", "attention", "micro_batch", "sequence_length", "forward_flop",
                         "backward_flop", "torch", "transformers"])
        for name, config in CASES.items():
            (out / f"{name}.json").write_text(config.to_json_string(use_diff=True))
            for attention in ("eager",) if name in EAGER_ONLY else ("eager", "sdpa"):
                writer.writerow([name, attention, BATCH, SEQUENCE, *count(config, attention),
                                 torch.__version__.split("+")[0], transformers.__version__])


if __name__ == "__main__":
    main()
