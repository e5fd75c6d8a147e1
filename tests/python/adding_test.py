"""The C++ examples of docs/adding.md, done to the letter in a copy of the sources.

What a page's example writes and edits is compiled with the flags of its folder and linked before the rest of the build
(whose objects of the same names the linker then leaves out). Needs the build folder of a Ninja build, FOREPLAN_BUILD.
"""

import functools
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("FOREPLAN_BUILD", ROOT / "build" / "tests"))
COMMANDS = BUILD / "compile_commands.json"
BLOCK = re.compile(r"^```(cpp|diff|sh)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(title: str) -> list[tuple[str, str]]:
    """Blocks of the example whose paragraph starts with **title**."""
    page = (ROOT / "docs" / "adding.md").read_text().split("## Examples in C++")[1]
    return BLOCK.findall(page.split(f"**{title}**")[1].split("\n**")[0])


@functools.cache
def compile_commands() -> dict[pathlib.Path, str]:
    """By source file, relative to the repository."""
    listed = json.loads(COMMANDS.read_text())
    return {pathlib.Path(c["file"]).relative_to(ROOT): c["command"] for c in listed
            if pathlib.Path(c["file"]).is_relative_to(ROOT) and not pathlib.Path(c["file"]).is_relative_to(BUILD)}


@functools.cache
def link_command() -> list[str]:
    """Of the program, as words."""
    listed = subprocess.run(["ninja", "-C", str(BUILD), "-t", "commands", "cli/foreplan"], check=True,
                            capture_output=True, text=True).stdout
    line = listed.splitlines()[-1]
    return shlex.split(line.removeprefix(": && ").split(" && ")[0])


class Clone:
    """A copy of the sources, and what was changed in it."""

    def __init__(self, folder: pathlib.Path):
        self.folder = folder / "foreplan"
        shutil.copytree(ROOT, self.folder, ignore=shutil.ignore_patterns("build", ".git", "__pycache__"))
        self.sources: list[pathlib.Path] = []  # changed, relative

    def apply(self, kind: str, text: str) -> None:
        """One block of the page."""
        if kind == "cpp":
            name, _, rest = text.removeprefix("// ").partition("\n")
            assert not (self.folder / name).exists(), name
            (self.folder / name).write_text(rest)
        else:
            name, _, rest = text.partition("\n")
            lines = rest.splitlines()
            old = "".join(f"{line[1:]}\n" for line in lines if line[:1] in " -")
            new = "".join(f"{line[1:]}\n" for line in lines if line[:1] in " +")
            before = (self.folder / name).read_text()
            assert before.count(old) == 1, f"{name} has this {before.count(old)} times:\n{old}"
            (self.folder / name).write_text(before.replace(old, new))
        if name.endswith(".cpp") and pathlib.Path(name) not in self.sources:
            self.sources.append(pathlib.Path(name))

    def compiled(self, source: pathlib.Path,
                 check_only: bool = False) -> tuple[pathlib.Path, subprocess.CompletedProcess]:
        """The object of a source, with the flags of the build for it, or for the nearest of its neighbours.

        `check_only`: no object, the compiler's opinion of it.
        """
        def shared(other: pathlib.Path) -> int:
            return len(os.path.commonprefix([source.parts, other.parts]))

        nearest = source if source in compile_commands() else max(compile_commands(), key=shared)
        command = shlex.split(compile_commands()[nearest].replace(str(ROOT) + " ", f"{self.folder} "))
        words, at = [], 0
        while at < len(command):
            if command[at] in ("-o", "-c"):
                at += 1
            elif command[at] != "-Winvalid-pch" and not command[at].endswith("ccache"):
                words.append(command[at])
            at += 1
        target = self.folder / f"{source.name}.o"
        words += ["-fsyntax-only"] if check_only else ["-O0", "-c", "-o", str(target)]
        words.append(str(self.folder / source))
        return target, subprocess.run(words, cwd=BUILD, check=False, capture_output=True, text=True)

    def linked(self, sources: list[pathlib.Path], test: bool = False) -> pathlib.Path:
        """A program of these and the rest of the build; `test`: one that runs the tests among them."""
        objects = []
        for source in sources:
            target, done = self.compiled(source)
            assert done.returncode == 0, done.stderr
            objects.append(str(target))
        words = link_command()
        first = next(i for i, word in enumerate(words) if word.endswith(".o"))
        program = self.folder / "program"
        rest = [word for word in words[first:] if not (test and word.endswith(".o"))]
        rest[rest.index("-o") + 1] = str(program)
        gtest = ["-lgtest_main", "-lgtest"] if test else []
        subprocess.run([*words[:first], *objects, *rest, *gtest], cwd=BUILD, check=True)
        return program


@unittest.skipUnless(COMMANDS.exists() and shutil.which("ninja"), "needs the folder of a build with Ninja")
class AddingInCpp(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.clone = Clone(pathlib.Path(holder.name))

    def follow(self, title: str) -> list[subprocess.CompletedProcess]:
        """Does what the example says; the outcomes of its commands."""
        commands = []
        for kind, text in blocks(title):
            if kind == "sh":
                commands += text.splitlines()
            else:
                self.clone.apply(kind, text)
        program = self.clone.linked(self.clone.sources)
        return [self.run_program(program, shlex.split(line)[1:]) for line in commands]

    def run_program(self, program: pathlib.Path, words: list[str]) -> subprocess.CompletedProcess:
        return subprocess.run([program, *words], cwd=self.clone.folder, check=False, capture_output=True, text=True,
                              env={**os.environ, "FOREPLAN_DATA": str(ROOT)})

    def assert_listed(self, file: str, source: str) -> None:
        """The build lists the new source of the page."""
        self.assertIn(source, (self.clone.folder / file).read_text())

    def test_a_schedule(self):
        plain, early = self.follow("A schedule.")
        self.assertEqual((plain.returncode, early.returncode), (0, 0), plain.stderr + early.stderr)
        plain, early = json.loads(plain.stdout), json.loads(early.stdout)
        self.assertEqual(early["plan"]["schedule"], "early-1f1b")
        # Of 4 stages the first keeps 2 * 4 - 1 micro-batches where 1F1B keeps 4.
        kept = [answer["memory"]["activations_bytes"] for answer in (early, plain)]
        self.assertAlmostEqual(kept[0] / kept[1], 7 / 4, places=2)
        self.assertLessEqual(early["step_time_s"], plain["step_time_s"])
        self.assert_listed("simulator/CMakeLists.txt", "schedule/early_one_f_one_b.cpp")
        refused = self.run_program(self.clone.folder / "program", [
            "export", "--model", "llama2-7b", "--cluster", "1x8xA100-80", "--sequence-length", "4096 tokens",
            "--global-batch", "64 sequences", "--pp", "4", "--tp", "2", "--schedule", "early-1f1b", "--to", "megatron"])
        self.assertEqual(refused.returncode, 2)
        self.assertIn("not early-1f1b", refused.stderr)

    def test_an_exporter(self):
        done, = self.follow("An exporter.")
        self.assertEqual(done.returncode, 0, done.stderr)
        told = subprocess.run(["sh", "-c", ". ./plan.sh; echo $TP $PP $DP"], cwd=self.clone.folder, check=True,
                              capture_output=True, text=True)
        self.assertEqual(told.stdout, "2 2 2\n")
        self.assert_listed("scenarios/CMakeLists.txt", "export/shell.cpp")
        program = self.clone.folder / "program"
        self.assertIn("shell (variables for a shell script)", self.run_program(program, ["export", "--help"]).stdout)
        words = ["export", "--model", "llama2-7b", "--cluster", "1x8xA100-80", "--sequence-length", "4096 tokens",
                 "--global-batch", "64 sequences", "--pp", "2", "--vpp", "2", "--to", "shell"]
        refused = self.run_program(program, words)
        self.assertEqual((refused.returncode, refused.stdout), (2, ""))
        self.assertIn("the script has no virtual stages", refused.stderr)

    def run_tests(self, sources: list[pathlib.Path]) -> None:
        done = self.run_program(self.clone.linked(sources, test=True), [])
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("[  PASSED  ] 1 test", done.stdout)

    def test_an_operator(self):
        for kind, text in blocks("An operator."):
            self.clone.apply(kind, text)
        self.run_tests([*self.clone.sources, pathlib.Path("core/operator.cpp")])
        # What goes through all kinds compiles with the new one.
        _, done = self.clone.compiled(pathlib.Path("simulator/cost/calibrated.cpp"), check_only=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_collective(self):
        asked = [pathlib.Path("simulator/cost/calibrated.cpp"), pathlib.Path("harness/mpi/collectives.cpp")]
        asked = [source for source in asked if source in compile_commands()]  # without MPI there is none
        steps = blocks("A collective.")
        for kind, text in steps:
            if text.startswith("core/"):
                self.clone.apply(kind, text)
        for source in asked:  # the compiler says who has to think of it
            _, done = self.clone.compiled(source, check_only=True)
            self.assertRegex(done.stderr, "scan.* not handled in switch")
        for kind, text in steps:
            if not text.startswith("core/"):
                self.clone.apply(kind, text)
        for source in asked:
            _, done = self.clone.compiled(source, check_only=True)
            self.assertEqual(done.returncode, 0, done.stderr)
        self.run_tests([pathlib.Path("tests/unit/simulator/scan_test.cpp"),
                        pathlib.Path("simulator/cost/datasheet.cpp")])


if __name__ == "__main__":
    unittest.main()
