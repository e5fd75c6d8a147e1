"""scripts/check_includes.py accepts a tree in order and names each kind of offence."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "check_includes.py"


def check(files):
    """Exit code and output for a tree with these files (path -> text)."""
    with tempfile.TemporaryDirectory() as root:
        for path, text in files.items():
            place = Path(root) / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)
        done = subprocess.run([sys.executable, SCRIPT, root], capture_output=True, text=True)
    return done.returncode, done.stdout


class CheckIncludes(unittest.TestCase):
    def assert_offence(self, files, expected):
        code, output = check(files)
        self.assertEqual(code, 1, output)
        self.assertEqual(output.strip(), expected)

    def test_downward_includes_are_accepted(self):
        code, output = check(
            {
                "core/a.hpp": "#pragma once\n#include <vector>\n#include <fmt/core.h>\n",
                "simulator/plan/p.hpp": '#pragma once\n#include "core/a.hpp"\n',
                "simulator/step/s.cpp": '#include "simulator/plan/p.hpp"\n',
                "simulator/simulator.hpp": '#pragma once\n#include "simulator/step/s.hpp"\n',
                "cli/main.cpp": '#include <CLI/CLI.hpp>\n#include "simulator/simulator.hpp"\n',
                "results/store.cpp": "#include <sqlite3.h>\n",
            }
        )
        self.assertEqual((code, output), (0, "6 files: includes in order\n"))

    def test_upward_include_between_folders_is_an_offence(self):
        self.assert_offence(
            {"core/a.cpp": '\n#include "models/m.hpp"\n'},
            "core/a.cpp:2: core includes models/m.hpp; it may include nothing of ours",
        )

    def test_harness_and_simulator_do_not_meet(self):
        self.assert_offence(
            {"harness/h.cpp": '#include "simulator/plan/p.hpp"\n'},
            "harness/h.cpp:1: harness includes simulator/plan/p.hpp; "
            "it may include core, kernels, results",
        )

    def test_later_room_of_the_simulator_is_an_offence(self):
        self.assert_offence(
            {"simulator/memory/m.cpp": '#include "simulator/schedule/s.hpp"\n'},
            "simulator/memory/m.cpp:1: simulator/memory includes simulator/schedule, "
            "which comes after it",
        )

    def test_room_does_not_include_the_door(self):
        self.assert_offence(
            {"simulator/plan/p.cpp": '#include "simulator/simulator.hpp"\n'},
            "simulator/plan/p.cpp:1: simulator/plan includes simulator/simulator.hpp, "
            "the door over all rooms",
        )

    def test_unknown_room_is_an_offence(self):
        self.assert_offence(
            {"simulator/magic/m.cpp": "\n"},
            "simulator/magic: not in the order of rooms in scripts/check_includes.py",
        )

    def test_unknown_top_folder_is_an_offence(self):
        self.assert_offence(
            {"core/a.cpp": "\n", "oracle/CMakeLists.txt": "\n"},
            "oracle: not in the table of folders in scripts/check_includes.py",
        )

    def test_folder_without_a_meaning_is_an_offence(self):
        self.assert_offence(
            {"models/utils/u.cpp": "\n"}, "models/utils: a folder is named for what it holds"
        )

    def test_header_without_pragma_once_is_an_offence(self):
        self.assert_offence({"core/a.hpp": "int x;\n"}, "core/a.hpp:1: no #pragma once")

    def test_path_that_does_not_start_at_the_root_is_an_offence(self):
        self.assert_offence(
            {"core/a.cpp": '#include "b.hpp"\n'},
            'core/a.cpp:1: "b.hpp" does not start with a top folder; write the path from the root',
        )

    def test_own_header_in_angle_brackets_is_an_offence(self):
        self.assert_offence(
            {"models/a.cpp": "#include <core/b.hpp>\n"},
            'models/a.cpp:1: <core/b.hpp> is our own; write "core/b.hpp"',
        )

    def test_sql_outside_the_store_is_an_offence(self):
        self.assert_offence(
            {"cli/a.cpp": "#include <sqlite3.h>\n"},
            "cli/a.cpp:1: sqlite3.h may be included in results, tests only",
        )

    def test_all_offences_are_reported_at_once(self):
        code, output = check({"core/a.hpp": '#include "cli/c.hpp"\n', "core/b.hpp": "\n"})
        self.assertEqual((code, len(output.splitlines())), (1, 3))

    def test_empty_tree_is_not_in_order(self):
        self.assertEqual(check({})[0], 1)


if __name__ == "__main__":
    unittest.main()
