"""The PyTorch provider: points, statistics on a clock with known answers, rows that import takes whole."""

import importlib.util
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "harness" / "pytorch"))
WITHOUT_TORCH = importlib.util.find_spec("torch") is None
PROGRAM = os.environ.get("FOREPLAN_PROGRAM", str(ROOT / "build" / "release" / "cli" / "foreplan"))

import bench_points  # noqa: E402


class BenchPoints(unittest.TestCase):
    def test_a_linear_layer_is_three_products_of_equal_work(self):
        points = list(bench_points.linear_points(rows=6, inputs=10, outputs=14, dtype="fp32"))
        self.assertEqual([p.direction for p in points], ["forward", "dgrad", "wgrad"])
        self.assertEqual([(p["m"], p["n"], p["k"]) for p in points], [(6, 14, 10), (6, 10, 14), (14, 10, 6)])

    def test_mistakes_of_a_bench_file_are_told_by_key(self):
        for entry, words in (({"op": "gem", "m": 1}, "is not one of gemm"),
                             ({"op": "gemm", "m": 4, "n": 4}, "the keys k are missing"),
                             ({"op": "gemm", "m": 4, "n": 4, "k": 0}, "k must be a whole number above 0"),
                             ({"op": "gemm", "m": 4, "n": 4, "k": 4, "kk": 1}, "unknown keys kk"),
                             ({"op": "gemm", "m": 4, "n": 4, "k": 4, "dtype": "fp99"}, "dtype 'fp99'"),
                             ({"op": "add", "rows": 4, "cols": 4, "pass": "up"}, "pass 'up'")):
            with self.assertRaisesRegex(bench_points.BadPoint, words):
                bench_points.parse_point(entry)

    def test_backward_of_other_operators_is_their_dgrad(self):
        read = bench_points.parse_point({"op": "add", "rows": 4, "cols": 8, "pass": "backward", "reason": "x"})
        self.assertEqual(read, bench_points.point("add", "fp32", "dgrad", rows=4, cols=8))

    def test_the_standard_list_holds_no_point_twice(self):
        points = bench_points.standard_points("fp32", largest=512)
        self.assertGreater(len(points), 50)
        self.assertEqual(len(points), len(set(points)))


class KnownClock:
    """A machine whose calls take `mean_s`, with normal noise, and now and then ten times that."""

    def __init__(self, mean_s: float, noise: float, outliers: float):
        self._mean_s, self._noise, self._outliers = mean_s, noise, outliers
        self._random = random.Random(7)
        self.launches: list[int] = []

    def run(self, calls, launches: int) -> float:
        self.launches.append(launches)
        slow = 10.0 if self._random.random() < self._outliers else 1.0
        return self._mean_s * slow * max(0.1, 1 + self._noise * self._random.gauss(0, 1))


@unittest.skipIf(WITHOUT_TORCH, "no torch here: pip install torch==2.13.0")
class Measuring(unittest.TestCase):
    def setUp(self):
        import measuring

        self.measuring = measuring

    def test_recovers_a_known_time_within_its_own_noise_despite_outliers(self):
        sample = self.measuring.measure([lambda: None], KnownClock(1e-4, 0.05, outliers=0.05))
        self.assertLess(abs(sample.median_s / 1e-4 - 1), 4 * 0.01)
        self.assertLessEqual(sample.noise, 0.01)

    def test_a_quiet_clock_needs_no_more_than_the_fewest_samples(self):
        sample = self.measuring.measure([lambda: None], KnownClock(1e-2, 0.0, outliers=0))
        self.assertEqual(sample.count, self.measuring.FEWEST_SAMPLES)

    def test_short_calls_are_launched_in_batches_that_the_clock_can_see(self):
        clock = KnownClock(1e-6, 0.0, outliers=0)
        self.measuring.measure([lambda: None], clock)
        self.assertEqual(clock.launches[-1], 2000)  # 2 ms

    def test_noise_that_never_settles_ends_at_the_most_samples(self):
        sample = self.measuring.measure([lambda: None], KnownClock(1e-2, 0.5, outliers=0), noise=1e-9)
        self.assertEqual(sample.count, self.measuring.MOST_SAMPLES)

    def test_quartiles_of_a_ramp_are_where_they_belong(self):
        sample = self.measuring.summarise([float(i) for i in range(1, 102)])
        self.assertEqual((sample.low_s, sample.median_s, sample.high_s), (26.0, 51.0, 76.0))
        self.assertEqual((sample.first_tenth_s, sample.last_tenth_s), (11.0, 91.0))


@unittest.skipIf(WITHOUT_TORCH, "no torch here: pip install torch==2.13.0")
class Rows(unittest.TestCase):
    """Every recipe, at one small shape, through the program that reads the lines."""

    POINTS = [
        {"op": "gemm", "m": 64, "n": 96, "k": 32, "pass": "wgrad"},
        {"op": "linear", "m": 64, "n": 96, "k": 32},
        {"op": "attention", "batch": 1, "heads": 2, "kv_heads": 1, "q_len": 32, "kv_len": 32,
         "head_dim_qk": 16, "head_dim_v": 16, "pass": "backward"},
        *({"op": op, "rows": 64, "cols": 128, "pass": passing}
          for op in ("layer_norm", "rms_norm", "gelu", "silu_mul", "rope", "add", "embedding", "cross_entropy")
          for passing in ("forward", "dgrad")),
        {"op": "optimizer", "rows": 70000},
        {"op": "copy", "rows": 70000},
        {"op": "transformer_layer", "batch": 1, "q_len": 16, "cols": 64, "heads": 2, "pass": "backward"},
    ]

    def bench(self, folder: pathlib.Path, *more: str) -> subprocess.CompletedProcess:
        (folder / "points.yaml").write_text(json.dumps({"foreplan_bench": 1, "points": self.POINTS}))
        command = [sys.executable, str(ROOT / "harness/pytorch/bench_torch.py"), "--device-name", "Test-Host",
                   "--threads", "1", "--points", str(folder / "points.yaml"), "--point-limit", "0.02",
                   "--out", str(folder / "lines.jsonl"), *more]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=250,
                              env={**os.environ, "FOREPLAN_DEVICES": str(folder)})

    def test_import_takes_every_line_and_a_second_run_adds_none(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            done = self.bench(folder, "--describe-host", name, "--db", str(folder / "runs.db"),
                              "--foreplan", PROGRAM)
            self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
            lines = (folder / "lines.jsonl").read_text().splitlines()
            self.assertEqual(len(lines), len(self.POINTS))
            self.assertNotIn("rejected lines", done.stdout)
            self.assertEqual(self.bench(folder).returncode, 0)
            self.assertEqual((folder / "lines.jsonl").read_text().splitlines(), lines)

    def test_a_run_that_was_killed_while_it_wrote_goes_on(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            self.assertEqual(self.bench(folder).returncode, 0)
            lines = (folder / "lines.jsonl").read_text().splitlines(keepends=True)
            (folder / "lines.jsonl").write_text("".join(lines[:-1]) + lines[-1][:40] + "\n")
            self.assertEqual(self.bench(folder).returncode, 0)
            kinds = [json.loads(line)["kind"] for line in (folder / "lines.jsonl").read_text().splitlines()
                     if line.endswith("}")]
            self.assertEqual(len(kinds), len(self.POINTS))


if __name__ == "__main__":
    unittest.main()
