"""Hooks in a Python file: what they are given, what they change, and what their author is told."""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

import foreplan
import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ["FOREPLAN_PROGRAM"]
LLAMA = str(ROOT / "scenarios" / "llama3-70b-64xh100.yaml")
SPACE = {"tp": [4, 8], "pp": [1, 2, 4, 8]}
SPACE_WORDS = ["--tp", "4,8", "--pp", "1,2,4,8"]


class Hooked(unittest.TestCase):
    def setUp(self):
        self._folder = tempfile.TemporaryDirectory()
        self.addCleanup(self._folder.cleanup)
        self.folder = pathlib.Path(self._folder.name)

    def hooks(self, text: str, name: str = "hooks.py") -> str:
        file = self.folder / name
        file.write_text(text)
        return str(file)

    def program(self, *words: str) -> subprocess.CompletedProcess:
        return subprocess.run([PROGRAM, *words], capture_output=True, text=True, check=False, cwd=self.folder)

    def refused(self, hooks: str, words=("recommend", LLAMA)) -> str:
        """The message of the program, which the package must give too."""
        done = self.program(*words, *SPACE_WORDS, "--hooks", hooks)
        self.assertEqual(done.returncode, 2, done.stderr + done.stdout)
        self.assertEqual(done.stdout, "")
        with self.assertRaises(ValueError) as caught:
            foreplan.recommend(LLAMA, **SPACE, hooks=hooks)
        told = "\n".join(line.removeprefix("foreplan: ") for line in done.stderr.splitlines())
        self.assertEqual(str(caught.exception), told)
        return told


class Answers(Hooked):
    COST = "def objective(plans):\n    return plans['peak_memory_bytes'] + 0 * plans['step_time_s']\n"

    def test_an_objective_ranks_as_the_built_in_one_that_says_the_same(self):
        ours = foreplan.recommend(LLAMA, **SPACE, hooks=self.hooks(self.COST))
        theirs = foreplan.recommend(LLAMA, **SPACE, objective="memory")
        self.assertEqual([r.to_dict() for r in ours.top], [r.to_dict() for r in theirs.top])
        self.assertNotEqual(ours.best.plan, foreplan.recommend(LLAMA, **SPACE).best.plan)
        self.assertEqual(ours.plans_feasible, theirs.plans_feasible)

    def test_program_and_package_answer_alike(self):
        hooks = self.hooks(self.COST)
        done = self.program("recommend", LLAMA, *SPACE_WORDS, "--hooks", hooks, "--json")
        told = json.loads(done.stdout)
        answer = foreplan.recommend(LLAMA, **SPACE, hooks=hooks).to_dict()
        for one in (told, answer):
            del one["seconds"]
        self.assertEqual(answer, told)

    def test_a_constraint_leaves_out_what_the_same_space_leaves_out(self):
        hooks = self.hooks("def constraint(plans):\n    return (plans['tp'] == 4) & (plans['recompute'] == 'none')\n")
        ours = foreplan.recommend(LLAMA, **SPACE, hooks=hooks)
        theirs = foreplan.recommend(LLAMA, tp=4, pp=SPACE["pp"], recompute="none")
        self.assertEqual([r.to_dict() for r in ours.top], [r.to_dict() for r in theirs.top])
        self.assertEqual(ours.plans_feasible, theirs.plans_feasible)
        self.assertGreater(ours.plans_scored, theirs.plans_scored)

    def test_a_constraint_that_refuses_all_says_so(self):
        hooks = self.hooks("import numpy as np\ndef constraint(plans):\n    return np.zeros(len(plans['tp']), bool)\n")
        answer = foreplan.recommend(LLAMA, **SPACE, hooks=hooks)
        self.assertFalse(answer.feasible)
        self.assertIsNone(answer.nearest_fit)
        self.assertEqual(self.program("recommend", LLAMA, *SPACE_WORDS, "--hooks", hooks).returncode, 1)

    def test_on_plan_sees_every_scored_plan_once_in_batches(self):
        hooks = self.hooks(
            "import json, threading\nlock = threading.Lock()\n"
            "def on_plan(plans):\n"
            "    with lock, open('seen.txt', 'a') as out:\n"
            "        out.write(json.dumps({k: v.tolist() for k, v in plans.items()}) + '\\n')\n")
        done = self.program("sweep", LLAMA, *SPACE_WORDS, "--hooks", hooks, "--db", "runs.db", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        batches = [json.loads(line) for line in (self.folder / "seen.txt").read_text().splitlines()]
        scored = json.loads(done.stdout)["plans_scored"]
        self.assertEqual(sum(len(batch["tp"]) for batch in batches), scored)
        self.assertLess(len(batches), scored / 10)
        plans = foreplan.search(LLAMA, **SPACE)
        order = np.argsort(np.concatenate([np.array(batch["index"], dtype=np.uint64) for batch in batches]))
        self.assertEqual(list(batches[0]), list(plans))
        for name in plans:
            seen = np.concatenate([np.array(batch[name]) for batch in batches])[order]
            self.assertTrue((seen == plans[name]).all(), name)

    def test_columns_are_stored_with_the_plans_and_their_objective(self):
        hooks = self.hooks("def objective(plans):\n    return -plans['dp'].astype(float)\n"
                           "def constraint(plans):\n    return plans['micro_batch'] < 4\n"
                           "def columns(plans):\n"
                           "    return {'cost_usd': plans['gpus'] * plans['step_time_s'] * 2 / 3600, 'one': 1}\n")
        for keep in ("best", "all"):
            database = str(self.folder / f"{keep}.db")
            done = self.program("sweep", LLAMA, *SPACE_WORDS, "--hooks", hooks, "--db", database, "--keep", keep)
            self.assertEqual(done.returncode, 0, done.stderr)
            plans = foreplan.Store(database).plans(1, "all")
            self.assertTrue(plans)
            for plan in plans:
                self.assertEqual(plan.extra, {"cost_usd": plan.plan.gpus * plan.step_time_s * 2 / 3600, "one": 1})
                self.assertEqual(plan.objective, -plan.plan.dp)
                if plan.plan.micro_batch >= 4:
                    self.assertFalse(plan.feasible)
            ranked = foreplan.Store(database).plans(1)
            self.assertEqual([p.plan.dp for p in ranked], sorted((p.plan.dp for p in ranked), reverse=True))
            frame = foreplan.Store(database).frame(1)
            self.assertEqual(list(frame["cost_usd"]), [p.extra["cost_usd"] for p in ranked])
        refused = [p for p in plans if not p.feasible and p.memory_headroom_bytes > 5e9]
        self.assertIn("the constraint of", refused[0].reason)

    def test_other_hooks_are_another_question_and_the_same_ones_resume(self):
        database = str(self.folder / "runs.db")
        first = foreplan.sweep(LLAMA, **SPACE, hooks=self.hooks(self.COST), database=database, shard="1/2")
        again = foreplan.sweep(LLAMA, **SPACE, hooks=self.hooks(self.COST), database=database, shard="1/2")
        self.assertEqual((again.run, again.resumed_chunks), (first.run, first.chunks))
        other = foreplan.sweep(LLAMA, **SPACE, hooks=self.hooks(self.COST + "# changed\n"), database=database,
                               shard="1/2")
        self.assertNotEqual(other.run, first.run)

    def test_a_scenario_names_hooks_beside_itself_and_these_import_their_neighbours(self):
        self.hooks("RATE = 2.5\n", "prices.py")
        self.hooks("from prices import RATE\ndef columns(plans):\n    return {'rate': RATE}\n")
        file = self.folder / "scenario.yaml"
        file.write_text("model: llama3-8b\ncluster: 8xH100\nhooks: hooks.py\n"
                        "training: {sequence_length: 8192 tokens, global_batch: 128 sequences}\n")
        database = str(self.folder / "runs.db")
        done = subprocess.run([PROGRAM, "sweep", str(file), "--db", database], check=False, capture_output=True,
                              text=True, cwd="/")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(foreplan.Store(database).plans(1)[0].extra, {"rate": 2.5})


class Mistakes(Hooked):
    def test_an_exception_is_told_with_file_and_line(self):
        hooks = self.hooks("def half(x):\n    return x / 0\n\ndef objective(plans):\n    return half(1)\n")
        self.assertEqual(self.refused(hooks), f"{hooks}:2 objective: ZeroDivisionError: division by zero")

    def test_in_a_sweep_nothing_of_the_chunk_is_stored(self):
        hooks = self.hooks("def columns(plans):\n    return {'x': plans['nothing']}\n")
        done = self.program("sweep", LLAMA, *SPACE_WORDS, "--hooks", hooks, "--db", "runs.db")
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stderr, f"foreplan: {hooks}:2 columns: KeyError: 'nothing'\n")
        self.assertEqual(foreplan.Store(self.folder / "runs.db").plans(1, "all"), [])

    def test_syntax_and_import_errors(self):
        hooks = self.hooks("import numpy\ndef objective(plans)\n    return 1\n")
        self.assertRegex(self.refused(hooks), r":2: SyntaxError: expected ':'$")
        hooks = self.hooks("\nimport no_such_module_of_mine\n")
        self.assertRegex(self.refused(hooks), r":2: ModuleNotFoundError: No module named")

    def test_answers_of_the_wrong_kind(self):
        for body, told in [("return [1.0, 2.0]", r":1 objective: gave values of shape \(2,\) for \d+ plans"),
                           ("return 'cheap'", r":1 objective: values are not numbers \(ValueError"),
                           ("return float('nan')", r":1 objective: gave NaN"),
                           ("return None", r":1 objective: ")]:
            with self.subTest(body=body):
                self.assertRegex(self.refused(self.hooks(f"def objective(plans):\n    {body}\n")), told)
        self.assertRegex(self.refused(self.hooks("def constraint(plans):\n    return plans['step_time_s']\n")),
                         r":1 constraint: gave float64 values; a constraint gives True")

    def test_a_file_without_hooks(self):
        self.assertRegex(self.refused(self.hooks("def objektive(plans):\n    return 1\n")),
                         r"hooks.py: has none of the functions objective, constraint, columns, on_plan")
        self.assertRegex(self.refused(self.hooks("objective = 3\n")), r"objective: is not a function")
        self.assertRegex(self.refused(str(self.folder / "none.py")), r"none.py")
        self.assertRegex(self.refused(self.hooks("x\n", "hooks.txt")), r"--hooks: .* is not a Python file")


if __name__ == "__main__":
    unittest.main()
