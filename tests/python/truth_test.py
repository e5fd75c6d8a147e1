"""Predicted against real training on this machine, small enough for every test run."""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "harness" / "pytorch"))
WITHOUT_TORCH = importlib.util.find_spec("torch") is None or importlib.util.find_spec("yaml") is None
WHY_NOT = "no torch or no yaml here: pip install torch==2.13.0 pyyaml numpy"


@unittest.skipIf(WITHOUT_TORCH, WHY_NOT)
class Report(unittest.TestCase):
    def setUp(self):
        from truth import report

        self.report = report

    def table(self, predicted, measured, kept=1.0):
        from truth.configurations import ALL

        wanted = ALL[: len(predicted)]
        return self.report.Table(
            wanted, {c.name: {"step_time_s": p, "kept_bytes": kept} for c, p in zip(wanted, predicted)},
            {c.name: {"mean_s": m, "kept_bytes": 1.0} for c, m in zip(wanted, measured)})

    def test_rank_correlation_of_known_orders(self):
        self.assertAlmostEqual(self.report.spearman([1, 2, 3, 4], [10, 20, 30, 40]), 1)
        self.assertAlmostEqual(self.report.spearman([1, 2, 3, 4], [4, 3, 2, 1]), -1)
        # Sum of squared rank differences 2 of 5 values: 1 - 6 * 2 / (5 * 24)
        self.assertAlmostEqual(self.report.spearman([1, 2, 3, 4, 5], [1, 2, 3, 5, 4]), 0.9)

    def test_eight_of_ten_within_a_fifth_is_enough_and_seven_is_not(self):
        measured = [float(i) for i in range(1, 11)]
        eight = [m * (1.15 if i < 8 else 1.25) for i, m in enumerate(measured)]
        seven = [m * (1.15 if i < 7 else 1.25) for i, m in enumerate(measured)]
        self.assertTrue(self.table(eight, measured).targets_met())
        self.assertFalse(self.table(seven, measured).targets_met())

    def test_bytes_beyond_a_twentieth_miss(self):
        self.assertTrue(self.table([1.0, 2.0], [1.0, 2.0], kept=1.04).targets_met())
        self.assertFalse(self.table([1.0, 2.0], [1.0, 2.0], kept=1.06).targets_met())


@unittest.skipIf(WITHOUT_TORCH, WHY_NOT)
class QuickTruth(unittest.TestCase):
    def test_three_runs_are_predicted_within_a_factor_of_two_and_their_activations_within_a_hundredth(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([str(ROOT / "scripts" / "truth-on-this-machine"), "--quick"], check=False,
                                  env={**os.environ, "FOREPLAN_PYTHON": sys.executable, "FOREPLAN_TRUTH": folder},
                                  capture_output=True, text=True, timeout=280)
            self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
            predicted = json.loads((pathlib.Path(folder) / "predictions.json").read_text())
            measured = json.loads((pathlib.Path(folder) / "measured.json").read_text())
        self.assertLess(predicted["predicted_at"], measured["measured_at"])
        self.assertEqual(len(predicted["runs"]), 3)
        for name, run in measured["runs"].items():
            told = predicted["runs"][name]
            self.assertLess(told["step_time_s"] / run["mean_s"], 2, done.stdout)
            self.assertGreater(told["step_time_s"] / run["mean_s"], 0.5, done.stdout)
            self.assertAlmostEqual(told["kept_bytes"] / run["kept_bytes"], 1, delta=0.01, msg=name)


if __name__ == "__main__":
    unittest.main()
