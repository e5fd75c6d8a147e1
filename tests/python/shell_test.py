"""What the program is like at a shell: completion, progress on a terminal, silence in a pipe."""

import os
import pathlib
import pty
import re
import select
import shutil
import subprocess
import tempfile
import time
import unittest

PROGRAM = os.environ["FOREPLAN_PROGRAM"]
ROOT = pathlib.Path(os.environ["FOREPLAN_DATA"])
ENVIRONMENT = {"PATH": f"{pathlib.Path(PROGRAM).parent}:/usr/bin:/bin", "FOREPLAN_DATA": str(ROOT), "TERM": "xterm",
               "HOME": "/nonexistent"}


def run(*arguments):
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, check=True, env=ENVIRONMENT).stdout


def verbs():
    help_text = run("--help")
    listed = help_text[help_text.index("Subcommands:"):help_text.index("Start here:")]
    return re.findall(r"^  ([a-z]+) ", listed, re.MULTILINE)


def options(verb):
    listed = re.findall(r"^  (-\S+)", run(verb, "--help"), re.MULTILINE)
    return {flag for flags in listed for flag in flags.split(",") if flag.startswith("--")}


def plain(text):
    """Without what moves the cursor or styles text."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|\x08", "", text)


def has_terminals():
    """A system without pseudo-terminals (a bare root without /dev/pts) cannot show what a person sees."""
    try:
        for file in pty.openpty():
            os.close(file)
    except OSError:
        return False
    return True


class Terminal:
    """A program on a terminal of its own."""

    def __init__(self, command, environment, folder):
        self.process, self.file = pty.fork()
        if self.process == 0:
            os.chdir(folder)
            os.execve(command[0], command, environment)
        self.text = ""

    def type(self, text):
        os.write(self.file, text.encode())

    def read_until(self, pattern, seconds=180):
        """Reads on, styles left aside; an assertion fails if the pattern does not come."""
        end = time.monotonic() + seconds
        while not re.search(pattern, plain(self.text)):
            if time.monotonic() > end or not select.select([self.file], [], [], end - time.monotonic())[0]:
                raise AssertionError(f"no {pattern!r} in {self.text!r}")
            try:
                self.text += os.read(self.file, 65536).decode(errors="replace")
            except OSError:  # the program has ended
                break
        if not re.search(pattern, plain(self.text)):
            raise AssertionError(f"no {pattern!r} in {self.text!r}")
        self.text = ""

    def read_all(self):
        while True:
            try:
                data = os.read(self.file, 65536)
            except OSError:
                break
            if not data:
                break
            self.text += data.decode(errors="replace")
        os.waitpid(self.process, 0)
        os.close(self.file)
        return self.text

    def end(self):
        os.close(self.file)
        os.kill(self.process, 9)
        os.waitpid(self.process, 0)


class BashCompletion(unittest.TestCase):
    def complete(self, *words):
        script = f"source <({PROGRAM} completion bash)\nCOMP_WORDS=(\"$@\"); COMP_CWORD=$(($#-1))\n" \
                 "_foreplan 2>/dev/null; printf '%s\\n' \"${COMPREPLY[@]}\""
        done = subprocess.run(["/bin/bash", "--norc", "-c", script, "bash", "foreplan", *words], capture_output=True,
                              text=True, check=True, env=ENVIRONMENT, cwd=ROOT)
        self.assertEqual(done.stderr, "")
        return [line for line in done.stdout.split("\n") if line]

    def test_verbs(self):
        self.assertEqual(self.complete("re"), ["recommend", "report"])
        self.assertLessEqual(set(verbs()), set(self.complete("")))

    def test_all_options_of_every_verb(self):
        for verb in verbs():
            with self.subTest(verb=verb):
                self.assertEqual(set(self.complete(verb, "--")), options(verb))

    def test_names_that_the_program_lists(self):
        models = set(re.findall(r"^  (\S+)", run("models"), re.MULTILINE))
        completed = self.complete("recommend", "--model", "")
        self.assertGreater(len(completed), 100)
        self.assertLessEqual(set(completed), models)
        self.assertIn("H200-SXM-141GB", self.complete("calibrate", "--device", "H2"))
        self.assertEqual(self.complete("sweep", "--keep", ""), ["best", "all"])
        self.assertEqual(self.complete("completion", "z"), ["zsh"])

    def test_the_last_item_of_a_list(self):
        self.assertEqual(self.complete("recommend", "--precision", "bf16,fp1"), ["bf16,fp16"])
        self.assertEqual(self.complete("recommend", "--schedule", "1f1b,gp"), ["1f1b,gpipe"])

    def test_a_value_behind_an_equals_sign(self):
        self.assertEqual(self.complete("sweep", "--keep", "=", "al"), ["all"])
        self.assertEqual(self.complete("sweep", "--keep", "="), ["best", "all"])

    def test_files(self):
        self.assertEqual(self.complete("recommend", "scenarios/llama2"), ["scenarios/llama2-7b-8xrtx4090.yaml"])
        self.assertEqual(self.complete("show", "--db", "READ"), ["README.md"])
        self.assertEqual(self.complete("recommend", "--tp", ""), [])


@unittest.skipIf(shutil.which("zsh") is None, "no zsh here: scripts/setup.sh test")
@unittest.skipUnless(has_terminals(), "no pseudo-terminals here")
class ZshCompletion(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.script = pathlib.Path(folder.name) / "_foreplan"
        self.script.write_text(run("completion", "zsh"))
        self.shell = Terminal(["/bin/zsh", "-f", "-i"], {**ENVIRONMENT, "ZDOTDIR": folder.name, "PS1": "> "}, ROOT)
        self.addCleanup(self.shell.end)
        self.shell.type(f"unsetopt zle_bracketed_paste; fpath=({folder.name} $fpath); autoload -U compinit;"
                        f" compinit -u -d {folder.name}/dump; unsetopt list_ambiguous auto_menu; echo rea''dy\n")
        self.shell.read_until("ready\r\n")

    def completed(self, typed, wanted):
        self.shell.type(f"{typed}\t")
        self.shell.read_until(re.escape(wanted))
        self.shell.type("\x15")  # clears the line

    def test_is_sound(self):
        subprocess.run(["/bin/zsh", "-n", self.script], check=True)

    def test_verbs_options_and_values(self):
        self.completed("foreplan recomm", "foreplan recommend ")
        self.completed("foreplan show --sce", "foreplan show --scenario ")
        self.completed("foreplan show --plans fro", "--plans front")
        self.completed("foreplan recommend --model llama3-7", "--model llama3-70b")
        self.completed("foreplan recommend --precision bf16,fp1", "--precision bf16,fp16")
        self.completed("foreplan recommend scenarios/llama2", "scenarios/llama2-7b-8xrtx4090.yaml")


@unittest.skipUnless(has_terminals(), "no pseudo-terminals here")
class Progress(unittest.TestCase):
    """A sweep, which is quick; the wide one is long enough for a bar wherever it runs."""

    WIDE = ["--schedule", "1f1b,zb-h1", "--pp", "1,2,4,8,16,32", "--ep", "1,2,4,8,16,32,64", "--micro-batch", "1,2,4,8"]

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.command = [PROGRAM, "sweep", str(ROOT / "scenarios" / "deepseek-v3-2048xh800.yaml"), "--threads", "1"]

    def on_terminal(self, *options, **environment):
        return Terminal([*self.command, *options], {**ENVIRONMENT, **environment}, self.folder).read_all()

    def test_a_bar_with_what_is_left_is_drawn_and_wiped_on_a_terminal(self):
        text = self.on_terminal(*self.WIDE)
        bars = re.findall(r"\r\x1b\[Ksweeping \[[#.]{24}\] +\d+ %(?:, [\d.]+ (?:s|min|h) left)?", text)
        self.assertGreater(len(bars), 1, text[:2000])
        self.assertIn(", ", bars[-1])
        answer = text[text.rindex("\r\x1b[K"):]
        self.assertIn("Best plans", answer)

    def test_a_terminal_that_cannot_rewrite_lines_shows_none(self):
        self.assertNotIn("sweeping [", self.on_terminal(*self.WIDE, TERM="dumb"))

    def test_titles_are_styled_on_a_terminal_unless_no_color_says_otherwise(self):
        self.assertIn("\x1b[1m", self.on_terminal(NO_COLOR=""))
        self.assertNotRegex(self.on_terminal(NO_COLOR="1", TERM="dumb"), "\x1b")

    def test_a_pipe_gets_the_answer_alone(self):
        done = subprocess.run(self.command, capture_output=True, text=True, check=True, env=ENVIRONMENT,
                              cwd=self.folder)
        self.assertEqual(done.stderr, "")
        self.assertNotIn("\x1b", done.stdout)


if __name__ == "__main__":
    unittest.main()
