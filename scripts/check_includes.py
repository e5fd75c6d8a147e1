#!/usr/bin/env python3
"""Checks that the folders include each other in one direction only, and a few rules of the house.

    scripts/check_includes.py [ROOT]

Prints one line per offence, `file:line: what`, and exits with 1 if there is any. The rules are the
tables below; the program uses nothing but Python's own library.
"""

import re
import sys
from pathlib import Path

# What the files of a top folder may include besides their own folder.
MAY_INCLUDE = {
    "core": set(),
    "models": {"core"},
    "kernels": {"core"},
    "results": {"core"},
    "harness": {"core", "kernels", "results"},
    "simulator": {"core", "models", "results"},
    "scenarios": {"core", "models", "results", "simulator"},
    "cli": {"core", "models", "kernels", "results", "harness", "simulator", "scenarios"},
    "python": {"core", "models", "kernels", "results", "harness", "simulator", "scenarios"},
    "tests": {"core", "models", "kernels", "results", "harness", "simulator", "scenarios"},
}

# The rooms of simulator/: each may include those named before it. A file that lies in simulator/
# itself is a door over all of them, and no room may include it.
SIMULATOR_ROOMS = [
    "plan",
    "calibration",
    "cost",
    "memory",
    "schedule",
    "frameworks",
    "step",
    "search",
    "serving",
]

# Foreign headers that belong to few folders.
FOREIGN_ONLY_IN = {
    "sqlite3.h": {"results", "tests"},
    "CLI/CLI.hpp": {"cli", "harness"},
}

# Headers that the build writes; they lie in no folder of the tree.
GENERATED = {"version_build.hpp"}

# Names that say nothing about what a folder holds.
BANNED_FOLDERS = {"utils", "util", "common", "misc", "helper", "helpers"}

SOURCE_SUFFIXES = {".cpp", ".hpp", ".cu", ".cuh", ".h"}
HEADER_SUFFIXES = {".hpp", ".cuh", ".h"}
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')


def room_of(path):
    """The room of a path below simulator/, None for a file in simulator/ itself."""
    return path.parts[1] if len(path.parts) > 2 else None


def check_rooms(source, target):
    """What is wrong with an include from one file of simulator/ to another, or None."""
    source_room, target_room = room_of(source), room_of(target)
    if source_room is None or source_room == target_room:
        return None
    if target_room is None:
        return f"simulator/{source_room} includes {target}, the door over all rooms"
    if target_room not in SIMULATOR_ROOMS:
        return None  # reported once, as an unknown folder
    if source_room in SIMULATOR_ROOMS and (
        SIMULATOR_ROOMS.index(target_room) > SIMULATOR_ROOMS.index(source_room)
    ):
        return f"simulator/{source_room} includes simulator/{target_room}, which comes after it"
    return None


def check_include(source, bracket, included):
    """What is wrong with one include line of `source` (a path relative to the root), or None."""
    folder = source.parts[0]
    target = Path(included)
    if included in FOREIGN_ONLY_IN and folder not in FOREIGN_ONLY_IN[included]:
        allowed = ", ".join(sorted(FOREIGN_ONLY_IN[included]))
        return f"{included} may be included in {allowed} only"
    if target.parts[0] not in MAY_INCLUDE or len(target.parts) < 2:
        if bracket == '"' and included not in GENERATED:
            return f'"{included}" does not start with a top folder; write the path from the root'
        return None
    if bracket == "<":
        return f'<{included}> is our own; write "{included}"'
    if target.parts[0] == folder:
        return check_rooms(source, target) if folder == "simulator" else None
    if target.parts[0] not in MAY_INCLUDE[folder]:
        allowed = ", ".join(sorted(MAY_INCLUDE[folder])) or "nothing of ours"
        return f"{folder} includes {included}; it may include {allowed}"
    return None


def check_file(root, source):
    """All offences of one file, as texts `file:line: what`."""
    lines = (root / source).read_text(encoding="utf-8", errors="replace").splitlines()
    offences = []
    if source.suffix in HEADER_SUFFIXES and not any(l.strip() == "#pragma once" for l in lines):
        offences.append(f"{source}:1: no #pragma once")
    for number, line in enumerate(lines, start=1):
        if match := INCLUDE.match(line):
            if what := check_include(source, match[1], match[2]):
                offences.append(f"{source}:{number}: {what}")
    return offences


def check_folders(root, folder):
    """Offences in the names of a top folder and all folders below it."""
    offences = []
    for path in [root / folder, *sorted((root / folder).rglob("*"))]:
        if path.is_dir() and path.name.lower() in BANNED_FOLDERS:
            offences.append(f"{path.relative_to(root)}: a folder is named for what it holds")
    if folder == "simulator":
        for path in sorted((root / folder).iterdir()):
            if path.is_dir() and path.name not in SIMULATOR_ROOMS:
                offences.append(
                    f"simulator/{path.name}: not in the order of rooms in scripts/check_includes.py"
                )
    return offences


def check_tree(root):
    """All offences below `root`, and the number of files that were read."""
    offences, files = [], 0
    for path in sorted(root.iterdir()):
        if path.name in MAY_INCLUDE or not (path / "CMakeLists.txt").is_file():
            continue
        offences.append(f"{path.name}: not in the table of folders in scripts/check_includes.py")
    for folder in MAY_INCLUDE:
        if not (root / folder).is_dir():
            continue
        offences += check_folders(root, folder)
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in SOURCE_SUFFIXES and path.is_file():
                offences += check_file(root, path.relative_to(root))
                files += 1
    return offences, files


def main(arguments):
    root = Path(arguments[0] if arguments else Path(__file__).parent.parent).resolve()
    offences, files = check_tree(root)
    for offence in offences:
        print(offence)
    if files == 0:
        print(f"no source file below {root}")
        return 1
    if not offences:
        print(f"{files} files: includes in order")
    return 1 if offences else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
