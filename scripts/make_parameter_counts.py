#!/usr/bin/env python3
"""Writes the golden parameter counts that the model tests compare against.

Every configuration is built with `transformers` on the meta device (no weights, no remote code) and
its parameters are counted: tied tensors once; for the active count, routed experts weigh
experts per token / experts. Configurations that `transformers` does not build get the closed form of
their paper. Counts that the publisher states are compared with the result; a difference is an error.

    python scripts/make_parameter_counts.py

Needs: torch, transformers. Writes tests/data/parameter_counts.csv (the catalogue) and
tests/data/hf_variants/counts.csv (small odd configurations of every family).
"""

import csv
import json
import pathlib
import sys

import torch
import transformers

ROOT = pathlib.Path(__file__).resolve().parent.parent
CATALOGUE = ROOT / "models" / "catalogue"
VARIANTS = ROOT / "tests" / "data" / "hf_variants"

HUB = "safetensors metadata of the model page"
FOUNDRY = "llm-foundry scripts/train/benchmarking/README.md, NumParams"

# Exact counts that the publisher states, and where.
PUBLISHED = {
    "llama2-7b": (6738415616, HUB),
    "llama2-13b": (13015864320, HUB),
    "llama2-70b": (68976648192, HUB),
    "llama3-8b": (8030261248, HUB),
    "llama3-70b": (70553706496, HUB),
    "llama3.1-405b": (405853388800, HUB),
    "llama3.2-1b": (1235814400, HUB),
    "llama3.2-3b": (3212749824, HUB),
    "tinyllama-1.1b": (1100048384, HUB),
    "yi-34b": (34388917248, HUB),
    "codellama-34b": (33743970304, HUB),
    "mistral-7b": (7241732096, HUB),
    "mistral-7b-v0.3": (7248023552, HUB),
    "mixtral-8x7b": (46702792704, HUB),
    "mixtral-8x22b": (140620634112, HUB),
    "qwen2-7b": (7615616512, HUB),
    "qwen2-72b": (72706203648, HUB),
    "qwen2.5-0.5b": (494032768, HUB),
    "qwen2.5-1.5b": (1543714304, HUB),
    "qwen2.5-7b": (7615616512, HUB),
    "qwen2.5-14b": (14770033664, HUB),
    "qwen2.5-32b": (32763876352, HUB),
    "qwen2.5-72b": (72706203648, HUB),
    "qwen1.5-moe-a2.7b": (14315784192, HUB),
    "qwen3-8b": (8190735360, HUB),
    "qwen3-14b": (14768307200, HUB),
    "qwen3-32b": (32762123264, HUB),
    "qwen3-30b-a3b": (30532122624, HUB),
    "qwen3-235b-a22b": (235093634560, HUB),
    "deepseek-v2": (235741434880, HUB),
    "deepseek-v2-lite": (15706484224, HUB),
    "deepseek-v3": (671026404352, "Hugging Face, main model without the MTP module"),
    "gpt-neox-20b": (20554567680, "model card"),
    "pythia-1.4b": (1414647808, "model card"),
    "pythia-6.9b": (6857302016, "model card"),
    "pythia-12b": (11846072320, "model card"),
    "gemma-2b": (2506172416, HUB),
    "gemma-7b": (8537680896, HUB),
    "gemma2-2b": (2614341888, HUB),
    "gemma2-9b": (9241705984, HUB),
    "gemma2-27b": (27227128320, HUB),
    "gemma3-1b": (999885952, HUB),
    "phi-2": (2779683840, HUB),
    "phi3-mini": (3821079552, HUB),
    "phi3-medium": (13960238080, HUB),
    "bloom-176b": (176247271424, "model card"),
    "bloom-7b1": (7069016064, "model card"),
    "mpt-7b-alibi": (6649286656, HUB),
    "mpt-125m": (125311488, FOUNDRY),
    "mpt-350m": (355985408, FOUNDRY),
    "mpt-760m": (760470528, FOUNDRY),
    "mpt-1b": (1315950592, FOUNDRY),
    "mpt-3b": (2651837440, FOUNDRY),
    "mpt-7b": (6658859008, FOUNDRY),
    "mpt-13b": (12853954560, FOUNDRY),
    "mpt-30b": (29975214080, FOUNDRY),
    "mpt-70b": (64862437376, FOUNDRY),
}


def gpt_closed_form(layers, hidden, vocabulary, positions):
    """Narayanan et al. 2021 (arXiv 2104.04473), equation 2, plus the final norm that it leaves out."""
    return (
        12 * layers * hidden**2 + 13 * layers * hidden + (vocabulary + positions) * hidden + 2 * hidden
    )


def closed_form(config):
    """(count, oracle) of a configuration that transformers does not build, else None."""
    if config["model_type"] == "megatron-gpt":
        assert config.get("ffn_hidden_size", 4 * config["hidden_size"]) == 4 * config["hidden_size"]
        count = gpt_closed_form(
            config["num_hidden_layers"],
            config["hidden_size"],
            config["vocab_size"],
            config["max_position_embeddings"],
        )
        return count, "closed form: Narayanan et al. 2021 eq. 2 + final norm"
    if config["model_type"] == "mpt" and not config.get("attn_config", {}).get("alibi", True):
        # transformers always builds MPT with ALiBi and without biases.
        count = gpt_closed_form(
            config["n_layers"], config["d_model"], config["vocab_size"], config["max_seq_len"]
        )
        return count, "closed form: Narayanan et al. 2021 eq. 2 + final norm"
    return None


def routed_experts(config):
    """(experts, experts per token) of a transformers configuration; (1, 1) for a dense model."""
    for key in ("num_local_experts", "n_routed_experts", "num_experts"):
        experts = getattr(config, key, None)
        if experts:
            return experts, config.num_experts_per_tok
    return 1, 1


def count_with_transformers(raw):
    """(all, active) parameters of the module tree."""
    values = {key: value for key, value in raw.items() if key != "_source"}
    config = transformers.AutoConfig.for_model(**values)
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config)
    model.tie_weights()
    experts, per_token = routed_experts(config)
    total = active = 0
    for name, parameter in model.named_parameters():  # shared tensors appear once
        count = parameter.numel()
        total += count
        if ".experts." in name:
            assert count % experts == 0, name
            count = count // experts * per_token
        active += count
    return total, active


def count(path):
    """One row of a golden table."""
    raw = json.loads(path.read_text())
    formula = closed_form(raw)
    if formula:
        (total, oracle), active = formula, formula[0]
    else:
        total, active = count_with_transformers(raw)
        oracle = f"transformers {transformers.__version__}"
    return {"name": path.stem, "parameters": total, "active_parameters": active, "oracle": oracle}


def write(path, rows):
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main():
    transformers.logging.set_verbosity_error()
    rows, wrong = [], []
    for path in sorted(CATALOGUE.glob("*.json")):
        if "_class_name" in json.loads(path.read_text()):
            continue  # a diffusion transformer: scripts/make_diffusion_counts.py
        row = count(path)
        row["published"], row["published_source"] = PUBLISHED.get(path.stem, ("", ""))
        if row["published"] not in ("", row["parameters"]):
            wrong.append(f"{path.stem}: counted {row['parameters']}, published {row['published']}")
        rows.append(row)
    unknown = set(PUBLISHED) - {row["name"] for row in rows}
    wrong += [f"{name}: published count without a catalogue file" for name in sorted(unknown)]
    if wrong:
        sys.exit("\n".join(wrong))
    write(ROOT / "tests" / "data" / "parameter_counts.csv", rows)
    write(VARIANTS / "counts.csv", [count(path) for path in sorted(VARIANTS.glob("*.json"))])


if __name__ == "__main__":
    main()
