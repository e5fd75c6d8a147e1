"""scripts/setup.sh against stand-ins of apt, dpkg, sudo and id: nothing is really installed."""

import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "setup.sh"

# Says of every package asked for that it is installed, except those listed in the file `missing`.
DPKG_QUERY = """
shift 3
for package in "$@"; do
  grep -qxF "$package" "{folder}/missing" || echo "installed $package"
done
exit 1
"""

# Writes its command line and what matters of its environment to the file `calls`.
APT_GET = """
echo "$DEBIAN_FRONTEND apt-get $*" >>"{folder}/calls"
case " $* " in *" install "*) {install} ;; esac
"""


class SetupScript(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.tools = self.folder / "tools"
        self.tools.mkdir()
        for name in "sh sed grep tail mktemp rm env true".split():
            (self.tools / name).symlink_to(shutil.which(name))
        self.stand_in("sleep", "exit 0")
        self.stand_in("dpkg-query", DPKG_QUERY)
        self.stand_in("apt-get", APT_GET.replace("{install}", "exit 0"))
        self.user(0)
        self.missing()

    def stand_in(self, name, text):
        tool = self.tools / name
        tool.write_text("#!/bin/sh\n" + text.replace("{folder}", str(self.folder)))
        tool.chmod(0o755)

    def user(self, number):
        self.stand_in("id", f"echo {number}")

    def missing(self, *packages):
        (self.folder / "missing").write_text("".join(p + "\n" for p in packages))

    def setup(self, *groups):
        """Runs the script; its exit code and what it said on standard error."""
        done = subprocess.run(
            ["/bin/sh", SCRIPT, *groups],
            capture_output=True,
            text=True,
            env={"PATH": str(self.tools)},
            stdin=subprocess.DEVNULL,
        )
        self.assertEqual(done.stdout, "")
        return done.returncode, done.stderr

    def calls(self):
        file = self.folder / "calls"
        return file.read_text().splitlines() if file.exists() else []

    def test_nothing_missing_means_nothing_done_or_said(self):
        self.assertEqual(self.setup(), (0, ""))
        self.assertEqual(self.calls(), [])

    def test_root_installs_just_what_is_missing_without_questions(self):
        self.missing("libfmt-dev", "ninja-build")
        code, said = self.setup("build")
        self.assertEqual(code, 0, said)
        self.assertEqual(said, "foreplan: installing with apt-get: ninja-build libfmt-dev\n")
        options = "noninteractive apt-get -q -o DPkg::Lock::Timeout=300"
        self.assertEqual(
            self.calls(),
            [
                f"{options} update",
                f"{options} install -y --no-install-recommends ninja-build libfmt-dev",
            ],
        )

    def test_build_group_does_not_ask_for_test_packages(self):
        self.missing("libgtest-dev")
        self.assertEqual(self.setup("build"), (0, ""))
        code, said = self.setup("build", "test")
        self.assertEqual((code, "libgtest-dev" in said), (0, True))

    def test_user_goes_through_sudo_that_needs_no_password(self):
        self.user(1000)
        self.missing("cmake")
        self.stand_in("sudo", 'echo "sudo $*" >>"{folder}/calls"; shift; exec "$@"')
        code, said = self.setup("build")
        self.assertEqual(code, 0, said)
        self.assertIn("sudo -n true", self.calls())
        self.assertIn("cmake", self.calls()[-1])

    def test_user_without_sudo_is_told_the_command(self):
        self.user(1000)
        self.missing("cmake", "libtbb-dev")
        code, said = self.setup("build")
        self.assertEqual(code, 3)
        self.assertIn("sudo apt-get install -y --no-install-recommends cmake libtbb-dev\n", said)
        self.assertEqual(self.calls(), [])

    def test_user_whose_sudo_asks_for_a_password_is_told_the_command(self):
        self.user(1000)
        self.missing("cmake")
        self.stand_in("sudo", "exit 1")
        code, said = self.setup("build")
        self.assertEqual(code, 3)
        self.assertIn("sudo apt-get install -y --no-install-recommends cmake\n", said)

    def test_failed_install_shows_why_and_is_not_repeated(self):
        self.missing("cmake")
        self.stand_in("apt-get", APT_GET.replace("{install}", "echo 'no such package'; exit 100"))
        code, said = self.setup("build")
        self.assertEqual(code, 3)
        self.assertIn("no such package\n", said)
        self.assertEqual(len(self.calls()), 2)

    def test_install_is_tried_again_while_another_apt_holds_the_lock(self):
        self.missing("cmake")
        locked = "echo 'E: Could not get lock /var/lib/apt/lists/lock'; exit 100"
        self.stand_in("apt-get", APT_GET.replace("{install}", locked))
        self.assertEqual(self.setup("build")[0], 3)
        self.assertEqual(len(self.calls()), 6)

    def test_machine_without_apt_is_told_what_must_be_there(self):
        (self.tools / "dpkg-query").unlink()
        code, said = self.setup("build")
        self.assertEqual(code, 0)
        self.assertIn("libyaml-cpp-dev", said)

    def test_unknown_group_is_bad_input(self):
        code, said = self.setup("kitchen")
        self.assertEqual(code, 2)
        self.assertEqual(
            said, "foreplan: unknown group 'kitchen'; groups: build, python, host, test, lint, fuzz, browser\n")


if __name__ == "__main__":
    unittest.main()
