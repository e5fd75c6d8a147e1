"""The notebooks: executed from the first cell to the last, and kept in the repository without outputs."""

import pathlib
import unittest

import nbformat
from nbclient import NotebookClient

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "notebooks"
FILES = sorted(FOLDER.glob("*.ipynb"))
LONGEST_CELL_S = 900


def outputs(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    return [output for cell in notebook.cells for output in cell.get("outputs", [])]


class Executed(unittest.TestCase):
    """One method per notebook, so that each is a test of its own: `Executed.test_01_measurements_and_roofline`."""

    def execute(self, file: pathlib.Path) -> None:
        notebook = nbformat.read(file, as_version=4)
        # Raises with cell and traceback where a cell fails.
        NotebookClient(notebook, timeout=LONGEST_CELL_S, kernel_name="python3",
                       resources={"metadata": {"path": str(FOLDER)}}).execute()
        told = outputs(notebook)
        warnings = [output.text for output in told if output.get("name") == "stderr"]
        self.assertEqual(warnings, [])
        pictures = [output for output in told if "image/png" in output.get("data", {})]
        self.assertGreaterEqual(len(pictures), 2)
        # The last section is the answer, in a sentence with numbers, or in text where it needs none.
        last = [cell for cell in notebook.cells if cell.cell_type == "markdown"][-1]
        self.assertTrue(last.source.startswith("## Answer"), last.source)


for path in FILES:
    def method(self: Executed, file: pathlib.Path = path) -> None:
        self.execute(file)

    setattr(Executed, f"test_{path.stem.replace('-', '_')}", method)


class InTheRepository(unittest.TestCase):
    def test_there_is_one_for_each_subject(self):
        self.assertGreaterEqual(len(FILES), 7)
        for file in FILES:
            first = nbformat.read(file, as_version=4).cells[0]
            self.assertEqual(first.cell_type, "markdown", file.name)
            self.assertTrue(first.source.startswith("# "), file.name)

    def test_outputs_are_cleared(self):
        for file in FILES:
            notebook = nbformat.read(file, as_version=4)
            nbformat.validate(notebook)
            self.assertEqual(outputs(notebook), [], file.name)
            counts = [cell.execution_count for cell in notebook.cells if cell.cell_type == "code"]
            self.assertEqual(set(counts), {None}, file.name)


if __name__ == "__main__":
    unittest.main()
