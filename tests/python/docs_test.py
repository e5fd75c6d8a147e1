"""The pages of docs/ that show commands: every command of a `sh` block runs, files that a page writes down are written."""

import os
import pathlib
import re
import shlex
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```(sh|yaml|json)\n(.*?)^```", re.MULTILINE | re.DOTALL)
FILE_NAME = re.compile(r"(?:#|//) (\S+)\n")


def follow(page: str, folder: pathlib.Path) -> list[subprocess.CompletedProcess]:
    """Does what the page says, in its order; a block whose first line is a comment with a path is that file.

    Examples that need a compiler are adding_test.py's.
    """
    done = []
    for kind, text in BLOCK.findall((ROOT / "docs" / page).read_text().split("## Examples in C++")[0]):
        if kind == "sh":
            for line in text.splitlines():
                words = shlex.split(line)
                assert words[0] == "foreplan", line
                done.append(subprocess.run([os.environ["FOREPLAN_PROGRAM"], *words[1:]], cwd=folder, check=False, text=True,
                                           env={**os.environ, "FOREPLAN_DEVICES": "devices"}, capture_output=True))
        elif named := FILE_NAME.match(text):
            file = folder / named[1]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text[named.end():])
    return done


class Pages(unittest.TestCase):
    def follow(self, page: str) -> tuple[list[subprocess.CompletedProcess], pathlib.Path]:
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        folder = pathlib.Path(holder.name)
        (folder / "devices").mkdir()
        for name in ("results", "scenarios", "tests"):  # what a clone has
            (folder / name).symlink_to(ROOT / name)
        done = follow(page, folder)
        for command in done:
            self.assertEqual(command.returncode, 0, f"{command.args}\n{command.stderr}")
        return done, folder

    def test_verbs_by_example(self):
        done, folder = self.follow("verbs.md")
        verbs = {command.args[1] for command in done}
        listed = subprocess.run([os.environ["FOREPLAN_PROGRAM"], "--help"], check=True, capture_output=True, text=True).stdout
        known = set(re.findall(r"^  ([a-z]+) {2,}", listed.split("Subcommands:")[1].split("Start here")[0], re.MULTILINE))
        self.assertEqual(known - verbs, {"bench"})  # needs a machine of its own
        for file in ("step.json", "train.sh", "runs.db", "run1.html", "whole.db", "rtx4090.json", "bench.yaml"):
            self.assertGreater((folder / file).stat().st_size, 0, file)

    def test_adding_a_device_and_a_model(self):
        done, _ = self.follow("adding.md")
        device, cluster, model, answer = (command.stdout for command in done)
        self.assertIn("Workshop-24GB", device)
        self.assertIn("2x8xWorkshop-24GB", cluster)
        # Closed form of a Llama: embedding and head, four attention products, three of the FFN, norms.
        h, f, layers, vocabulary, kv = 2048, 5632, 22, 32000, 4 * 64
        parameters = 2 * vocabulary * h + layers * (2 * h * h + 2 * h * kv + 3 * h * f + 2 * h) + h
        self.assertIn(f" {parameters} ", model)
        self.assertIn("Best plan", answer)


if __name__ == "__main__":
    unittest.main()
