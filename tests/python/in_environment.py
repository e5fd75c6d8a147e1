"""Runs a test in a virtual environment of its own, made at the first call from requirements.txt.

    in_environment.py FOLDER TEST_FILE [ARGUMENTS...]

Where the packages cannot be had (no network), it says so in the words by which the test counts as skipped.
"""

import fcntl
import hashlib
import os
import pathlib
import subprocess
import sys

REQUIREMENTS = pathlib.Path(__file__).with_name("requirements.txt")


def environment(folder: pathlib.Path) -> pathlib.Path:
    """The interpreter of the environment; raises CalledProcessError where it cannot be made."""
    wanted = hashlib.sha256(REQUIREMENTS.read_bytes() + sys.version.encode()).hexdigest()
    python, stamp = folder / "bin" / "python", folder / "requirements.sha256"
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run side by side
        if not stamp.exists() or stamp.read_text() != wanted:
            quiet = {"check": True, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
            subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], **quiet)
            subprocess.run([str(python), "-m", "pip", "install", "--quiet", "--requirement", str(REQUIREMENTS)],
                           **quiet)
            stamp.write_text(wanted)
    return python


def main() -> None:
    folder, test = pathlib.Path(sys.argv[1]), sys.argv[2]
    try:
        python = environment(folder)
    except subprocess.CalledProcessError as failed:
        print(failed.stdout)
        print("the packages of requirements.txt cannot be installed here (no network?)\nOK (skipped=1)")
        return
    os.execv(python, [str(python), "-B", test, *sys.argv[3:]])


if __name__ == "__main__":
    main()
