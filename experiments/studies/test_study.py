#!/usr/bin/env python3
"""The study's logic: what runs next, what is kept, what the falsifier says. No training run is needed."""

import json
import math
import pathlib
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from study import effective, limits, machine, plan, report, verdict
from study.design import ADAPTIVE, ARMS, DEFAULT, ORDER, PROOF_SEEDS, REUSE, TASKS, Cell, Run
from study.results import Result, Results

CELL = Cell("fashion", 3.0, "exponential")
SCOPE = plan.Scope(tasks=("fashion",), ratios=(3.0,), sources=("exponential",), arms=("block", ADAPTIVE, "interval4"))


def result(run, accuracy):
    right = tuple(round(1000 * accuracy * (place + 1) / 10) for place in range(10))
    return Result(run, right, 1000, 2000, 0.33, 0.0, (3, 4, 5), 8.0)


class InAFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name) / "study.jsonl"
        self.results = Results(self.path)

    def add(self, arm, seed, accuracy, cell=CELL):
        self.results.append(result(Run("study", cell, arm, seed, 0.05), accuracy))

    def make_all(self, accuracy_of, scope=SCOPE):
        made = []
        while runs := plan.pending(self.results, scope):
            self.results.append(result(runs[0], accuracy_of(runs[0])))
            made.append(runs[0])
        return made


class Plan(InAFolder):
    def test_tunes_first_then_screens_then_spends_seeds(self):
        made = self.make_all(lambda run: 0.8 - abs(run.rate - 0.02))
        self.assertEqual([run.stage for run in made[:4]], ["tune"] * 3 + ["study"])
        studied = [run for run in made if run.stage == "study"]
        self.assertEqual({run.rate for run in studied}, {0.02})
        self.assertEqual(
            [(run.arm, run.seed) for run in studied[:6]], [(arm, seed) for arm in SCOPE.arms for seed in (1, 2)]
        )
        self.assertEqual({run.seed for run in studied if run.arm == ADAPTIVE}, set(range(1, 9)))
        self.assertEqual(len(made), len({run.key for run in made}))

    def test_continues_where_it_was(self):
        made = self.make_all(lambda run: 0.8)
        again = pathlib.Path(str(self.path) + ".again")
        for stop in (1, 5, 12):
            again.write_text("".join(self.path.read_text().splitlines(keepends=True)[:stop]))
            self.assertEqual(plan.pending(Results(again), SCOPE)[0], made[stop])

    def test_only_what_decides_gets_more_seeds(self):
        made = self.make_all(lambda run: 0.9 if run.arm == "block" else 0.5)
        self.assertEqual({run.seed for run in made if run.stage == "study" and run.arm == "interval4"}, {1, 2})

    def test_the_ceiling_is_shared_by_cells(self):
        scope = plan.dataclasses.replace(SCOPE, ratios=(3.0, 6.0), arms=("ceiling",), most_seeds=2)
        self.assertEqual(len([run for run in self.make_all(lambda run: 0.9, scope) if run.stage == "study"]), 2)

    def test_goes_on_tuning_where_the_best_is_at_an_end(self):
        self.assertEqual(plan.rates_missing({}, 0.05), [0.05, 0.02, 0.125])
        self.assertEqual(plan.rates_missing({0.05: 0.5, 0.02: 0.6, 0.125: 0.4}, 0.05), [0.008])
        self.assertEqual(plan.rates_missing({0.05: 0.5, 0.02: 0.6, 0.125: 0.4, 0.008: 0.7}, 0.05), [])
        self.assertEqual(plan.rates_missing({0.05: 0.7, 0.02: 0.6, 0.125: 0.4}, 0.05), [])


class Kept(InAFolder):
    def test_a_line_that_was_cut_off_is_run_again(self):
        self.add("block", 1, 0.5)
        self.add("block", 2, 0.6)
        self.path.write_text(self.path.read_text()[:-20])
        results = Results(self.path)
        self.assertEqual(len(results), 1)
        results.append(result(Run("study", CELL, "block", 2, 0.05), 0.6))
        self.assertEqual(sorted(Results(self.path).study(CELL, "block")), [1, 2])

    def test_a_file_beside_it_is_read_and_not_written(self):
        self.add("block", 1, 0.5)
        beside = self.path.with_name("study.first.jsonl")
        self.path.rename(beside)
        before = beside.read_text()
        results = Results(self.path)
        self.assertEqual(sorted(results.study(CELL, "block")), [1])
        results.append(result(Run("study", CELL, "block", 2, 0.05), 0.6))
        self.assertEqual(sorted(Results(self.path).study(CELL, "block")), [1, 2])
        self.assertEqual((beside.read_text(), len(self.path.read_text().splitlines())), (before, 1))

    def test_steps_that_end_in_time_count(self):
        folder = self.path.parent
        first = {"t_s": 0.0, "wait_s": 3.0, "use_index": 0, "epoch": 0, "batch": 0}
        second = first | {"t_s": 3.0, "wait_s": 2.0, "batch": 1}
        steps = [
            first,
            second,
            second | {"t_s": 4.0, "wait_s": 0.0, "use_index": 1},
            second | {"t_s": 7.5, "wait_s": 2.5},
        ]
        (folder / "steps.0.jsonl").write_text("".join(json.dumps(step) + "\n" for step in steps))
        schedule = machine.read_schedule(folder, 8)
        self.assertEqual(schedule.times, [0.0, 3.0, 4.0])
        self.assertEqual(schedule.uses, (2, 2, 2))
        self.assertAlmostEqual(schedule.fresh, 2 / 3)
        self.assertAlmostEqual(schedule.stall, (2 + 3) / 8)  # the last wait up to the end; the first is start-up


class Falsifier(InAFolder):
    def fill(self, adaptive, interval, block):
        for seed in range(1, 9):
            for arm, accuracy in ((DEFAULT, adaptive), ("interval4", interval), ("block", block)):
                self.add(arm, seed, accuracy + 0.002 * (seed % 3))

    def test_holds(self):
        self.fill(0.8, 0.79, 0.6)
        self.assertEqual(verdict.best_interval(self.results, CELL), "interval4")
        self.assertEqual(verdict.of(self.results, CELL), verdict.HOLDS)

    def test_fails_behind_an_interval_or_behind_block(self):
        self.fill(0.8, 0.85, 0.6)
        self.assertEqual(verdict.of(self.results, CELL), verdict.FAILS)
        self.assertIn("**fails**", report.verdict_table(self.results))
        self.assertNotIn("**fails**", report.verdict_table(self.results, ADAPTIVE))

    def test_undecided_with_few_seeds(self):
        self.add(DEFAULT, 1, 0.9)
        self.add("block", 1, 0.5)
        self.assertEqual(verdict.of(self.results, CELL), verdict.UNDECIDED)


class Report(InAFolder):
    def test_the_same_every_time(self):
        for seed in range(1, 6):
            for arm, accuracy in ((ADAPTIVE, 0.8), ("block", 0.6), ("echo4", 0.7)):
                self.add(arm, seed, accuracy + 0.01 * seed)
        again = Results(self.path)
        for make in (report.curves, report.table):
            self.assertEqual(make(self.results, "fashion"), make(again, "fashion"))
        self.assertIn("<svg", report.curves(again, "fashion"))

    def test_intervals(self):
        self.assertIsNone(verdict.bootstrap([1, 2, 3]))
        low, high = verdict.bootstrap(range(20))
        self.assertTrue(6 < low < 9.5 < high < 13)
        self.assertEqual(verdict.paired({1: 3, 2: 5, 4: 1}, {2: 1, 4: 4, 7: 0}), [4, -3])

    def test_pairs_of_the_proof(self):
        line = {
            "kind": "real",
            "store": "steady",
            "R": 3,
            "policy": "block",
            "seed": 1,
            "steps": 10,
            "fresh": 5,
            "uses": [1, 2, 3],
            "stall": 0,
            "right": [50],
            "of": 100,
        }
        text = report.proof_table([line, line | {"kind": "virtual", "right": [60]}, line | {"seed": 2}])
        self.assertIn("| steady, 3, block | 1 |", text)
        self.assertIn("+10.00", text)


class Limits(InAFolder):
    def test_names_say_what_an_arm_does(self):
        self.assertEqual(dict(ARMS["adaptive.pool16.cap8.dequeue"].keys)["policy.max_uses"], 8)
        self.assertEqual(dict(ARMS["adaptive.pool16.cap8.dequeue"].keys)["queue.pool"], 16)
        self.assertEqual(dict(ARMS["adaptive.pool16.cap8.dequeue"].keys)["transform.when"], "dequeue")
        self.assertEqual(ARMS["adaptive.root"].weight, (1, 0.5))
        self.assertEqual((ARMS["adaptive.rootrate"].weighs, ARMS["adaptive.root"].weighs), ("rate", "loss"))

    def test_length_of_a_run(self):
        task = TASKS["fashion-few"]
        self.assertEqual(ARMS[ADAPTIVE].steps(task, 3.0), 1000)
        self.assertEqual(ARMS["adaptive.pool4.in31"].steps(task, 3.0), 308)
        self.assertEqual(ARMS["uses4"].steps(task, 6.0), 167 * 4)
        self.assertEqual(Cell("fashion", 6.0, "outages").of("uses4"), Cell("fashion", 6.0, "none"))

    def test_a_shorter_run_takes_the_rates_of_the_whole_one(self):
        arm = f"{ADAPTIVE}.in50"
        scope = plan.dataclasses.replace(SCOPE, arms=(arm,), first_seeds=2, most_seeds=2, from_seed=PROOF_SEEDS)
        made = self.make_all(lambda run: 0.8 - abs(run.rate - 0.02), scope)
        self.assertEqual({run.arm for run in made if run.stage == "tune"}, {ADAPTIVE})
        self.assertEqual([(run.arm, run.seed) for run in made[3:]], [(arm, PROOF_SEEDS), (arm, PROOF_SEEDS + 1)])

    def test_a_shorter_run_that_is_tuned_has_rates_of_its_own(self):
        arm = f"{ADAPTIVE}.in50.tuned"
        scope = plan.dataclasses.replace(SCOPE, arms=(arm,), first_seeds=2, most_seeds=2, from_seed=PROOF_SEEDS)
        made = self.make_all(lambda run: 0.8 - abs(run.rate - 0.05), scope)
        self.assertEqual({run.arm for run in made}, {arm})
        self.assertEqual({run.rate for run in made if run.stage == "study"}, {0.05})

    def test_what_was_chosen_by_is_no_proof(self):
        for seed, gain in ((1, 0.1), (2, 0.1), (PROOF_SEEDS, -0.1), (PROOF_SEEDS + 1, -0.1)):
            self.add(ADAPTIVE, seed, 0.8)
            self.add("adaptive.soft8", seed, 0.8 + gain)
        self.assertIn("+10.0 (2)", limits.compared_table(self.results, "fashion", False))
        self.assertIn("-10.0 (2)", limits.compared_table(self.results, "fashion", True))
        self.assertNotIn("adaptive.soft8", report.table(self.results.only(lambda run: run.arm in ORDER), "fashion"))

    def test_views_save_samples_and_cost_rows(self):
        task, narrow, wide = TASKS["cifar-small"], ARMS["block.views4"], ARMS["block.wide4"]
        self.assertEqual((narrow.steps(task, 3.0), wide.steps(task, 3.0)), (1000, 250))
        self.assertEqual(dict(narrow.keys), {"transform.views": 4, "dataset.batch_size": 8})
        self.assertEqual(dict(wide.keys), {"transform.views": 4})
        self.assertEqual(dict(ARMS[f"{REUSE}.views2.memory"].keys)["queue.pool"], 16)

    def test_nodes_are_compared_with_parts_of_a_full_shuffle(self):
        cell = Cell("cifar-norm-long", 0.0, "none")
        for arm, accuracy in (("nodes8", 0.6), ("nodes8.local", 0.59), ("nodes8.sorted", 0.4)):
            self.assertEqual(ARMS[arm].steps(TASKS[cell.task], 0.0), 1500)
            self.add(arm, PROOF_SEEDS, accuracy, cell)
        self.assertIn("| nodes8.local | 59.0 (1) | -1.0 (1) |", limits.nodes_table(self.results, cell.task))
        self.assertIn("| nodes8.sorted | 40.0 (1) | -20.0 (1) |", limits.nodes_table(self.results, cell.task))

    def test_the_worth_of_a_use_is_found_again(self):
        points = []
        for ratio in (1.5, 3.0, 6.0, 12.0):
            for interval in (1, 2, 4, 8):
                for is_new, worth in ((False, 2.0), (True, 8.0)):
                    extra = interval - 1
                    samples = 1000 / ratio * (1 + worth * (1 - math.exp(-extra / worth)))
                    accuracy = 0.4 + 0.05 * math.log(samples) + 0.002 * math.log(samples) ** 2
                    points.append(effective.Point("fashion", ratio, "steady", is_new, 1000 / ratio, extra, accuracy))
        self.assertEqual(effective.fitted(points), [2.0, 8.0])
        made = effective.held_out(points, "ratio", (3.0,))
        self.assertLess(effective.root_mean_square(made["effective"][0]), 1e-9)
        self.assertGreater(effective.root_mean_square(made["fresh"][0]), 0.01)

    def test_worth_is_read_off_the_curve(self):
        curve = [(100, 0.5), (200, 0.6), (400, 0.8)]
        self.assertAlmostEqual(limits.worth(curve, 0.6), 200)
        self.assertAlmostEqual(limits.worth(curve, 0.7), 200 * 2**0.5)
        self.assertIsNone(limits.worth(curve, 0.4))
        self.assertIsNone(limits.worth(curve, 0.9))


if __name__ == "__main__":
    unittest.main()
