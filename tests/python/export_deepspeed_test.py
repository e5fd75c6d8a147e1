"""Exported DeepSpeed configurations, read by DeepSpeed's own class, give the plan."""

import json
import os
import pathlib
import tempfile
import unittest

import exported_plans
from exported_plans import Case

REASON = exported_plans.missing("torch", "deepspeed")

CASES = [
    Case("no sharding", "gpt2-xl", "1x8xA100-80", "--zero 0", 1024, 512),
    Case("ZeRO-1", "llama2-7b", "1x8xA100-80", "--zero 1"),
    Case("ZeRO-2", "llama2-7b", "1x8xA100-80", "--zero 2 --micro-batch 2"),
    Case("ZeRO-3", "llama3-8b", "1x8xH100", "--zero 3"),
    Case("ZeRO-3, recompute", "llama3-70b", "8x8xH100", "--zero 3 --recompute full"),
    Case("ZeRO-3 of a large model", "llama3.1-405b", "32x8xH100", "--zero 3 --recompute full"),
    Case("fp16", "opt-30b", "2x8xA100-80", "--zero 3 --precision fp16", 2048),
    Case("fp32", "gpt2-medium", "1x8xA100-80", "--zero 2 --precision fp32", 1024),
    Case("AutoTP with ZeRO-1", "llama3-8b", "2x8xH100", "--tp 4 --sequence-parallel false --zero 1"),
    Case("AutoTP with ZeRO-2", "qwen2-7b", "1x8xH100", "--tp 2 --sequence-parallel false --zero 2"),
    Case("Ulysses", "llama3-8b", "2x8xH100", "--cp 4 --zero 3 --recompute full", 65536, 32),
    Case("Ulysses over a node", "llama3-8b", "4x8xH100", "--cp 8 --zero 3 --recompute full", 131072, 32),
    Case("AutoEP", "mixtral-8x7b", "4x8xH100", "--ep 8 --zero 2 --recompute full"),
    Case("AutoEP of many experts", "qwen3-30b-a3b", "4x8xH100", "--ep 16 --zero 1"),
    Case("AutoEP over half of the ranks", "deepseek-v2-lite", "2x8xH100", "--ep 8 --zero 2"),
    Case("ZeRO-Offload", "llama2-7b", "1x8xA100-80", "--zero 2 --offload-optimizer 1"),
    Case("half of the optimizer offloaded", "llama2-7b", "1x8xA100-80", "--zero 3 --offload-optimizer 0.5"),
    Case("ZeRO-3 offload", "llama3-70b", "1x8xH100", "--zero 3 --recompute full --offload-optimizer 1 "
         "--offload-parameters 1 --offload-activations 1"),
    Case("micro-batches of four", "pythia-6.9b", "1x8xA100-80", "--zero 2 --micro-batch 4", 2048),
]


class Ranks:
    """What DeepSpeed asks a model-parallel unit for."""

    def __init__(self, data_parallel: int):
        self._data_parallel = data_parallel

    def get_data_parallel_world_size(self) -> int:
        return self._data_parallel


@unittest.skipIf(REASON, REASON)
class DeepspeedExport(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        os.environ.setdefault("DS_ACCELERATOR", "cpu")

    def parsed(self, text: str, plan: dict):
        """The configuration on as many data-parallel ranks as the plan has."""
        from unittest import mock

        from deepspeed import comm
        from deepspeed.runtime.config import DeepSpeedConfig
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(comm, "get_rank", lambda *_: 0):
            file = pathlib.Path(folder, "config.json")
            file.write_text(text)
            return DeepSpeedConfig(str(file), mpu=Ranks(plan["dp"]))

    def assert_offloads(self, config, plan: dict) -> None:
        zero = config.zero_config
        optimizer, parameters = zero.offload_optimizer, zero.offload_param
        self.assertEqual(optimizer is not None and optimizer.device == "cpu", plan["offload_optimizer"] > 0)
        if optimizer is not None:
            self.assertEqual(optimizer.ratio, plan["offload_optimizer"])
        self.assertEqual(parameters is not None and parameters.device == "cpu", plan["offload_parameters"] > 0)
        self.assertEqual(config.activation_checkpointing_config.cpu_checkpointing, plan["offload_activations"] > 0)

    def test_deepspeed_reads_every_export_as_the_plan(self):
        self.assertGreaterEqual(len(CASES), 15)
        for case in CASES:
            with self.subTest(case.name):
                plan = exported_plans.plan_of(case, "deepspeed")
                config = self.parsed(exported_plans.export(case, "deepspeed"), plan)
                self.assertEqual(config.world_size, plan["dp"])
                self.assertEqual(config.train_batch_size, case.global_batch)
                self.assertEqual(config.train_micro_batch_size_per_gpu, plan["micro_batch"])
                self.assertEqual(config.zero_optimization_stage, plan["zero"])
                self.assertEqual(config.bfloat16_config.enabled, plan["precision"] == "bf16")
                self.assertEqual(config.float16_config.enabled, plan["precision"] == "fp16")
                self.assertEqual(max(config.tensor_parallel_config.autotp_size, 1), plan["tp"])
                self.assertEqual(config.optimizer_name, "adamw")
                self.assert_offloads(config, plan)

    def test_expert_parallelism_passes_the_checks_of_its_own(self):
        from deepspeed.module_inject.auto_ep_config import validate_autoep_config
        shown = 0
        for case in CASES:
            plan = exported_plans.plan_of(case, "deepspeed")
            config = self.parsed(exported_plans.export(case, "deepspeed"), plan)
            self.assertEqual(config.expert_parallel_config.enabled, plan["ep"] > 1)
            if plan["ep"] == 1:
                continue
            shown += 1
            self.assertEqual(config.expert_parallel_config.autoep_size, plan["ep"])
            validate_autoep_config(config.expert_parallel_config, plan["gpus"], plan["pp"], plan["tp"], plan["cp"],
                                   zero_stage=plan["zero"])
        self.assertGreaterEqual(shown, 3)

    def test_no_key_is_one_that_deepspeed_does_not_know(self):
        from deepspeed.runtime.zero.config import DeepSpeedZeroConfig
        for case in CASES:
            section = json.loads(exported_plans.export(case, "deepspeed"))["zero_optimization"]
            self.assertLessEqual(set(section), set(DeepSpeedZeroConfig.model_fields))

    def test_copies_of_the_states_are_refused_since_mics_left(self):
        from deepspeed.runtime.zero.config import DeepSpeedZeroConfig
        self.assertNotIn("mics_shard_size", DeepSpeedZeroConfig.model_fields)
        case = Case("HSDP", "llama3-8b", "4x8xH100", "--zero 3 --dp-replicate 4")
        self.assertIn("deepspeed shares states out over all data-parallel ranks or none",
                      exported_plans.refusal(case, "deepspeed"))

    def test_a_pipeline_is_refused_with_the_reason(self):
        case = Case("pipeline", "llama2-7b", "1x8xA100-80", "--pp 2 --zero 1")
        self.assertIn("DeepSpeed builds pipelines in the program", exported_plans.refusal(case, "deepspeed"))


if __name__ == "__main__":
    unittest.main(verbosity=2, warnings="ignore")
