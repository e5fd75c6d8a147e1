"""Exported Megatron-LM scripts, run by the shell, make configurations that Megatron core accepts.

The oracle is megatron-core of PyPI: TransformerConfig and MLATransformerConfig with all their checks, and
initialize_model_parallel on a world of fake ranks, whose groups must have the plan's sizes. From arguments to
fields the test goes as Megatron-LM's core_transformer_config_from_args does.
"""

import ast
import dataclasses
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import warnings

import exported_plans
from exported_plans import MEGATRON_CASES as CASES, Case

REASON = exported_plans.missing("torch", "megatron")

@unittest.skipIf(REASON, REASON)
class MegatronExport(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        warnings.simplefilter("ignore")
        from megatron.core.transformer import transformer_config
        # TransformerEngine runs on GPUs only; its version is asked for, and taken as new enough.
        transformer_config.is_te_min_version = lambda *_, **__: True

    def arguments_of(self, script: str) -> dict[str, list[str]]:
        """What torchrun is given when the shell runs the script: "--name" to its values."""
        with tempfile.TemporaryDirectory() as folder:
            file, torchrun = pathlib.Path(folder, "train.sh"), pathlib.Path(folder, "torchrun")
            file.write_text(script)
            torchrun.write_text(f"#!{sys.executable}\nimport json, sys\nprint(json.dumps(sys.argv[1:]))\n")
            torchrun.chmod(0o755)
            done = subprocess.run(["bash", str(file)], capture_output=True, text=True, check=True,
                                  env={"PATH": f"{folder}:/usr/bin:/bin"})
        words = json.loads(done.stdout)
        self.launcher = words[:words.index("pretrain_gpt.py")]
        found: dict[str, list[str]] = {}
        for word in words[words.index("pretrain_gpt.py") + 1:]:
            if word.startswith("--"):
                self.assertNotIn(word, found, "an argument stands twice")
                found[word] = []
            else:
                found[list(found)[-1]].append(word)
        return found

    def config_of(self, found: dict[str, list[str]]):
        import torch
        import torch.nn.functional as F
        from megatron.core.activations import squared_relu
        from megatron.core.transformer.transformer_config import MLATransformerConfig, TransformerConfig

        renamed = {"num_experts": "num_moe_experts", "fp8_format": "fp8", "fp4_format": "fp4",
                   "num_virtual_stages_per_pipeline_rank": "virtual_pipeline_model_parallel_size"}
        kind = MLATransformerConfig if "--multi-latent-attention" in found else TransformerConfig
        fields = {f.name for f in dataclasses.fields(kind)}
        values: dict = {}
        for flag, words in found.items():
            name = flag[2:].replace("-", "_")
            name = renamed.get(name, name)
            if name in fields:
                values[name] = self.value_of(name, words)
        narrow = torch.bfloat16 if "--bf16" in found else torch.float16 if "--fp16" in found else torch.float32
        values.update(params_dtype=narrow, pipeline_dtype=narrow, hidden_dropout=float(found["--hidden-dropout"][0]),
                      attention_dropout=float(found["--attention-dropout"][0]))
        values["overlap_p2p_comm"] = "virtual_pipeline_model_parallel_size" in values
        values["batch_p2p_comm"] = not values["overlap_p2p_comm"]
        values["add_bias_linear"] = "--disable-bias-linear" not in found
        values.pop("transformer_impl", None)  # TransformerEngine is no part of megatron-core
        if "--swiglu" in found:
            values.update(activation_func=F.silu, gated_linear_unit=True)
        elif "--squared-relu" in found:
            values["activation_func"] = squared_relu
        if "--group-query-attention" not in found:
            values.pop("num_query_groups", None)
        return kind(**values)

    @staticmethod
    def value_of(name: str, words: list[str]):
        if not words:
            return True
        if name == "recompute_modules":
            return words
        if name == "moe_layer_freq":
            return [int(x) for part in re.findall(r"\[(\d)\]\*(\d+)", words[0])
                    for x in [part[0]] * int(part[1])]
        try:
            return ast.literal_eval(words[0])
        except (ValueError, SyntaxError):
            return words[0]

    def groups_of(self, found: dict[str, list[str]], world: int) -> dict[str, int]:
        """Sizes of the groups that Megatron core makes."""
        import torch
        from megatron.core import parallel_state
        from torch.testing._internal.distributed.fake_pg import FakeStore

        def number(name: str, fallback: int | None = 1) -> int | None:
            return int(found[name][0]) if name in found else fallback

        torch.distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=world)
        try:
            parallel_state.initialize_model_parallel(
                tensor_model_parallel_size=number("--tensor-model-parallel-size"),
                pipeline_model_parallel_size=number("--pipeline-model-parallel-size"),
                virtual_pipeline_model_parallel_size=number("--num-virtual-stages-per-pipeline-rank", None),
                context_parallel_size=number("--context-parallel-size"),
                expert_model_parallel_size=number("--expert-model-parallel-size"),
                expert_tensor_parallel_size=number("--expert-tensor-parallel-size", None),
                num_distributed_optimizer_instances=number("--num-distributed-optimizer-instances"),
                create_gloo_process_groups=False)
            return {"tp": parallel_state.get_tensor_model_parallel_world_size(),
                    "pp": parallel_state.get_pipeline_model_parallel_world_size(),
                    "dp": parallel_state.get_data_parallel_world_size(),
                    "cp": parallel_state.get_context_parallel_world_size(),
                    "ep": parallel_state.get_expert_model_parallel_world_size(),
                    "etp": parallel_state.get_expert_tensor_parallel_world_size(),
                    "shards": parallel_state.get_data_parallel_world_size(
                        with_context_parallel=True, partial_data_parallel=True)}
        finally:
            parallel_state.destroy_model_parallel()
            torch.distributed.destroy_process_group()

    def test_megatron_core_accepts_every_export_and_makes_the_groups_of_the_plan(self):
        self.assertGreaterEqual(len(CASES), 15)
        for case in CASES:
            with self.subTest(case.name):
                plan = exported_plans.plan_of(case, "megatron")
                found = self.arguments_of(exported_plans.export(case, "megatron"))
                config = self.config_of(found)
                groups = self.groups_of(found, plan["gpus"])
                experts = "--num-experts" in found
                for degree in ("tp", "pp", "dp", "cp") + (("ep", "etp") if experts else ()):
                    self.assertEqual(groups[degree], plan[degree], degree)
                self.assertEqual(groups["shards"], plan["dp"] * plan["cp"] // plan["dp_replicate"])
                self.assertEqual(config.virtual_pipeline_model_parallel_size or 1, plan["vpp"])
                nodes = int(self.launcher[self.launcher.index("--nnodes") + 1])
                per_node = int(self.launcher[self.launcher.index("--nproc-per-node") + 1])
                self.assertEqual(nodes * per_node, plan["gpus"])

    def test_the_distributed_data_parallel_configuration_is_accepted(self):
        from megatron.core.distributed import DistributedDataParallelConfig

        fields = {f.name for f in dataclasses.fields(DistributedDataParallelConfig)}
        for case in CASES:
            with self.subTest(case.name):
                found = self.arguments_of(exported_plans.export(case, "megatron"))
                names = {flag[2:].replace("-", "_"): words for flag, words in found.items()}
                DistributedDataParallelConfig(**{n: self.value_of(n, w) for n, w in names.items() if n in fields})
                if "--overlap-param-gather" in found:  # training/arguments.py
                    self.assertIn("--use-distributed-optimizer", found)
                    self.assertIn("--overlap-grad-reduce", found)

    def test_what_megatron_core_refuses_is_refused_with_its_reason(self):
        case = Case("more instances than ranks", "llama3-8b", "1x8xH100", "--tp 2 --dp-replicate 3")
        self.assertIn("dp_replicate: 3 replicas do not divide", exported_plans.refusal(case, "megatron"))
        case = Case("norms under delayed scaling", "llama3-8b", "1x8xH100",
                    "--tp 2 --precision fp8 --recompute layernorm")
        self.assertIn("delayed scaling does not support", exported_plans.refusal(case, "megatron"))
        from megatron.core.transformer.transformer_config import TransformerConfig
        with self.assertRaisesRegex(ValueError, "Delayed scaling does not support"):
            TransformerConfig(num_layers=2, hidden_size=64, num_attention_heads=2, fp8="hybrid", fp8_recipe="delayed",
                              recompute_granularity="selective", recompute_modules=["layernorm"])


if __name__ == "__main__":
    unittest.main(verbosity=2, warnings="ignore")
