#!/usr/bin/env python3
"""Counts what transformers' language models compute and keep, as an oracle for models/rank_graph.

Models of the catalogue, each with its own configuration but for the number of layers and the
vocabulary, run one forward and one backward in bf16 under PyTorch's FLOP counter and saved-tensor
hooks. Dense models run on fake tensors of full size. Experts are dispatched by what the router
says, which needs real tensors, so mixture-of-experts models are narrowed (NARROW).

Writes tests/data/model_counts/<model>.json (the configuration) and counts.csv. Bytes kept for
backward are of distinct storages without parameters: of the embedding, of all layers, of final
norm, head and loss; `shared` are tables that several layers keep once (rotary angles, masks).
--detail lists what every module keeps. Needs torch and transformers; runs on the CPU.
"""

import argparse
import contextlib
import csv
import json
import pathlib
import re

import torch
import transformers
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode
from transformers import masking_utils

from make_torch_counts import CPU_KERNELS, without_rotary

ROOT = pathlib.Path(__file__).resolve().parent.parent
BATCH, SEQUENCE, VOCABULARY = 2, 64, 1000
LAYER_KEYS = ("num_hidden_layers", "n_layer", "n_layers")

FUSED = (
    "llama2-7b", "llama3-8b", "llama3-70b", "llama3.2-1b", "yi-34b", "mistral-7b", "qwen2.5-0.5b",
    "qwen2.5-7b", "qwen3-0.6b", "qwen3-8b", "gemma-7b", "gemma3-1b", "phi3-mini", "phi-2",
    "nemotron-4-15b", "falcon-40b", "gpt2-xl", "opt-1.3b", "opt-350m",
    "gpt-neox-20b", "pythia-6.9b", "mixtral-8x7b", "qwen3-30b-a3b", "qwen1.5-moe-a2.7b")
# No fused kernel: Gemma 2's soft cap on the scores, one KV head beside many (Falcon), ALiBi (BLOOM,
# MPT), GPT-J's own products, MLA's unequal head dimensions on the CPU.
UNFUSED = ("gemma2-2b", "falcon-7b", "bloom-7b1", "mpt-7b-alibi", "gpt-j-6b",
           "deepseek-v2-lite", "deepseek-v3")

# What real tensors need to be small. One dense layer before two with experts where a model has it.
NARROW = {
    "mixtral-8x7b": dict(hidden_size=512, intermediate_size=1792, num_attention_heads=8,
                         num_key_value_heads=2, head_dim=64),
    "qwen3-30b-a3b": dict(hidden_size=256, moe_intermediate_size=96, intermediate_size=768,
                          num_attention_heads=8, num_key_value_heads=1, head_dim=64),
    "qwen1.5-moe-a2.7b": dict(hidden_size=256, moe_intermediate_size=176, intermediate_size=704,
                              shared_expert_intermediate_size=704, num_attention_heads=4,
                              num_key_value_heads=4),
    "deepseek-v2-lite": dict(hidden_size=256, intermediate_size=1368, moe_intermediate_size=176,
                             num_attention_heads=4, num_key_value_heads=4, kv_lora_rank=64,
                             qk_nope_head_dim=32, qk_rope_head_dim=16, v_head_dim=32,
                             num_hidden_layers=3),
    "deepseek-v3": dict(hidden_size=448, intermediate_size=1152, moe_intermediate_size=128,
                        num_attention_heads=8, num_key_value_heads=8, q_lora_rank=96,
                        kv_lora_rank=64, qk_nope_head_dim=32, qk_rope_head_dim=16, v_head_dim=32,
                        n_routed_experts=32, first_k_dense_replace=1, num_hidden_layers=3),
}
# Models that are published with dropout; frameworks' recipes leave it out.
NO_DROPOUT = {"gpt2": ("attn_pdrop", "embd_pdrop", "resid_pdrop"),
              "opt": ("attention_dropout", "dropout")}


def configuration(name):
    raw = json.loads((ROOT / f"models/catalogue/{name}.json").read_text())
    raw.pop("_source", None)
    raw.update({key: 2 for key in LAYER_KEYS if key in raw})
    raw.update(vocab_size=VOCABULARY, pad_token_id=None)
    raw.update(NARROW.get(name, {}))
    raw.update({key: 0.0 for key in NO_DROPOUT.get(raw["model_type"], ())})
    return raw


class Kept:
    """Storages that autograd keeps, by the module that ran when each was saved first."""

    def __init__(self, model):
        self.parameters = {id_of(p) for p in model.parameters()}
        self.modules = []  # that run, outermost first
        self.first = {}  # storage -> (module, bytes, description)
        self.layers = {}  # storage -> the layers that save it
        self.alive = []  # a freed storage's address could come back
        for name, module in model.named_modules():
            module.register_forward_pre_hook(lambda *_, name=name: self.modules.append(name))
            module.register_forward_hook(lambda *_: self.leave())

    def leave(self):
        self.modules.pop()

    def pack(self, tensor):
        key = id_of(tensor)
        if key in self.parameters:
            return tensor
        self.alive.append(tensor.untyped_storage())
        module = self.modules[-1] if self.modules else "loss"
        kind = str(tensor.dtype).removeprefix("torch.")
        size = tensor.untyped_storage().nbytes()
        self.first.setdefault(key, (module, size, f"{kind}{list(tensor.shape)}"))
        self.layers.setdefault(key, set()).add(layer_of(module))
        return tensor

    def bytes_by_unit(self):
        sums = dict(embedding=0, layers=0, head=0, shared=0)
        seen_layer = False
        for key, (module, size, _) in self.first.items():
            layer = layer_of(module)
            seen_layer = seen_layer or layer is not None
            unit = "layers" if layer is not None else "head" if seen_layer else "embedding"
            sums["shared" if len(self.layers[key]) > 1 else unit] += size
        return sums


def id_of(tensor):
    return tensor.untyped_storage()._cdata


def layer_of(module):
    match = re.search(r"\.(?:layers|h|blocks)\.(\d+)", module)
    return int(match[1]) if match else None


def count(name, attention):
    config = transformers.AutoConfig.for_model(**configuration(name))
    options = {"attn_implementation": attention}
    if name in NARROW:
        options["experts_implementation"] = "eager"  # one counted product per expert
    torch.manual_seed(0)
    with contextlib.nullcontext() if name in NARROW else FakeTensorMode():
        model = transformers.AutoModelForCausalLM.from_config(config, **options).train()
        tokens = torch.zeros((BATCH, SEQUENCE), dtype=torch.long)
        if name in NARROW:
            tokens = torch.randint(0, VOCABULARY, (BATCH, SEQUENCE))
        kept = Kept(model)
        with FlopCounterMode(model, display=False, custom_mapping=CPU_KERNELS) as forward:
            with torch.autograd.graph.saved_tensors_hooks(kept.pack, lambda tensor: tensor):
                loss = model(input_ids=tokens, labels=tokens, use_cache=False).loss
        with FlopCounterMode(display=False, custom_mapping=CPU_KERNELS) as backward:
            loss.backward()
    parameters = sum(p.numel() for p in model.parameters())
    return kept, {"case": name, "attention": attention, "micro_batch": BATCH,
                  "sequence_length": SEQUENCE, "parameters": parameters,
                  "forward_flop": without_rotary(forward),
                  "backward_flop": backward.get_total_flops(),
                  **{f"saved_{unit}": size for unit, size in kept.bytes_by_unit().items()},
                  "torch": torch.__version__.split("+")[0],
                  "transformers": transformers.__version__}


def as_trained():
    """Real runs drop the causal mask where nothing is padded or packed. transformers decides so
    from values, hence not for fake tensors, unless it is told that they may be looked at."""
    masking_utils.is_tracing = lambda *_: False
    masking_utils.find_packed_sequence_indices = lambda *_: None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", help="only these, printed instead of written")
    parser.add_argument("--detail", action="store_true", help="list what every module keeps")
    arguments = parser.parse_args()
    out = ROOT / "tests/data/model_counts"
    out.mkdir(parents=True, exist_ok=True)
    transformers.logging.set_verbosity_error()
    torch.set_default_dtype(torch.bfloat16)
    as_trained()
    rows = []
    for name in arguments.models or FUSED + UNFUSED:
        kept, row = count(name, "eager" if name in UNFUSED else "sdpa")
        rows.append(row)
        if arguments.detail:
            print(*row.values())
            for module, size, text in kept.first.values():
                print(f"  {module:48} {size:12} {text}")
    if arguments.models:
        return
    for name in FUSED + UNFUSED:
        (out / f"{name}.json").write_text(json.dumps(configuration(name), indent=1) + "\n")
    with open(out / "counts.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
