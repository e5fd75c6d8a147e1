"""Exported Accelerate files, taken by `accelerate launch`'s own parser, make the plan's FSDP plugin."""

import os
import pathlib
import tempfile
import unittest
from unittest import mock

import exported_plans
from exported_plans import Case

REASON = exported_plans.missing("torch", "accelerate")

CASES = [
    Case("FSDP2", "llama3-8b", "1x8xH100", "--zero 3"),
    Case("offload", "llama3-8b", "1x8xH100", "--zero 3 --recompute full --offload-optimizer 1 "
         "--offload-parameters 1 --offload-activations 1"),
    Case("parameters stay whole", "llama3-8b", "1x8xH100", "--zero 2"),
    Case("recompute", "llama3-70b", "8x8xH100", "--zero 3 --recompute full"),
    Case("larger micro-batch", "qwen2-7b", "2x8xH100", "--zero 3 --micro-batch 2 --recompute full"),
    Case("fp16", "opt-30b", "2x8xA100-80", "--zero 3 --precision fp16", 2048),
    Case("fp32", "gpt2-xl", "1x8xA100-80", "--zero 3 --precision fp32", 1024),
    Case("FP8 by TransformerEngine", "llama3-8b", "1x8xH100", "--zero 3 --precision fp8"),
    Case("FP8 by torchao", "llama3-8b", "1x8xH100", "--zero 3 --precision fp8_current"),
    Case("context parallelism", "llama3-8b", "2x8xH100", "--cp 4 --zero 3 --recompute full", 65536, 32),
    Case("context parallelism over all ranks", "llama3-8b", "1x8xH100", "--cp 8 --zero 3 --recompute full", 65536, 32),
    Case("tensor parallelism", "llama3-8b", "2x8xH100", "--tp 4 --sequence-parallel false --zero 3"),
    Case("TP and CP", "llama3-70b", "8x8xH100", "--tp 2 --cp 2 --sequence-parallel false --zero 3 --recompute full"),
    Case("experts, whole on every rank", "mixtral-8x7b", "8x8xH100", "--zero 3 --recompute full"),
    Case("latent attention", "deepseek-v2-lite", "2x8xH100", "--zero 3 --recompute full"),
    Case("one node of a larger cluster", "llama3.2-1b", "4x8xH100", "--zero 2 --gpus 8"),
    Case("HSDP", "llama3-8b", "4x8xH100", "--zero 3 --dp-replicate 4"),
    Case("HSDP of whole parameters, FP8", "llama3-8b", "2x8xH100", "--zero 2 --dp-replicate 2 --precision fp8"),
    Case("HSDP with TP and CP", "llama3-70b", "8x8xH100",
         "--tp 2 --cp 2 --sequence-parallel false --zero 3 --dp-replicate 4 --recompute full"),
    Case("405 billion parameters", "llama3.1-405b", "64x8xH100", "--zero 3 --recompute full", 4096, 512),
]


@unittest.skipIf(REASON, REASON)
class AccelerateExport(unittest.TestCase):
    def launched(self, text: str) -> tuple:
        """Plugin, parallelism and arguments as `accelerate launch` and its child make them."""
        from accelerate.commands import launch
        from accelerate.parallelism_config import ParallelismConfig
        from accelerate.utils import FullyShardedDataParallelPlugin
        from accelerate.utils import launch as environment

        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "accelerate.yaml")
            file.write_text(text)
            arguments = launch.launch_command_parser().parse_args(["--config_file", str(file), "train.py"])
            with mock.patch.dict(os.environ), mock.patch.object(environment, "is_fp8_available", lambda: True):
                arguments, _, _ = launch._validate_launch_command(arguments)
                os.environ.update(environment.prepare_multi_gpu_env(arguments))
                return FullyShardedDataParallelPlugin(), ParallelismConfig(), arguments

    def test_accelerate_takes_every_export_as_the_plan(self):
        self.assertGreaterEqual(len(CASES), 15)
        names = {"bf16": "bf16", "fp16": "fp16", "fp32": "no", "fp8": "fp8", "fp8_current": "fp8"}
        for case in CASES:
            with self.subTest(case.name):
                plan = exported_plans.plan_of(case, "accelerate")
                plugin, parallel, arguments = self.launched(exported_plans.export(case, "accelerate"))
                self.assertEqual(plugin.fsdp_version, 2)
                self.assertEqual(plugin.reshard_after_forward, plan["zero"] == 3)
                self.assertEqual(plugin.activation_checkpointing, plan["recompute"] == "full")
                self.assertEqual(plugin.activation_checkpointing_offload, plan["offload_activations"] > 0)
                self.assertEqual(type(plugin.cpu_offload).__name__ == "CPUOffloadPolicy",
                                 plan["offload_parameters"] > 0)
                self.assertEqual(arguments.mixed_precision, names[plan["precision"]])
                self.assertEqual(int(arguments.num_processes), plan["gpus"])
                if arguments.use_parallelism_config:
                    self.assertEqual(parallel.total_size, plan["gpus"])
                    self.assertEqual((parallel.tp_size, parallel.cp_size, parallel.data_parallel_size),
                                     (plan["tp"], plan["cp"], plan["dp"]))
                    self.assertEqual(parallel.dp_replicate_size, plan["dp_replicate"])
                else:
                    self.assertEqual((plan["tp"], plan["cp"], plan["dp_replicate"]), (1, 1, 1))

    def test_hsdp_is_read_and_written_as_a_replicate_size(self):
        text = exported_plans.export(CASES[0], "accelerate") + (
            "parallelism_config:\n  parallelism_config_dp_replicate_size: 2\n"
            "  parallelism_config_dp_shard_size: 4\n")
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "hsdp.yaml")
            file.write_text(text)
            done = exported_plans.run(["export", "--from", str(file), "--cluster", "1x8xH100", "--model", "llama3-8b",
                                       "--sequence-length", "4096 tokens", "--global-batch", "64 sequences",
                                       "--micro-batch", "1", "--to", "accelerate"])
        self.assertEqual(done.returncode, 0, done.stderr)
        _, parallel, _ = self.launched(done.stdout)
        self.assertEqual((parallel.dp_replicate_size, parallel.dp_shard_size), (2, 4))

    def test_sequence_parallelism_is_refused_with_the_reason(self):
        case = Case("sequence parallelism", "llama3-8b", "1x8xH100", "--tp 2 --zero 3")
        self.assertIn("Accelerate has no sequence parallelism", exported_plans.refusal(case, "accelerate"))


if __name__ == "__main__":
    unittest.main(verbosity=2, warnings="ignore")
