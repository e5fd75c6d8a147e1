"""Training steps of layer stacks on one device: what they are, what they hold, and their table."""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
HARNESS = ROOT / "harness" / "pytorch"
sys.path.insert(0, str(HARNESS))
WITHOUT_TORCH = importlib.util.find_spec("torch") is None or importlib.util.find_spec("yaml") is None
WHY_NOT = "no torch or no yaml here: pip install torch==2.13.0 pyyaml numpy"
PROGRAM = os.environ.get("FOREPLAN_PROGRAM", str(ROOT / "foreplan"))


@unittest.skipIf(WITHOUT_TORCH, WHY_NOT)
class StacksReport(unittest.TestCase):
    def test_errors_are_predicted_over_measured_and_a_failed_run_says_why(self):
        from stacks import report

        text = report.table(["a", "b", "c"],
                            {"a": {"step_time_s": 0.11, "peak_bytes": 19e8}, "b": {"step_time_s": 1.0, "peak_bytes": 1e9},
                             "c": {"step_time_s": 1.3, "peak_bytes": 3e9}},
                            {"a": {"times_s": [0.2, 0.1, 0.05], "peak_bytes": 20e8}, "b": {"failed": "out of memory"},
                             "c": {"times_s": [1.0], "peak_bytes": 3e9}})
        first, second = text.splitlines()[1:3]
        self.assertEqual(first.split(), ["a", "110.0", "100.0", "+10.0%", "1.900", "2.000", "-5.0%"])
        self.assertTrue(second.endswith("out of memory"))
        self.assertIn("1 of 3 runs within 20%, median error 20.0%; peak of memory: largest error 5.0%", text)


@unittest.skipIf(WITHOUT_TORCH, WHY_NOT)
class StacksModels(unittest.TestCase):
    def test_routed_experts_are_the_weighed_sum_of_the_chosen_ones(self):
        import torch
        from stacks.decoder import DecoderConfig, Experts, gated

        torch.manual_seed(0)
        experts, x = Experts(DecoderConfig(16, 1, 2, 1, 24, 32, experts=4, top_k=2)), torch.randn(2, 8, 16)
        expected = torch.zeros(2, 8, 16)
        scores = experts.router(x).softmax(-1)
        for sample, position in ((s, p) for s in range(2) for p in range(8)):
            weights, chosen = scores[sample, position].topk(2)
            for weight, expert in zip(weights / weights.sum(), chosen):
                inner = gated(experts.gate_and_up[expert] @ x[sample, position])
                expected[sample, position] += weight * (experts.down[expert] @ inner)
        self.assertTrue(torch.allclose(experts(x), expected, atol=1e-5))

    def test_an_expert_without_tokens_has_no_gradient(self):
        import torch
        from stacks.decoder import DecoderConfig, Experts

        torch.manual_seed(0)
        experts = Experts(DecoderConfig(16, 1, 2, 1, 24, 32, experts=4, top_k=1)).bfloat16()
        with torch.no_grad():
            experts.router.weight.zero_()
            experts.router.weight[2] = 1
        experts(torch.ones(1, 8, 16, dtype=torch.bfloat16)).float().square().sum().backward()
        norms = [experts.down.grad[i].float().norm().item() for i in range(4)]
        self.assertGreater(norms[2], 0)
        self.assertEqual([norms[i] for i in (0, 1, 3)], [0, 0, 0])

    def test_later_tokens_do_not_change_earlier_ones(self):
        import torch
        from stacks.decoder import DecoderConfig, Layer, rotary_tables

        torch.manual_seed(0)
        layer, tables = Layer(DecoderConfig(32, 1, 4, 2, 48, 16)), rotary_tables(8, 8)
        x = torch.randn(1, 8, 32)
        changed = x.clone()
        changed[:, 5:] += 1
        self.assertTrue(torch.allclose(layer(x, *tables)[:, :5], layer(changed, *tables)[:, :5], atol=1e-5))
        self.assertFalse(torch.allclose(layer(x, *tables)[:, 5:], layer(changed, *tables)[:, 5:], atol=1e-2))


@unittest.skipIf(WITHOUT_TORCH, WHY_NOT)
class StacksMemory(unittest.TestCase):
    def test_the_peak_is_that_of_tensors_alive_at_once(self):
        import torch
        from stacks.memory import PeakBytes

        start = torch.zeros(1000)  # 4000 bytes
        with PeakBytes([start]) as counter:
            a = start + 1
            b = a * 2
            del a, b  # 12000 at most
            c = start.view(10, 100).t()  # shares its storage
            d = c + 1
            del c, d
        self.assertEqual(counter.peak, 12000)

    def test_training_holds_what_foreplan_says(self):
        """In bf16, the precision of the runs on a GPU, all of whose counts a processor can show but two: its
        nn.RMSNorm is composed of kernels that keep the input and the normed tensor in fp32 instead of
        the input in bf16 (6 bytes an element more), and the router's state is not Megatron-LM's."""
        import torch
        from stacks.configurations import Stack, configurations
        from stacks.training import Run

        torch.set_num_threads(1)
        for one in configurations("small"):
            config, stack = one.stack.config, one.stack
            run = Run(one, torch.device("cpu"), "bf16")
            run.step()  # makes the optimizer's states
            peak, kept = run.peak_bytes(), run.kept_bytes()
            told = self.simulated(one)
            self.assertEqual(told["question"]["model"]["parameters"],
                             sum(p.numel() for p in run._model.parameters()), one.name)
            norms = 0
            if not one.stack_name == "dit":
                norms = 1 + (0 if one.recompute else 2 * config.layers)
            composed = 6 * stack.batch * stack.length * config.hidden * norms
            memory = told["memory"]
            self.assertAlmostEqual((memory["activations_bytes"] + composed) / kept, 1, delta=0.02, msg=one.name)
            predicted = memory["allocated_bytes"] - memory["workspace_bytes"] + composed
            self.assertAlmostEqual(predicted / peak, 1, delta=0.05, msg=one.name)

    def simulated(self, one):
        """The answer for a device of the catalogue: bytes are the same on all."""
        with tempfile.TemporaryDirectory() as folder:
            model = pathlib.Path(folder) / "model.json"
            model.write_text(one.stack.config.hugging_face())
            done = subprocess.run([PROGRAM, "simulate", "--json", "--model", str(model), "--cluster", "1x1xH100",
                                   "--profile", "datasheet", *one.scenario_options("bf16")],
                                  capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)


@unittest.skipIf(WITHOUT_TORCH, WHY_NOT)
class StacksProgram(unittest.TestCase):
    def run_stacks(self, *more):
        return subprocess.run([sys.executable, "-m", "stacks", "--device", "cpu", "--device-name", "H100",
                               "--profile", "datasheet", "--foreplan", PROGRAM, *more], check=False,
                              env={**os.environ, "PYTHONPATH": str(HARNESS)}, capture_output=True, text=True,
                              timeout=280)

    def test_six_runs_are_predicted_before_they_are_measured(self):
        with tempfile.TemporaryDirectory() as folder:
            done = self.run_stacks("--size", "small", "--steps", "1", "--out", folder)
            self.assertEqual(done.returncode, 0, done.stderr)
            predicted, measured = (json.loads((pathlib.Path(folder) / f"{name}.json").read_text())
                                   for name in ("predictions", "measured"))
        self.assertLess(predicted["predicted_at"], measured["measured_at"])
        self.assertEqual(list(predicted["runs"]), ["llama", "llama-recompute", "moe", "moe-recompute", "dit",
                                                   "dit-recompute"])
        self.assertEqual(list(predicted["runs"]), list(measured["runs"]))
        for name in ("llama", "moe", "dit"):  # recomputing saves memory, on paper and in fact
            for runs in (predicted["runs"], measured["runs"]):
                self.assertLess(runs[f"{name}-recompute"]["kept_bytes"], runs[name]["kept_bytes"], name)
        self.assertEqual(done.stdout.count("%"), 12 + 3, done.stdout)

    def test_a_profile_that_is_not_there_ends_it_before_any_training(self):
        with tempfile.TemporaryDirectory() as folder:
            done = self.run_stacks("--profile", "no-such-profile.json", "--out", folder)
            self.assertEqual(done.returncode, 3)
            self.assertIn("no-such-profile.json", done.stderr)
            self.assertFalse((pathlib.Path(folder) / "measured.json").exists())


if __name__ == "__main__":
    unittest.main()
