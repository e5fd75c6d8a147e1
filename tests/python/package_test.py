"""The Python package against the program: the same answers to the bit, the same words on bad input."""

import dataclasses
import inspect
import json
import os
import pathlib
import pickle
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import foreplan
import numpy as np
from foreplan import _native

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ["FOREPLAN_PROGRAM"]
LLAMA = str(ROOT / "scenarios" / "llama3-70b-64xh100.yaml")
JOB = {"model": "llama3-8b", "cluster": "8xH100", "sequence_length": "8192 tokens",
       "global_batch": "128 sequences"}
JOB_WORDS = ["--model", "llama3-8b", "--cluster", "8xH100", "--sequence-length", "8192 tokens",
             "--global-batch", "128 sequences"]


def program(*words: str) -> subprocess.CompletedProcess:
    return subprocess.run([PROGRAM, *words], capture_output=True, text=True, check=False)


def program_json(*words: str):
    done = program(*words, "--json")
    assert done.returncode in (0, 1), done.stderr
    return json.loads(done.stdout)


def without(data: dict, *names: str) -> dict:
    return {key: value for key, value in data.items() if key not in names}


class SameAnswers(unittest.TestCase):
    """JSON numbers are written so that reading them gives the same bits: equal values are equal bits."""

    maxDiff = 4000

    def test_recommend_on_every_shipped_scenario(self):
        files = foreplan.scenarios()
        self.assertEqual(len(files), len(list((ROOT / "scenarios").glob("*.yaml"))))
        for file in files:
            with self.subTest(file=file.name):
                answer = foreplan.recommend(file)
                self.assertEqual(without(answer.to_dict(), "seconds"),
                                 without(program_json("recommend", str(file)), "seconds"))

    def test_recommend_from_options_alone(self):
        answer = foreplan.recommend(**JOB, precision=["bf16", "fp8"], tp=[1, 2], sequence_parallel=True, top=3)
        told = program_json("recommend", *JOB_WORDS, "--precision", "bf16,fp8", "--tp", "1,2",
                            "--sequence-parallel", "true", "--top", "3")
        self.assertEqual(without(answer.to_dict(), "seconds"), without(told, "seconds"))
        self.assertEqual(len(answer.top), 3)

    def test_recommend_where_nothing_fits_names_the_nearest_plan_that_does(self):
        job = {**JOB, "model": "llama3-70b", "cluster": "8xH100"}
        answer = foreplan.recommend(**job)
        told = program_json("recommend", "--model", "llama3-70b", *JOB_WORDS[2:])
        self.assertFalse(answer.feasible)
        self.assertIsNone(answer.best)
        self.assertGreater(answer.nearest_fit.plan.gpus, 8)
        self.assertEqual(without(answer.to_dict(), "seconds"), without(told, "seconds"))

    def test_simulate(self):
        answer = foreplan.simulate(LLAMA, tp=4, pp=4, vpp=5, recompute="layernorm+mlp_act")
        told = program_json("simulate", LLAMA, "--tp", "4", "--pp", "4", "--vpp", "5",
                            "--recompute", "layernorm+mlp_act")
        self.assertEqual(answer.to_dict(), told)
        self.assertEqual(answer.plan.dp, 4)

    def test_models_devices_and_clusters(self):
        self.assertEqual([row.to_dict() for row in foreplan.models()], program_json("models"))
        for name in ("deepseek-v3", "llama3-70b", "flux.1-dev"):
            self.assertEqual(foreplan.model(name).to_dict(), program_json("models", name))
        self.assertEqual(foreplan.model("llama3-8b", 1000).to_dict(),
                         program_json("models", "llama3-8b", "--sequence-length", "1000"))
        self.assertEqual([row.to_dict() for row in foreplan.devices()], program_json("devices"))
        self.assertEqual([row.to_dict() for row in foreplan.clusters()], program_json("clusters"))
        self.assertEqual(foreplan.cluster("8x8xH100").to_dict(), program_json("clusters", "8x8xH100"))

    def test_search_holds_the_recommended_plans_among_all(self):
        plans = foreplan.search(LLAMA)
        answer = foreplan.recommend(LLAMA)
        self.assertEqual(plans.size, answer.plans_scored)
        self.assertEqual(int(plans["fits"].sum()), answer.plans_feasible)
        self.assertTrue((np.diff(plans["index"].astype(np.int64)) > 0).all())
        fitting = np.flatnonzero(plans["fits"])
        order = fitting[np.lexsort((plans["index"][fitting], plans["peak_memory_bytes"][fitting],
                                    plans["step_time_s"][fitting]))]
        for report, row in zip(answer.top, order):
            self.assertEqual(plans.plan(row), report.plan)
            self.assertEqual(plans["step_time_s"][row], report.step_time_s)
            self.assertEqual(plans["peak_memory_bytes"][row], report.memory.device_total_bytes)

    def test_a_stored_sweep(self):
        with tempfile.TemporaryDirectory() as folder:
            ours, theirs = f"{folder}/ours.db", f"{folder}/theirs.db"
            outcome = foreplan.sweep(LLAMA, database=ours, keep="all")
            told = program_json("sweep", LLAMA, "--db", theirs, "--keep", "all")
            self.assertEqual(without(outcome.to_dict(), "database", "seconds"),
                             without(told, "database", "seconds"))
            store = foreplan.Store(ours)
            for which in ("ranked", "front", "all"):
                shown = program_json("show", "--db", theirs, "--run", "1", "--plans", which, "--limit", "100000000")
                self.assertEqual([dict(plan.to_dict()) for plan in store.plans(1, which)],
                                 [{key: value for key, value in row.items()} for row in shown["plans"]])
                self.assertEqual([bin_.to_dict() for bin_ in store.histogram(1)], shown["histogram"])
            run, = store.runs()
            self.assertEqual((run.status, run.plans_scored), ("finished", outcome.plans_scored))
            self.assertEqual(store.scenario_text(1), pathlib.Path(LLAMA).read_text())

    def test_validate_runs_and_kernels(self):
        runs = str(ROOT / "results" / "runs" / "training_runs.csv")
        kernels = str(ROOT / "tests" / "data" / "import" / "gemm.csv")
        with tempfile.TemporaryDirectory() as folder:
            for file in (runs, kernels):
                scores = f"{folder}/scores.json"
                self.assertEqual(program("validate", file, "--json", scores).returncode, 0)
                self.assertEqual(foreplan.validate(file).to_dict(), json.loads(pathlib.Path(scores).read_text()))

    def test_calibrate(self):
        with tempfile.TemporaryDirectory() as folder:
            told = program_json("calibrate", "--device", "RTX-4090", "--folds", "0", "--out", f"{folder}/theirs.json")
            fitted = foreplan.calibrate("RTX-4090", folds=0)
            ours = fitted.save(f"{folder}/ours.json")
            self.assertEqual(ours.read_text(), pathlib.Path(f"{folder}/theirs.json").read_text())
            self.assertEqual(without(fitted.to_dict(), "device", "text", "points"), without(told, "file", "report"))

    def test_calibrate_with_runs(self):
        with tempfile.TemporaryDirectory() as folder:
            header, *lines = (ROOT / "results/runs/training_runs.csv").read_text().splitlines(keepends=True)
            table = pathlib.Path(folder, "runs.csv")
            table.write_text(header + "".join(line for line in lines if "internevo" in line))
            told = program_json("calibrate", "--device", "A100", "--runs", str(table), "--out", f"{folder}/theirs.json")
            fitted = foreplan.calibrate("A100", runs=[table])
            self.assertEqual(fitted.cluster.to_dict(), told["cluster"])
            self.assertTrue(fitted.cluster.taken)
            self.assertEqual(fitted.text, pathlib.Path(f"{folder}/theirs.json").read_text())

    def test_points_of_a_judged_fit_are_what_its_scores_sum_up(self):
        fitted = foreplan.calibrate("RTX-PRO-6000-BSE", folds=2)
        points = fitted.points
        self.assertEqual(points.size, sum(score.n for score in fitted.models))
        for score in fitted.models:
            mine = points["model"] == score.op
            self.assertEqual(mine.sum(), score.n)
            ratio = points["predicted_s"][mine] / points["measured_s"][mine]
            self.assertAlmostEqual(np.abs(ratio - 1).mean(), score.mean, places=12)
            self.assertAlmostEqual(points["covered"][mine].mean(), score.coverage_90, places=12)

    def test_what_a_plan_hangs_on(self):
        plan = {"tp": 4, "pp": 4, "sequence_parallel": True, "recompute": "full"}
        told = foreplan.sensitivity(LLAMA, **plan)
        changed = {what.name: what.step_time_s for what in told.what_if}
        # Half the network is also a shipped scenario, whose cluster file says so.
        half = foreplan.simulate(ROOT / "scenarios" / "llama3-70b-64xh100-half-network.yaml", **plan)
        self.assertEqual(changed["network at half the bandwidth"], half.step_time_s)
        self.assertLess(changed["network at twice the bandwidth"], changed["network at half the bandwidth"])
        self.assertLessEqual(sum(group.share for group in told.groups), 1.01)
        shares = [one.share for one in told.single]
        self.assertEqual(shares, sorted(shares, reverse=True))

    def test_trace(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "step.json"
            done = program("simulate", LLAMA, "--tp", "4", "--pp", "8", "--trace", str(file))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(foreplan.trace(LLAMA, tp=4, pp=8), json.loads(file.read_text()))

    def test_shipped_measurements(self):
        # The counts of results/calibration/README.md, which import_shipped_test holds against the files.
        counts = {"gemm": 26_249, "attention": 19_526, "collectives": 19_406, "memory": 6_900, "moe": 19_264}
        for kind, count in counts.items():
            self.assertEqual(foreplan.measurements(kind).size, count)
        # First data line of gemm.fpm, in microseconds there: 1 32 64 2.6604.
        first = foreplan.measurements("gemm").frame().iloc[0]
        lines = (ROOT / "results" / "calibration" / "gemm.fpm").read_text().splitlines()
        data = next(line for line in lines[1:] if not line.startswith(("@", "#"))).split()
        self.assertEqual([str(first.m), str(first.n), str(first.k)], data[:3])
        self.assertAlmostEqual(first.time_s * 1e6, float(data[3]), places=9)
        self.assertEqual((first.source, first.licence), ("aic", "Apache-2.0"))
        found = foreplan.measurements("collectives", device="H100", source="xxrjun")
        self.assertEqual(found.size, 565)
        self.assertEqual(set(found["device"]), {"H100-SXM5-80GB"})
        self.assertEqual(foreplan.measurements("gemm", source="nobody").size, 0)

    def test_measurements_go_through_a_table_and_a_database_unchanged(self):
        whole = foreplan.measurements("attention", device="RTX-PRO-6000-BSE").frame()
        rows = whole[whole["flags"] == ""].drop_duplicates().head(50)
        with tempfile.TemporaryDirectory() as folder:
            rows.to_csv(f"{folder}/rows.csv", index=False)
            told, = foreplan.import_measurements(f"{folder}/rows.csv", database=f"{folder}/ours.db")
            self.assertEqual((told.accepted, told.added, told.rejected), (50, 50, ()))
            kept = foreplan.measurements("attention", database=f"{folder}/ours.db").frame()
            self.assertEqual(kept.to_dict("list").keys(), rows.to_dict("list").keys())
            for name in rows:
                self.assertEqual(list(kept[name].astype(str)), list(rows[name].astype(str)), name)
            shown, = program_json("import", f"{folder}/rows.csv", "--db", f"{folder}/theirs.db")
            self.assertEqual(told.to_dict(), shown)

    def test_run_tables_are_those_of_the_repository(self):
        self.assertEqual([file.name for file in foreplan.run_tables()],
                         sorted(file.name for file in (ROOT / "results" / "runs").glob("*.csv")))


class BadInput(unittest.TestCase):
    def same_text(self, call, *words: str) -> str:
        done = program(*words)
        self.assertEqual(done.returncode, 2, done.stderr)
        with self.assertRaises(ValueError) as caught:
            call()
        told = "\n".join(line.removeprefix("foreplan: ") for line in done.stderr.splitlines())
        self.assertEqual(str(caught.exception), told)
        return told

    def test_options(self):
        text = self.same_text(lambda: foreplan.recommend(**{**JOB, "model": "llama3-8bb"}, tp=0),
                              "recommend", "--model", "llama3-8bb", *JOB_WORDS[2:], "--tp", "0")
        self.assertIn("--model", text)

    def test_every_mistake_of_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "bad.yaml"
            file.write_text("model: llama3-8b\nclusterr: 8xH100\ntraining: {sequence_length: 8192}\n"
                            "objective: speed\n")
            text = self.same_text(lambda: foreplan.recommend(file), "recommend", str(file))
            self.assertGreater(text.count("\n"), 2)
            missing = str(file.with_name("none.yaml"))
            self.same_text(lambda: foreplan.sweep(missing, database=f"{folder}/x.db"),
                           "sweep", missing, "--db", f"{folder}/x.db")
            self.assertFalse(os.path.exists(f"{folder}/x.db"))

    def test_a_plan_that_breaks_a_rule(self):
        self.same_text(lambda: foreplan.simulate(LLAMA, tp=3), "simulate", LLAMA, "--tp", "3")
        self.same_text(lambda: foreplan.simulate(LLAMA), "simulate", LLAMA)

    def test_names_of_the_catalogue(self):
        self.same_text(lambda: foreplan.model("lama3-8b"), "models", "lama3-8b")
        self.same_text(lambda: foreplan.device("H1000"), "devices", "H1000")
        self.same_text(lambda: foreplan.cluster("8x8xH1000"), "clusters", "8x8xH1000")
        self.same_text(lambda: foreplan.calibrate("H1000"), "calibrate", "--device", "H1000")
        self.same_text(lambda: foreplan.calibrate("A100", runs=[str(ROOT / "README.md")]),
                       "calibrate", "--device", "A100", "--runs", str(ROOT / "README.md"))

    def test_measurements(self):
        with self.assertRaisesRegex(ValueError, "kind"):
            foreplan.measurements("gemms")
        with self.assertRaisesRegex(ValueError, "H1000"):
            foreplan.measurements("gemm", device="H1000")
        with tempfile.TemporaryDirectory() as folder:
            none, database = f"{folder}/none.csv", f"{folder}/x.db"
            self.same_text(lambda: foreplan.import_measurements(none, database=database), "import", none, "--db", database)
            rows = str(ROOT / "tests" / "data" / "import" / "gemm.csv")
            self.same_text(lambda: foreplan.import_measurements(rows, database=database, operation="all_reduced"),
                           "import", rows, "--db", database, "--op", "all_reduced")
            self.assertFalse(os.path.exists(database))

    def test_databases(self):
        with tempfile.TemporaryDirectory() as folder:
            none = f"{folder}/none.db"
            self.same_text(lambda: foreplan.Store(none), "show", "--db", none)
            text = pathlib.Path(folder) / "text.db"
            text.write_text("no database")
            self.same_text(lambda: foreplan.Store(text), "show", "--db", str(text))
            foreplan.sweep(**JOB, tp=1, database=f"{folder}/runs.db")
            self.same_text(lambda: foreplan.Store(f"{folder}/runs.db").plans(7),
                           "show", "--db", f"{folder}/runs.db", "--run", "7")

    def test_an_unknown_keyword_is_a_type_error(self):
        with self.assertRaises(TypeError):
            foreplan.recommend(LLAMA, tpp=4)


class Objects(unittest.TestCase):
    def test_every_option_of_the_program_is_a_keyword_of_a_scenario(self):
        keywords = list(inspect.signature(foreplan.Scenario).parameters)[1:]
        flags = [row["flag"].removeprefix("--").replace("-", "_") for row in _native.option_list()]
        self.assertEqual(keywords, flags)

    def test_scenarios_compare_and_can_be_changed(self):
        scenario = foreplan.Scenario(LLAMA, tp=[4, 8])
        self.assertEqual(pickle.loads(pickle.dumps(scenario)), scenario)
        self.assertEqual(scenario.with_options(tp=None), foreplan.Scenario(LLAMA))
        self.assertEqual(eval(repr(scenario), {"Scenario": foreplan.Scenario}), scenario)  # noqa: S307
        self.assertEqual(scenario.resolved()["search"]["tp"], [4, 8])

    def test_answers_pickle_compare_and_do_not_change(self):
        answer = foreplan.recommend(**JOB, tp=[1, 2])
        self.assertEqual(pickle.loads(pickle.dumps(answer)), answer)
        with self.assertRaises(dataclasses.FrozenInstanceError):
            answer.best.step_time_s = 0

    def test_frames_have_a_row_per_plan(self):
        answer = foreplan.recommend(LLAMA)
        frame = answer.frame()
        self.assertEqual(list(frame["step_time_s"]), [report.step_time_s for report in answer.top])
        self.assertEqual(frame["tp"].dtype, np.int64)
        front = answer.front_frame()
        self.assertEqual(len(front), len(answer.front))
        plans = foreplan.search(LLAMA)
        everything = plans.frame()
        self.assertEqual(len(everything), plans.size)
        self.assertEqual(list(everything["recompute"].astype(str)[:50]), list(plans["recompute"][:50]))

    def test_public_names_have_a_text(self):
        for name in foreplan.__all__:
            self.assertTrue(inspect.getdoc(getattr(foreplan, name)), name)


class LongCalls(unittest.TestCase):
    def test_other_threads_run_during_a_search(self):
        counted = 0
        stop = threading.Event()

        def count() -> None:
            nonlocal counted
            while not stop.is_set():
                counted += 1
                time.sleep(0)

        thread = threading.Thread(target=count)
        thread.start()
        before = counted
        foreplan.search(ROOT / "scenarios" / "deepseek-v3-2048xh800.yaml")
        during = counted - before
        stop.set()
        thread.join()
        self.assertGreater(during, 100)

    def test_progress_ends_complete(self):
        seen = []
        with tempfile.TemporaryDirectory() as folder:
            outcome = foreplan.sweep(**JOB, database=f"{folder}/x.db",
                                     progress=lambda done, total: seen.append((done, total)))
        self.assertEqual(seen[-1], (outcome.chunks, outcome.chunks))
        self.assertEqual(seen, sorted(seen))

    def test_what_progress_raises_ends_the_call(self):
        class Enough(Exception):
            pass

        def enough(done: int, total: int) -> None:
            raise Enough

        with self.assertRaises(Enough):
            foreplan.search(LLAMA, progress=enough)

    def test_control_c_ends_a_sweep_which_then_goes_on_where_it_stopped(self):
        with tempfile.TemporaryDirectory() as folder:
            database = f"{folder}/x.db"
            code = ("import foreplan, os, signal, sys\n"
                    "def strike(done, total):\n"
                    "    if done >= 3: os.kill(os.getpid(), signal.SIGINT)\n"
                    f"try: foreplan.sweep({LLAMA!r}, database={database!r}, keep='all', progress=strike)\n"
                    "except KeyboardInterrupt: sys.exit(42)\n")
            done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
            self.assertEqual(done.returncode, 42, done.stderr)
            outcome = foreplan.sweep(LLAMA, database=database, keep="all")
            self.assertGreaterEqual(outcome.resumed_chunks, 3)
            self.assertLess(outcome.resumed_chunks, outcome.chunks)


class Types(unittest.TestCase):
    def test_package_and_a_script_pass_mypy_strict(self):
        script = ("import foreplan\n"
                  "answer = foreplan.recommend('x.yaml', tp=[4, 8], threads=2)\n"
                  "if answer.best is not None:\n"
                  "    seconds: float = answer.best.step_time_s\n"
                  "    reveal_type(answer.best.plan.tp)\n"
                  "reveal_type(foreplan.search('x.yaml')['tp'])\n")
        package = pathlib.Path(foreplan.__file__).parent
        self.assertTrue((package / "py.typed").exists())
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "script.py"
            file.write_text(script)
            done = subprocess.run([sys.executable, "-m", "mypy", "--strict", str(package), str(file)], check=False,
                                  cwd=folder, env={**os.environ, "MYPYPATH": str(package.parent)},
                                  capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn('Revealed type is "int"', done.stdout.replace("builtins.", ""))
        self.assertIn("ndarray", done.stdout)


if __name__ == "__main__":
    unittest.main()
