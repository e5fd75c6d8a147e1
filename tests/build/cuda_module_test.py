"""cmake/Cuda.cmake with CUDA present, absent, broken and off PATH, in a project of a few lines."""

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

MODULES = Path(__file__).resolve().parents[2] / "cmake"
CMAKE = os.environ["FOREPLAN_CMAKE"]
CXX = os.environ["FOREPLAN_CXX"]
NVCC = os.environ["FOREPLAN_NVCC"]

PROJECT = """
cmake_minimum_required(VERSION {minimum})
project(probe LANGUAGES CXX)
list(APPEND CMAKE_MODULE_PATH "{modules}")
include(Cuda)
{body}
foreplan_print_summary()
"""

# The generate step is where CMake 3.25 stops at C++20 in CUDA.
CUDA_TARGET = """
if(TARGET foreplan::cuda)
  file(WRITE "${CMAKE_CURRENT_BINARY_DIR}/probe.cu" "int main() {}")
  add_executable(probe "${CMAKE_CURRENT_BINARY_DIR}/probe.cu")
  target_link_libraries(probe PRIVATE foreplan::cuda)
endif()
"""


class Probe(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def path_without_nvcc(self):
        """A PATH with what a C++ build and nvcc need, but no nvcc."""
        tools = self.folder / "tools"
        tools.mkdir()
        for name in "as ld ar ranlib nm gcc g++ ninja sh cat rm dirname".split():
            if found := shutil.which(name):
                (tools / name).symlink_to(found)
        return str(tools)

    def configure(self, *arguments, body=CUDA_TARGET, minimum="3.24...3.31", path=None):
        """Configures the probe; its exit code and all it printed."""
        text = PROJECT.format(minimum=minimum, modules=MODULES, body=body)
        (self.folder / "CMakeLists.txt").write_text(text)
        environment = {
            name: value
            for name, value in os.environ.items()
            if name not in ("CUDACXX", "CUDA_HOME", "CUDA_PATH", "VIRTUAL_ENV", "CONDA_PREFIX")
        }
        if path is not None:
            environment["PATH"] = path
        done = subprocess.run(
            [CMAKE, "-G", "Ninja", "-S", self.folder, "-B", self.folder / "build"]
            + [f"-DCMAKE_CXX_COMPILER={CXX}", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
        )
        return done.returncode, done.stdout

    def assert_absent(self, result, reason):
        code, output = result
        self.assertEqual(code, 0, output)
        self.assertRegex(output, r"CUDA: +absent; consequence: no GPU measurements")
        self.assertIn(reason, output)


class CudaPresent(Probe):
    def test_target_is_defined_and_cxx20_generates_for_the_default_architectures(self):
        code, output = self.configure(f"-DCMAKE_CUDA_COMPILER={NVCC}", "-DFOREPLAN_CUDA=ON")
        self.assertEqual(code, 0, output)
        self.assertRegex(output, r"CUDA: +\d+\.\d+\.\d+ \(.*nvcc\), targets 80-real;90a-real")
        rules = (self.folder / "build" / "build.ninja").read_text()
        self.assertIn("-std=c++20", rules)
        self.assertIn("arch=compute_90a,code=[sm_90a]", rules)
        self.assertNotIn("-arch=sm_90a", rules)

    def test_floor_of_325_is_refused_where_it_would_break_on_an_unrepaired_cmake(self):
        version = subprocess.run([CMAKE, "--version"], capture_output=True, text=True).stdout
        if "version 3.25" not in version:
            self.skipTest("only CMake 3.25 has the fault")
        code, output = self.configure(minimum="3.25")
        self.assertNotEqual(code, 0)
        self.assertIn("must stay below 3.25", output)


class CudaOffPath(Probe):
    def test_toolkit_in_a_usual_root_is_found(self):
        # The folder of a toolkit holds nvcc and its include/; a wrapper on PATH is not one.
        verbose = subprocess.run([NVCC, "-v", "-c", "none.cu"], capture_output=True, text=True).stderr
        top = next(l.split("TOP=")[1] for l in verbose.splitlines() if l.startswith("#$ TOP="))
        code, output = self.configure(
            f"-DFOREPLAN_CUDA_ROOTS={Path(top).resolve()}",
            "-DFOREPLAN_CUDA_WHEELS=",
            "-DFOREPLAN_CUDA=ON",
            path=self.path_without_nvcc(),
        )
        self.assertEqual(code, 0, output)
        self.assertRegex(output, r"CUDA: +\d+\.\d+\.\d+ ")


class CudaAbsent(Probe):
    def hidden(self, *arguments):
        return self.configure(
            "-DFOREPLAN_CUDA_ROOTS=", "-DFOREPLAN_CUDA_WHEELS=", *arguments, path=self.tools
        )

    def setUp(self):
        super().setUp()
        self.tools = self.path_without_nvcc()

    def fake_nvcc(self, text):
        compiler = self.folder / "nvcc"
        compiler.write_text("#!/bin/sh\n" + text)
        compiler.chmod(0o755)
        return compiler

    def test_no_compiler_is_a_row_in_the_summary(self):
        self.assert_absent(self.hidden(), "no nvcc on PATH")

    def test_no_compiler_is_an_error_where_cuda_was_demanded(self):
        code, output = self.hidden("-DFOREPLAN_CUDA=ON")
        self.assertNotEqual(code, 0)
        self.assertIn("FOREPLAN_CUDA=ON, but no CUDA: no nvcc on PATH", output)

    def test_switched_off_means_absent_even_with_a_compiler(self):
        arguments = [f"-DCMAKE_CUDA_COMPILER={NVCC}"] if NVCC else []
        self.assert_absent(self.configure("-DFOREPLAN_CUDA=OFF", *arguments), "(switched off)")

    def test_compiler_that_does_not_run_is_absent(self):
        nvcc = self.fake_nvcc("exit 1\n")
        self.assert_absent(
            self.configure(f"-DCMAKE_CUDA_COMPILER={nvcc}"), f"{nvcc} does not run"
        )

    def test_compiler_too_old_for_cxx20_is_absent(self):
        nvcc = self.fake_nvcc("echo 'Cuda compilation tools, release 11.8, V11.8.89'\n")
        self.assert_absent(
            self.configure(f"-DCMAKE_CUDA_COMPILER={nvcc}"), f"{nvcc} is 11.8, C++20 needs 12.0"
        )

    def test_compiler_that_cannot_compile_is_absent_and_seen_again_once_repaired(self):
        root = self.folder / "toolkit"
        (root / "bin").mkdir(parents=True)
        nvcc = self.fake_nvcc('[ "$1" = --version ] && echo "release 13.0, V13.0.88"\n')
        nvcc.rename(root / "bin" / "nvcc")
        arguments = [f"-DFOREPLAN_CUDA_ROOTS={root}", "-DFOREPLAN_CUDA_WHEELS="]
        self.assert_absent(
            self.configure(*arguments, path=self.tools), "cannot compile a test program"
        )
        if NVCC:
            (root / "bin" / "nvcc").write_text(f'#!/bin/sh\nexec "{NVCC}" "$@"\n')
            code, output = self.configure(*arguments, path=os.environ["PATH"])
            self.assertEqual(code, 0, output)
            self.assertRegex(output, r"CUDA: +\d+\.\d+\.\d+ ")


class CudaHeaders(Probe):
    HEADER = "#define PROBE_MAJOR 2\n#define PROBE_MINOR 28\n#define PROBE_PATCHLEVEL 9\n"

    def header_in(self, folder):
        place = self.folder / folder
        place.mkdir(parents=True)
        (place / "probe_part.h").write_text(self.HEADER)
        return place

    def find_part(self):
        body = f"""
foreplan_find_cuda_part(part probe_part.h probe_part.h PROBE "nothing to probe"
                        TOOLKIT "{self.folder}/toolkit/include")
if(TARGET foreplan::part)
  get_target_property(include foreplan::part INTERFACE_INCLUDE_DIRECTORIES)
  message(STATUS "target includes ${{include}}")
endif()
"""
        code, output = self.configure(
            "-DFOREPLAN_CUDA=OFF", f"-DFOREPLAN_CUDA_WHEELS={self.folder}/nvidia", body=body
        )
        self.assertEqual(code, 0, output)
        return output

    def test_header_of_the_toolkit_wins_over_that_of_a_wheel(self):
        toolkit = self.header_in("toolkit/include")
        self.header_in("nvidia/probe/include")
        output = self.find_part()
        self.assertRegex(output, rf"part: +2\.28\.9 \({toolkit}\)")
        self.assertIn(f"target includes {toolkit}\n", output)

    def test_header_of_a_wheel_is_found_where_the_toolkit_has_none(self):
        wheel = self.header_in("nvidia/probe/include")
        output = self.find_part()
        self.assertRegex(output, rf"part: +2\.28\.9 \({wheel}\)")
        self.assertIn(f"target includes {wheel}\n", output)

    def test_header_that_is_nowhere_leaves_no_target_and_names_the_consequence(self):
        output = self.find_part()
        self.assertRegex(output, r"part: +absent; consequence: nothing to probe")
        self.assertNotIn("target includes", output)


if __name__ == "__main__":
    unittest.main()
