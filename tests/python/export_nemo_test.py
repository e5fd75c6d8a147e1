"""Exported NeMo files, laid over Megatron-Bridge's own recipes by its own code, make the plan.

The oracle is megatron-bridge of PyPI and Megatron core under it: the recipe of the model is called,
`process_config_with_overrides` reads our file into it as run_recipe.py does, and `runtime_config_update` applies
precision and overlap and validates the whole. Empty modules stand in for what only a GPU needs
(TransformerEngine, Triton) and for the reader of data sets; the catalogue's config.json stands in for the hub's,
the cluster's device for the GPU that Bridge asks about.
"""

import dataclasses
import importlib
import json
import logging
import os
import pathlib
import sys
import tempfile
import types
import unittest
import warnings
from unittest import mock

import exported_plans
import gpu_only_modules
from exported_plans import MEGATRON_CASES, ROOT, Case

REASON = exported_plans.missing("torch", "megatron", "hydra", "transformers", "yaml")

# Module and function of Bridge's recipes. Mixtral and Nemotron-4 have none: theirs is the common part of all recipes
# with a model that knows nothing but its activation function.
RECIPES = {
    "llama3-8b": "llama.llama3.llama3_8b",
    "llama3-70b": "llama.llama3.llama3_70b",
    "llama3.1-405b": "llama.llama3.llama31_405b",
    "gpt3-6.7b": "gpt.gpt3_175b.gpt3_175b",
    "gpt3-13b": "gpt.gpt3_175b.gpt3_175b",
    "qwen2-7b": "qwen.qwen2.qwen2_7b",
    "qwen3-4b": "qwen.qwen3.qwen3_4b",
    "qwen3-30b-a3b": "qwen.qwen3_moe.qwen3_30b_a3b",
    "qwen3-235b-a22b": "qwen.qwen3_moe.qwen3_235b_a22b",
    "deepseek-v2-lite": "deepseek.deepseek_v2.deepseek_v2_lite",
    "deepseek-v3": "deepseek.deepseek_v3.deepseek_v3",
}

PRECISIONS = {"bf16": "bf16_mixed", "fp16": "fp16_mixed", "fp8": "bf16_with_fp8_delayed_scaling_mixed",
              "fp8_current": "bf16_with_fp8_current_scaling_mixed",
              "fp8_block": "bf16_with_fp8_subchannel_scaling_mixed", "mxfp8": "bf16_with_mxfp8_mixed",
              "nvfp4": "bf16_with_nvfp4_mixed"}

# What a recipe says of its model: the file must say the same.
ARCHITECTURE = ("num_layers", "hidden_size", "num_attention_heads", "num_query_groups", "kv_channels",
                "gated_linear_unit", "normalization", "add_bias_linear", "add_qkv_bias", "qk_layernorm",
                "position_embedding_type", "share_embeddings_and_output_weights", "vocab_size", "attention_dropout",
                "hidden_dropout", "multi_latent_attention", "q_lora_rank", "kv_lora_rank", "qk_head_dim",
                "qk_pos_emb_head_dim", "v_head_dim", "num_moe_experts", "moe_router_topk", "moe_ffn_hidden_size",
                "moe_shared_expert_intermediate_size", "moe_layer_freq", "moe_router_score_function",
                "moe_router_enable_expert_bias", "moe_router_pre_softmax")


# In the hub's file of this model and not in the catalogue's, which counts nothing by it.
HUB_ONLY = {"deepseek-v3": {"scoring_func": "sigmoid"}}


def hub_config(model: str):
    """The model's configuration as the hub would give it."""
    from transformers import CONFIG_MAPPING
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    values = json.loads((ROOT / "models" / "catalogue" / f"{model}.json").read_text()) | HUB_ONLY.get(model, {})
    kind = values["model_type"]
    config = CONFIG_MAPPING[kind].from_dict({k: v for k, v in values.items() if k != "model_type" and k[0] != "_"})
    config.architectures = [MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[kind]]
    return config


def device_of(cluster: str) -> types.SimpleNamespace:
    """What CUDA would say of the cluster's GPUs."""
    name = cluster.rpartition("x")[2]
    return types.SimpleNamespace(name=f"NVIDIA {name}", major={"A": 8, "H": 9, "B": 10}[name[0]])


@unittest.skipIf(REASON, REASON)
class NemoExport(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        warnings.simplefilter("ignore")
        # The newest TransformerEngine that this release of Bridge takes.
        gpu_only_modules.stand_in_for(transformer_engine="2.12.0", triton="3.5.0", datasets="4.0.0")
        import megatron.bridge
        # The package of recipes imports those of pictures and sound with all their readers.
        recipes = types.ModuleType("megatron.bridge.recipes")
        recipes.__path__ = [str(pathlib.Path(megatron.bridge.__file__).parent / "recipes")]
        sys.modules[recipes.__name__] = recipes

    @staticmethod
    def recipe_of(case: Case):
        from megatron.bridge import AutoBridge
        if name := RECIPES.get(case.model):
            module, _, function = name.rpartition(".")
            recipe = getattr(importlib.import_module(f"megatron.bridge.recipes.{module}"),
                             f"{function}_pretrain_config")
            with mock.patch.object(AutoBridge, "from_hf_pretrained",
                                   lambda *_, **__: AutoBridge.from_hf_config(hub_config(case.model))):
                return recipe()
        import torch.nn.functional as F
        from megatron.bridge.models import GPTModelProvider
        from megatron.bridge.recipes.common import _pretrain_common
        from megatron.core.activations import squared_relu
        config = _pretrain_common()
        activation = {"mixtral-8x7b": F.silu, "nemotron-4-15b": squared_relu}[case.model]
        config.model = GPTModelProvider(num_layers=1, hidden_size=128, num_attention_heads=1,
                                        activation_func=activation)
        return config

    def configured(self, case: Case, text: str):
        """The configuration that training would start with."""
        import torch
        from megatron.bridge.training.config import runtime_config_update
        from megatron.bridge.training.utils.omegaconf_utils import process_config_with_overrides
        plan = exported_plans.plan_of(case, "nemo")
        with (tempfile.TemporaryDirectory() as folder,
              mock.patch.dict(os.environ, {"WORLD_SIZE": str(plan["gpus"])}),
              mock.patch.object(torch.cuda, "get_device_properties", lambda *_: device_of(case.cluster))):
            config = self.recipe_of(case)
            file = pathlib.Path(folder, "plan.yaml")
            file.write_text(text)
            # Unknown keys and values that cannot be set are no more than warnings to it.
            with self.assertNoLogs("megatron.bridge.training.utils", logging.WARNING):
                process_config_with_overrides(config, config_filepath=str(file))
            runtime_config_update(config)
        return config

    def assert_holds(self, config, written: dict) -> None:
        """What the file says is what is left when every check and default of the framework has run."""
        for section, values in written.items():
            if not isinstance(values, dict) or "_target_" in values:
                continue
            for key, value in values.items():
                held = getattr(getattr(config, section), key)
                if key == "recompute_modules" and value is None:  # the default of what does not run then
                    self.assertNotEqual(config.model.recompute_granularity, "selective")
                else:
                    self.assertIn(value, (held, str(held)), f"{section}.{key}")

    def assert_is_the_plan(self, config, plan: dict) -> None:
        model = config.model
        self.assertEqual((model.tensor_model_parallel_size, model.pipeline_model_parallel_size,
                          model.virtual_pipeline_model_parallel_size or 1, model.context_parallel_size,
                          config.data_parallel_size, model.sequence_parallel),
                         (plan["tp"], plan["pp"], plan["vpp"], plan["cp"], plan["dp"], plan["sequence_parallel"]))
        self.assertEqual(model.expert_model_parallel_size, plan["ep"])
        if model.num_moe_experts:
            self.assertEqual(model.expert_tensor_parallel_size, plan["etp"])
        self.assertEqual(config.ddp.num_distributed_optimizer_instances, plan["dp_replicate"])
        self.assertEqual(config.ddp.use_distributed_optimizer, plan["zero"] > 0)
        self.assertEqual(config.train.micro_batch_size, plan["micro_batch"])
        if layout := model.pipeline_model_parallel_layout:  # Megatron core has parsed it
            self.assertEqual(len(layout.layout), plan["pp"])
            self.assertEqual({len(chunks) for chunks in layout.layout}, {plan["vpp"]})

    def assert_precision_is_named(self, config, precision: str) -> None:
        """The recipe of that name, with the gradients that `ddp` asks for."""
        from megatron.bridge.training.mixed_precision import get_mixed_precision_config
        named = get_mixed_precision_config(PRECISIONS[precision])
        named.finalize()
        named.grad_reduce_in_fp32 = config.ddp.grad_reduce_in_fp32
        self.assertEqual(dataclasses.asdict(config.mixed_precision), dataclasses.asdict(named))

    def test_bridge_accepts_every_export_over_its_recipe_and_ends_with_the_plan(self):
        import yaml
        self.assertGreaterEqual(len(MEGATRON_CASES), 15)
        precisions = set()
        for case in MEGATRON_CASES:
            with self.subTest(case.name):
                text, plan = exported_plans.export(case, "nemo"), exported_plans.plan_of(case, "nemo")
                config = self.configured(case, text)
                self.assert_holds(config, yaml.safe_load(text))
                self.assert_is_the_plan(config, plan)
                self.assert_precision_is_named(config, plan["precision"])
                self.assertEqual(config.train.global_batch_size, case.global_batch)
                self.assertEqual(config.model.seq_length, case.sequence_length)
                precisions.add(plan["precision"])
        self.assertEqual(precisions, set(PRECISIONS))

    def test_the_model_is_that_of_the_recipe(self):
        import yaml
        compared = 0
        for case in MEGATRON_CASES:
            if case.model not in RECIPES or case.model.startswith("gpt3-"):  # whose recipe is the largest one's
                continue
            with self.subTest(case.name):
                written = yaml.safe_load(exported_plans.export(case, "nemo"))["model"]
                with mock.patch("torch.cuda.get_device_properties", lambda *_: device_of(case.cluster)):
                    model = self.recipe_of(case).model
                for key in ARCHITECTURE:
                    # None is left for Megatron core to derive.
                    if key in written and getattr(model, key) is not None:
                        self.assertEqual(written[key], getattr(model, key), key)
                        compared += 1
        self.assertGreater(compared, 200)

    def test_bridge_itself_refuses_what_the_file_guards_against(self):
        case = next(c for c in MEGATRON_CASES if c.name == "no sequence parallelism")
        text = exported_plans.export(case, "nemo")
        with self.assertRaisesRegex(ValueError, "Cannot defer embedding wgrad compute"):
            self.configured(case, text.replace("comm_overlap: null\n", ""))
        case = next(c for c in MEGATRON_CASES if c.name == "uneven pipeline")
        text = exported_plans.export(case, "nemo")
        with self.assertRaisesRegex(ValueError, "pipeline_model_parallel_layout cannot be set with other"):
            self.configured(case, text.replace("account_for_loss_in_pipeline_split: false",
                                               "account_for_loss_in_pipeline_split: true"))
        with self.assertRaises(AssertionError):
            self.configured(case, text.replace("  hidden_size:", "  hidden_sise:"))


if __name__ == "__main__":
    unittest.main(verbosity=2, warnings="ignore")
