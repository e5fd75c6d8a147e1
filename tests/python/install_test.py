"""`pip install .` in a clean virtual environment, and a ten-line script there."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = """
import json, time
import foreplan
start = time.perf_counter()
answer = foreplan.recommend(model="llama3-70b", cluster="64xH100",
                            sequence_length="8192 tokens", global_batch="4Mi tokens")
frame = answer.frame()
seconds = time.perf_counter() - start
print(json.dumps({"seconds": seconds, "rows": len(frame), "first": frame.iloc[0].to_dict(),
                  "file": foreplan.__file__}, default=lambda number: number.item()))
"""


class Install(unittest.TestCase):
    def test_a_clean_environment_answers_in_ten_lines(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([sys.executable, "-m", "venv", f"{folder}/venv"], check=True)
            pip = [f"{folder}/venv/bin/python", "-m", "pip", "--no-input"]
            reached = subprocess.run([*pip, "install", "--quiet", "pandas"], check=False, capture_output=True, text=True)
            if reached.returncode != 0:
                self.skipTest(f"pip cannot install pandas here (no network?): {reached.stderr[-300:]}")
            done = subprocess.run([*pip, "install", str(ROOT)], check=False, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stdout[-3000:] + done.stderr[-3000:])
            # Nothing of the clone may help: another folder, a bare environment.
            environment = {"PATH": os.environ["PATH"], "HOME": folder}
            script = subprocess.run([f"{folder}/venv/bin/python", "-c", SCRIPT], cwd=folder, check=False,
                                    env=environment, capture_output=True, text=True)
            self.assertEqual(script.returncode, 0, script.stderr)
            answer = json.loads(script.stdout)
            self.assertTrue(answer["file"].startswith(folder))
            self.assertEqual(answer["rows"], 10)
            told = json.loads(subprocess.run(
                [os.environ["FOREPLAN_PROGRAM"], "recommend", "--model", "llama3-70b", "--cluster", "64xH100",
                 "--sequence-length", "8192 tokens", "--global-batch", "4Mi tokens", "--json"],
                check=True, capture_output=True, text=True).stdout)
            self.assertEqual(answer["first"]["step_time_s"], told["best"]["step_time_s"])
            print(f"answered in {answer['seconds']:.3f} s")


if __name__ == "__main__":
    unittest.main()
