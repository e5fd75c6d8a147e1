#!/usr/bin/env python3
"""Counts the FLOPs of state-space models in `transformers`, an oracle for models/rank/mamba.

Small configurations run one forward and one backward on the CPU under PyTorch's FLOP counter. There
`transformers` takes its own chunked scan in place of mamba_ssm's kernels: the same algorithm, in
which groups are repeated for their heads, masked pairs are computed, and states pass from chunk to
chunk by a product with a matrix of decays. The test says so in closed form.

    python scripts/make_state_space_counts.py

Needs: torch, transformers. Writes tests/data/state_space_counts/ (configurations, counts.csv).
"""

import csv
import json
import pathlib

import torch
import transformers
from torch.utils.flop_counter import FlopCounterMode

from make_torch_counts import CPU_KERNELS

OUT = pathlib.Path(__file__).resolve().parent.parent / "tests/data/state_space_counts"
BATCH, SEQUENCE = 2, 64

NEMOTRON = dict(model_type="nemotron_h", vocab_size=1000, hidden_size=256, num_attention_heads=8,
                num_key_value_heads=2, head_dim=32, intermediate_size=672, mamba_num_heads=16,
                mamba_head_dim=32, ssm_state_size=64, n_groups=4, chunk_size=16,
                moe_intermediate_size=96, moe_shared_expert_intermediate_size=192,
                n_routed_experts=8, num_experts_per_tok=3, pad_token_id=None)
CASES = {
    "mamba2": dict(model_type="mamba2", vocab_size=1000, hidden_size=256, num_hidden_layers=2,
                   num_heads=16, head_dim=32, state_size=64, n_groups=2, chunk_size=32,
                   pad_token_id=None),
    "state-space": dict(NEMOTRON, hybrid_override_pattern="MM"),
    "hybrid": dict(NEMOTRON, hybrid_override_pattern="M-M*-M"),
    "experts": dict(NEMOTRON, hybrid_override_pattern="MEM*E"),
    "latent-experts": dict(NEMOTRON, hybrid_override_pattern="MEM*E", moe_latent_size=64),
}


def count(name, raw):
    config = transformers.AutoConfig.for_model(**raw)
    torch.manual_seed(0)
    options = {} if raw["model_type"] == "mamba2" else {"attn_implementation": "sdpa",
                                                        "experts_implementation": "eager"}
    model = transformers.AutoModelForCausalLM.from_config(config, **options).train()
    tokens = torch.randint(0, 1000, (BATCH, SEQUENCE))
    with FlopCounterMode(display=False, custom_mapping=CPU_KERNELS) as forward:
        loss = model(input_ids=tokens, labels=tokens, use_cache=False).loss
    with FlopCounterMode(display=False, custom_mapping=CPU_KERNELS) as backward:
        loss.backward()
    return {"case": name, "micro_batch": BATCH, "sequence_length": SEQUENCE,
            "parameters": sum(p.numel() for p in model.parameters()),
            "forward_flop": forward.get_total_flops(), "backward_flop": backward.get_total_flops(),
            "torch": torch.__version__.split("+")[0], "transformers": transformers.__version__}


def main():
    transformers.logging.set_verbosity_error()
    OUT.mkdir(parents=True, exist_ok=True)
    rows = [count(name, raw) for name, raw in CASES.items()]
    for name, raw in CASES.items():
        (OUT / f"{name}.json").write_text(json.dumps(raw, indent=1) + "\n")
    with open(OUT / "counts.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
