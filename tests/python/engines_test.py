"""Sweeps on engines: the rows of the local sweep, also when a worker is killed in the middle."""

import importlib.util
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

import foreplan

ROOT = pathlib.Path(__file__).resolve().parents[2]
LLAMA = str(ROOT / "scenarios" / "llama3-70b-64xh100.yaml")
SPACE = {"tp": [2, 4, 8]}


def rows(database: str):
    store = foreplan.Store(database)
    run, = store.runs()
    counts = (run.status, run.plans_enumerated, run.plans_scored, run.plans_feasible)
    return counts, store.plans(1, "all"), store.histogram(1)


class OnEngines(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls._folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls._folder.cleanup)
        cls.folder = cls._folder.name
        cls.local = f"{cls.folder}/local.db"
        foreplan.sweep(LLAMA, **SPACE, keep="all", database=cls.local)

    def database(self) -> str:
        return f"{self.folder}/{self.id()}.db"

    def assert_same_rows(self, database: str) -> None:
        # Not assertEqual: megabytes of text would be printed.
        self.assertTrue(rows(database) == rows(self.local))


class LocalProcesses(OnEngines):
    def test_same_rows_with_progress_and_counts(self):
        seen = []
        outcome = foreplan.sweep(LLAMA, **SPACE, keep="all", database=self.database(), engine=foreplan.Processes(2),
                                 progress=lambda done, total: seen.append((done, total)))
        self.assert_same_rows(self.database())
        self.assertEqual(seen, [(n + 1, len(seen)) for n in range(len(seen))])
        self.assertEqual(len(seen), 8)
        self.assertEqual(outcome.plans_scored, rows(self.local)[0][2])
        self.assertEqual((outcome.complete, outcome.resumed_chunks), (True, 0))

    def test_a_killed_process_is_tried_again(self):
        # Each process kills itself at its first hook call, once per part: the file remembers.
        hooks = pathlib.Path(self.folder) / "deadly.py"
        hooks.write_text("import os, pathlib, signal\n"
                         f"mark = pathlib.Path({self.folder!r}) / 'killed'\n"
                         "def on_plan(plans):\n"
                         "    if not mark.exists():\n"
                         "        mark.touch()\n"
                         "        os.kill(os.getpid(), signal.SIGKILL)\n")
        local = f"{self.folder}/hooked.db"
        (pathlib.Path(self.folder) / "killed").touch()
        foreplan.sweep(LLAMA, **SPACE, keep="all", database=local, hooks=hooks)
        (pathlib.Path(self.folder) / "killed").unlink()
        foreplan.sweep(LLAMA, **SPACE, keep="all", database=self.database(), hooks=hooks, engine="processes")
        self.assertTrue((pathlib.Path(self.folder) / "killed").exists())
        self.assertTrue(rows(self.database()) == rows(local))

    def test_a_part_that_always_dies_ends_the_sweep_and_what_was_done_is_kept(self):
        hooks = pathlib.Path(self.folder) / "mortal.py"
        hooks.write_text("import os, signal\n"
                         "def on_plan(plans):\n"
                         "    if (plans['tp'] == 8).any(): os.kill(os.getpid(), signal.SIGKILL)\n")
        with self.assertRaisesRegex(RuntimeError, r"the process of shard \d+/\d+ died 2 times"):
            foreplan.sweep(LLAMA, **SPACE, database=self.database(), hooks=hooks, retries=1,
                           engine=foreplan.Processes(1))
        run, = foreplan.Store(self.database()).runs()
        self.assertEqual(run.status, "running")

    def test_goes_on_with_what_a_database_has(self):
        part = foreplan.sweep(LLAMA, **SPACE, keep="all", database=self.database(), shard="2/3")
        outcome = foreplan.sweep(LLAMA, **SPACE, keep="all", database=self.database(), engine="processes")
        self.assertEqual(outcome.resumed_chunks, part.chunks)
        self.assert_same_rows(self.database())

    def test_a_scenario_that_workers_cannot_see_is_sent_to_them(self):
        text = pathlib.Path(LLAMA).read_text()

        class Elsewhere(foreplan.Processes):
            def run(self, work, parts, retries):
                scenario.unlink()
                return super().run(work, parts, retries)

        scenario = pathlib.Path(self.folder) / "gone.yaml"
        scenario.write_text(text)
        foreplan.sweep(scenario, **SPACE, keep="all", database=self.database(), engine=Elsewhere(2))
        self.assert_same_rows(self.database())

    def test_bad_input_is_told_before_anything_starts(self):
        for call in (lambda: foreplan.sweep(LLAMA, tp=0, database=self.database(), engine="processes"),
                     lambda: foreplan.sweep(LLAMA, database=self.database(), engine="slurm"),
                     lambda: foreplan.sweep(LLAMA, database=self.database(), engine="processes", shard="1/2")):
            with self.assertRaises(ValueError):
                call()
        self.assertFalse(os.path.exists(self.database()))


class OnDask(OnEngines):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        from distributed import Client, LocalCluster
        cls.cluster = LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None)
        cls.client = Client(cls.cluster)
        cls.addClassCleanup(cls.cluster.close)
        cls.addClassCleanup(cls.client.close)

    def test_same_rows(self):
        foreplan.sweep(LLAMA, **SPACE, keep="all", database=self.database(), engine=self.client)
        self.assert_same_rows(self.database())

    def test_same_rows_when_a_worker_is_killed_in_the_middle(self):
        killed = []

        def strike(done: int, total: int) -> None:
            if killed or done == total:
                return
            pids = self.client.run(os.getpid)
            busy = [worker for worker, tasks in self.client.processing().items() if tasks]
            self.assertTrue(busy)  # it has a part in hand
            killed.append(pids[busy[0]])
            os.kill(killed[0], signal.SIGKILL)

        foreplan.sweep(LLAMA, **SPACE, keep="all", database=self.database(), engine=self.client, progress=strike)
        self.assertEqual(len(killed), 1)
        self.assert_same_rows(self.database())


@unittest.skipIf(importlib.util.find_spec("ray") is None, "no Ray here: pip install ray")
class OnRay(OnEngines):
    def test_same_rows(self):
        foreplan.sweep(LLAMA, **SPACE, keep="all", database=self.database(), engine="ray")
        self.assert_same_rows(self.database())


class SlurmArray(unittest.TestCase):
    """The shipped script, with a shell loop in the place of Slurm."""

    def test_array_and_merge_give_the_sweep(self):
        script = ROOT / "scenarios" / "slurm" / "sweep-array.sh"
        with tempfile.TemporaryDirectory() as folder:
            environment = {**os.environ, "FOREPLAN": os.environ["FOREPLAN_PROGRAM"], "SLURM_ARRAY_TASK_COUNT": "3",
                           "SLURM_CPUS_PER_TASK": "1"}
            for task in ("1", "2", "3"):
                subprocess.run(["bash", str(script), LLAMA, folder], check=True, capture_output=True,
                               env={**environment, "SLURM_ARRAY_TASK_ID": task})
            subprocess.run(["bash", str(script.with_name("merge.sh")), folder], check=True, capture_output=True,
                           env=environment)
            foreplan.sweep(LLAMA, database=f"{folder}/local.db")
            self.assertTrue(rows(f"{folder}/runs.db") == rows(f"{folder}/local.db"))


if __name__ == "__main__":
    sys.exit(unittest.main())
