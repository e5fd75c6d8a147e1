"""The script `foreplan` at the root, in a tree of its own with a program of a few lines."""

import json
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "foreplan"

PRESETS = {
    "version": 6,
    "configurePresets": [
        {"name": "release", "generator": "Ninja", "binaryDir": "${sourceDir}/build/release"}
    ],
}

TOP = """
cmake_minimum_required(VERSION 3.24...3.31)
project(probe LANGUAGES CXX)
add_subdirectory(cli)
"""

CLI = """
add_executable(foreplan_cli main.cpp)
set_target_properties(foreplan_cli PROPERTIES OUTPUT_NAME foreplan)
"""

MAIN = """
#include <cstdio>
#include <unistd.h>
int main(int count, char** words) {
  char folder[4096];
  std::printf("VERSION in %s:", getcwd(folder, sizeof folder));
  for (int i = 1; i < count; ++i) std::printf(" [%s]", words[i]);
  std::printf("\\n");
  return 7;
}
"""


class StartScript(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp()).resolve()
        self.addCleanup(shutil.rmtree, self.folder)
        self.root = self.folder / "tree"
        for name in ["cli", "scripts", "tests", "cmake"]:
            (self.root / name).mkdir(parents=True)
        shutil.copy(SCRIPT, self.root / "foreplan")
        self.write("CMakePresets.json", json.dumps(PRESETS))
        self.write("CMakeLists.txt", TOP)
        self.write("cli/CMakeLists.txt", CLI)
        self.write("tests/CMakeLists.txt", "")
        self.write("cli/main.cpp", MAIN.replace("VERSION", "one"))
        self.write("scripts/setup.sh", f"#!/bin/sh\necho set-up; echo x >>{self.folder}/set-ups\n")
        (self.root / "scripts/setup.sh").chmod(0o755)

    def write(self, path, text):
        (self.root / path).write_text(text)

    def set_ups(self):
        """How often a call went beyond the cheap check."""
        file = self.folder / "set-ups"
        return len(file.read_text().splitlines()) if file.exists() else 0

    def start(self, *arguments, program=None, cwd="/"):
        return subprocess.Popen(
            [program or self.root / "foreplan", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=cwd,
        )

    def run_script(self, *arguments, **keywords):
        """Exit code, standard output and standard error of one call."""
        process = self.start(*arguments, **keywords)
        out, err = process.communicate(timeout=120)
        return process.returncode, out, err

    def test_first_call_builds_and_later_calls_only_start(self):
        code, out, err = self.run_script("plan", "a b.yaml", "--json")
        self.assertEqual((code, out), (7, "one in /: [plan] [a b.yaml] [--json]\n"), err)
        self.assertIn("building, once", err)
        self.assertEqual(self.run_script(), (7, "one in /:\n", ""))
        self.assertEqual(self.set_ups(), 1)

    def test_works_from_any_folder_and_through_a_symlink(self):
        elsewhere = self.folder / "else where"
        elsewhere.mkdir()
        link = elsewhere / "fp"
        link.symlink_to("../tree/foreplan")
        expected = f"one in {elsewhere}: [x.yaml]\n"
        code, out, err = self.run_script("x.yaml", program=link, cwd=elsewhere)
        self.assertEqual((code, out), (7, expected), err)
        again = self.run_script("x.yaml", program="./fp", cwd=elsewhere)
        self.assertEqual(again, (7, expected, ""))

    def test_changed_new_and_removed_sources_are_built(self):
        self.run_script()
        self.write("cli/main.cpp", MAIN.replace("VERSION", "two"))
        self.assertEqual(self.run_script()[1], "two in /:\n")
        self.write("cli/extra.hpp", "")
        self.run_script()
        (self.root / "cli/extra.hpp").unlink()
        self.run_script()
        self.assertEqual(self.set_ups(), 4)
        self.assertEqual(self.run_script(), (7, "two in /:\n", ""))

    def test_new_commit_is_built(self):
        self.run_script()
        (self.root / ".git/logs").mkdir(parents=True)
        self.write(".git/logs/HEAD", "a commit")
        self.run_script()
        self.run_script()
        self.assertEqual(self.set_ups(), 2)

    def test_tests_and_files_of_the_user_do_not_matter(self):
        self.run_script()
        self.write("tests/new.cpp", "not C++")
        self.write("answer.json", "{}")
        self.assertEqual(self.run_script(), (7, "one in /:\n", ""))

    def test_failed_build_shows_the_log_and_is_tried_again(self):
        self.write("cli/main.cpp", "int main() { return undeclared; }")
        for _ in range(2):
            code, out, err = self.run_script()
            self.assertEqual((code, out), (3, ""))
            self.assertIn("undeclared", err)
            self.assertIn("the build failed", err)
        self.write("cli/main.cpp", MAIN.replace("VERSION", "one"))
        self.assertEqual(self.run_script()[:2], (7, "one in /:\n"))

    def test_broken_source_does_not_start_the_old_program(self):
        self.run_script()
        self.write("cli/main.cpp", "int main() { return undeclared; }")
        code, out, _ = self.run_script()
        self.assertEqual((code, out), (3, ""))

    def test_failed_configure_shows_the_log_and_is_tried_again(self):
        self.write("CMakeLists.txt", TOP + 'message(FATAL_ERROR "libprobe not found")\n')
        code, out, err = self.run_script()
        self.assertEqual((code, out), (3, ""))
        self.assertIn("libprobe not found", err)
        self.write("CMakeLists.txt", TOP)
        self.assertEqual(self.run_script()[:2], (7, "one in /:\n"))

    def test_failed_set_up_ends_with_its_message(self):
        self.write("scripts/setup.sh", "#!/bin/sh\necho run this as root >&2\nexit 3\n")
        code, out, err = self.run_script()
        self.assertEqual((code, out, err), (3, "", "run this as root\n"))

    def test_moved_tree_starts_and_builds_in_its_new_place(self):
        self.run_script()
        self.root = self.root.rename(self.folder / "moved")
        self.assertEqual(self.run_script(), (7, "one in /:\n", ""))
        self.write("cli/main.cpp", MAIN.replace("VERSION", "two"))
        code, out, err = self.run_script()
        self.assertEqual((code, out), (7, "two in /:\n"), err)

    def test_calls_at_the_same_time_build_once(self):
        calls = [self.start() for _ in range(4)]
        for call in calls:
            out, err = call.communicate(timeout=120)
            self.assertEqual((call.returncode, out), (7, "one in /:\n"), err)
        self.assertEqual(self.set_ups(), 1)

    def test_build_folder_that_cannot_be_written_is_named(self):
        self.write("build", "a file stands in the way")
        code, out, err = self.run_script()
        self.assertEqual((code, out), (3, ""))
        self.assertIn(f"cannot write to {self.root}/build/release", err)


if __name__ == "__main__":
    unittest.main()
