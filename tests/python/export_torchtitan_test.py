"""Exported TOML files, read by torchtitan's own configuration manager, give the plan.

torchtitan's package imports Triton kernels and data loaders, which its configuration does without: the test
imports the modules that it needs by themselves.
"""

import pathlib
import sys
import tempfile
import types
import unittest

import exported_plans
from exported_plans import Case

REASON = exported_plans.missing("torch", "tyro")
PACKAGE = [pathlib.Path(p, "torchtitan") for p in sys.path if pathlib.Path(p, "torchtitan", "config").is_dir()]
if not REASON and not PACKAGE:
    REASON = "not installed: torchtitan (scripts/frameworks.sh)"

CASES = [
    Case("FSDP2", "llama3-8b", "1x8xH100", "--tp 1 --zero 3"),
    Case("offload", "llama3-8b", "1x8xH100", "--tp 1 --zero 3 --offload-optimizer 1 --offload-parameters 1"),
    Case("parameters stay whole", "llama3-8b", "1x8xH100", "--tp 1 --zero 2 --micro-batch 2"),
    Case("tensor parallelism", "llama3-70b", "8x8xH100", "--tp 8 --zero 3 --recompute full"),
    Case("selective recomputation", "llama3-8b", "4x8xH100", "--tp 2 --recompute op_sac"),
    Case("context parallelism", "llama3-8b", "4x8xH100", "--tp 2 --cp 4 --recompute full", 131072, 32),
    Case("FP8", "llama3-8b", "1x8xH100", "--tp 1 --precision fp8_current"),
    Case("FP8 with tensor parallelism", "llama3-70b", "8x8xH100", "--tp 4 --precision fp8_current"),
    Case("FP8 by row", "llama3-70b", "8x8xH100", "--tp 4 --precision fp8_rowwise"),
    Case("FP8 by row, weight gradients in bf16", "deepseek-v2-lite", "2x8xH100",
         "--tp 2 --ep 8 --etp 1 --precision fp8_rowwise_gw_hp"),
    Case("MXFP8", "llama3-70b", "8x8xB200", "--tp 1 --precision mxfp8"),
    Case("fp32", "qwen3-0.6b", "1x8xH100", "--tp 1 --precision fp32"),
    Case("pipeline", "llama3-70b", "8x8xH100", "--tp 8 --pp 4 --zero 2"),
    Case("GPipe", "llama3-8b", "1x8xH100", "--tp 2 --pp 2 --schedule gpipe"),
    Case("interleaved pipeline", "llama3-70b", "8x8xH100", "--tp 4 --pp 4 --vpp 5"),
    Case("uneven interleaved pipeline", "llama3.1-405b", "32x8xH100", "--tp 8 --pp 8 --vpp 4 --recompute full",
         8192, 256),
    Case("experts over EP", "qwen3-30b-a3b", "4x8xH100", "--tp 1 --ep 8"),
    Case("experts over EP and TP", "qwen3-235b-a22b", "16x8xH100", "--tp 4 --ep 8 --etp 1 --recompute full"),
    Case("latent attention, experts, pipeline", "deepseek-v3", "64x8xH100",
         "--tp 2 --pp 8 --ep 16 --etp 1 --recompute full", 4096, 2048),
    Case("HSDP", "llama3-8b", "4x8xH100", "--tp 1 --zero 3 --dp-replicate 4"),
    Case("HSDP with TP and a pipeline", "llama3-70b", "16x8xH100", "--tp 4 --pp 4 --vpp 2 --zero 2 --dp-replicate 2"),
    Case("HSDP with experts and FP8", "qwen3-30b-a3b", "4x8xH100",
         "--tp 1 --ep 8 --dp-replicate 2 --precision fp8_current"),
    Case("HSDP with context parallelism", "llama3-8b", "4x8xH100", "--tp 1 --cp 4 --dp-replicate 8 --recompute full",
         131072, 32),
    Case("small latent attention", "deepseek-v2-lite", "2x8xH100", "--tp 1 --ep 8 --recompute op_sac"),
]


@unittest.skipIf(REASON, REASON)
class TorchtitanExport(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        package = types.ModuleType("torchtitan")
        package.__path__ = [str(PACKAGE[0])]
        sys.modules.setdefault("torchtitan", package)
        import logging
        logging.disable(logging.WARNING)

    @staticmethod
    def parsed(text: str):
        from torchtitan.config import ConfigManager
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "train.toml")
            file.write_text(text)
            return ConfigManager().parse_args([f"--job.config_file={file}"])

    @staticmethod
    def layers_in(config) -> list[int]:
        return [sum(m.startswith("layers.") for m in part)
                for part in config.parallelism.module_fqns_per_model_part]

    def check_parallelism(self, config, plan: dict) -> None:
        from torchtitan.distributed.parallel_dims import ParallelDims
        p = config.parallelism
        dims = ParallelDims(dp_replicate=p.data_parallel_replicate_degree, dp_shard=p.data_parallel_shard_degree,
                            cp=p.context_parallel_degree, tp=p.tensor_parallel_degree,
                            pp=p.pipeline_parallel_degree, ep=p.expert_parallel_degree,
                            etp=p.expert_tensor_parallel_degree, world_size=plan["gpus"])
        self.assertEqual((dims.tp, dims.pp, dims.cp, dims.dp_replicate * dims.dp_shard, dims.dp_replicate),
                         (plan["tp"], plan["pp"], plan["cp"], plan["dp"], plan["dp_replicate"]))
        self.assertEqual(dims.ep, plan["ep"])
        self.assertEqual(p.fsdp_reshard_after_forward, "always" if plan["zero"] == 3 else "never")
        self.assertEqual(config.training.seq_len % dims.seq_len_divisor, 0)

    def check_pipeline(self, config, plan: dict) -> None:
        from torch.distributed.pipelining.schedules import PipelineScheduleMulti, get_schedule_class
        p = config.parallelism
        kind = get_schedule_class(p.pipeline_parallel_schedule)
        self.assertEqual(issubclass(kind, PipelineScheduleMulti), plan["vpp"] > 1)
        parts = p.module_fqns_per_model_part
        self.assertEqual(len(parts), plan["pp"] * plan["vpp"])
        modules = [m for part in parts for m in part]
        layers = [m for m in modules if m.startswith("layers.")]
        self.assertEqual(layers, [f"layers.{i}" for i in range(len(layers))])
        self.assertEqual((modules[0], modules[-2:]), ("tok_embeddings", ["norm", "output"]))
        local, micro = config.training.local_batch_size, p.pipeline_parallel_microbatch_size
        self.assertEqual(local % micro, 0)
        if plan["vpp"] > 1:  # ScheduleInterleaved1F1B: whole rounds of micro-batches
            rounds = max(1, local // micro // plan["pp"])
            self.assertEqual(local // micro % rounds, 0)

    def test_torchtitan_reads_every_export_as_the_plan(self):
        self.assertGreaterEqual(len(CASES), 15)
        for case in CASES:
            with self.subTest(case.name):
                plan = exported_plans.plan_of(case, "torchtitan")
                config = self.parsed(exported_plans.export(case, "torchtitan"))
                self.check_parallelism(config, plan)
                if plan["pp"] > 1:
                    self.check_pipeline(config, plan)
                else:
                    self.assertEqual(config.training.local_batch_size, plan["micro_batch"])
                # train.py: the global batch is a multiple of the local batch x data parallelism.
                step = config.training.local_batch_size * plan["dp"]
                self.assertEqual(config.training.global_batch_size % step, 0)
                self.assertEqual(config.training.global_batch_size, case.global_batch)
                self.assertEqual(config.training.seq_len, case.sequence_length)
                self.assertEqual(config.training.enable_cpu_offload, plan["offload_parameters"] > 0)

    def test_flavors_have_the_dimensions_of_the_catalogue(self):
        import ast
        # The packages of the models import data loaders; their tables are read as text instead.
        dimensions = {"llama3-8b": (4096, 32, 32), "llama3-70b": (8192, 80, 64), "llama3.1-405b": (16384, 126, 128),
                      "qwen3-235b-a22b": (4096, 94, 64), "deepseek-v3": (7168, 61, 128)}
        for case in CASES:
            if case.model not in dimensions:
                continue
            config = self.parsed(exported_plans.export(case, "torchtitan"))
            source = (PACKAGE[0] / "models" / config.model.name / "__init__.py").read_text()
            rows = {}
            for call in ast.walk(ast.parse(source)):
                if isinstance(call, ast.Dict):
                    for key, value in zip(call.keys, call.values):
                        if isinstance(key, ast.Constant) and isinstance(value, ast.Call):
                            rows[key.value] = {k.arg: k.value.value for k in value.keywords
                                               if isinstance(k.value, ast.Constant)}
            row = rows[config.model.flavor]
            self.assertEqual((row["dim"], row["n_layers"], row["n_heads"]), dimensions[case.model], case.name)

    def test_hsdp_is_read_and_written_as_a_replicate_degree(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "hsdp.toml")
            file.write_text(exported_plans.export(CASES[0], "torchtitan").replace(
                "data_parallel_replicate_degree = 1", "data_parallel_replicate_degree = 2").replace(
                "data_parallel_shard_degree = 8", "data_parallel_shard_degree = 4"))
            done = exported_plans.run(["export", "--from", str(file), "--cluster", "1x8xH100", "--to", "torchtitan"])
            self.assertEqual(done.returncode, 0, done.stderr)
            config = self.parsed(done.stdout)
            self.assertEqual((config.parallelism.data_parallel_replicate_degree,
                              config.parallelism.data_parallel_shard_degree), (2, 4))


if __name__ == "__main__":
    unittest.main(verbosity=2, warnings="ignore")
