#!/usr/bin/env python3
"""What the demo's scripts make of runs; no run is needed."""

import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True

import runs


def run(policy, accuracy, seed=17, steps=100, curve=()):
    return runs.Run(policy=policy, seed=seed, wall_s=20.0, steps=steps, new_images=1000.0, fresh=0.5, stall=0.1,
                    accuracy=accuracy, held_out=400, curve=list(curve), chance=0.125, classes=8)


class Closing(unittest.TestCase):
    def test_adaptive_ahead(self):
        text = runs.closing([(run("block", 0.80), run("adaptive", 0.95, steps=310, curve=[(5, 0.7), (10, 0.85)]))])
        self.assertIn("adaptive ended with 95.0 % held-out accuracy and block with 80.0 %, 15.0 points more", text)
        self.assertIn("3.1 times as many steps on 1.00 times as many new images", text)
        self.assertIn("as good as block in the end after 10 s", text)

    def test_adaptive_behind(self):
        text = runs.closing([(run("block", 0.95), run("adaptive", 0.80))])
        self.assertIn("15.0 points less", text)
        self.assertNotIn("more,", text)

    def test_too_close_to_tell(self):
        for other in (0.905, 0.895):
            text = runs.closing([(run("block", 0.90), run("adaptive", other))])
            self.assertIn("no more apart than 400 held-out samples can tell", text)

    def test_several_seeds(self):
        pairs = [(run("block", 0.8, seed), run("adaptive", 0.8 + gain, seed)) for seed, gain in ((1, 0.1), (2, -0.02))]
        self.assertEqual(runs.closing(pairs),
                         "In 1 of 2 pairs of runs adaptive ended with the higher held-out accuracy; the difference was "
                         "4.0 points on average, from -2.0 points to 10.0 points.")

    def test_pairs(self):
        of = [run("block", 0.8, 1), run("adaptive", 0.9, 1), run("block", 0.8, 2), run("interval", 0.9, 2)]
        self.assertEqual(runs.pairs_of(of), [(of[0], of[1])])


class Reading(unittest.TestCase):
    def test_run(self):
        with tempfile.TemporaryDirectory() as folder:
            read = runs.read_run(write_run(pathlib.Path(folder) / "run", "block", 0.75))
        self.assertEqual((read.policy, read.seed, read.wall_s, read.steps, read.new_images), ("block", 3, 20.0, 40, 210.0))
        self.assertAlmostEqual(read.stall, 5.0 / 20.0)
        self.assertEqual(read.curve, [(2.5, 0.5)])


def write_run(folder, policy, accuracy):
    summary = {"policy": policy, "seed": 3, "classes": 8, "chance": 0.125, "held_out": 400, "eval_s": 1.0,
               "final_accuracy": accuracy, "curve": [{"trained_s": 2.5, "steps": 10, "accuracy": 0.5}],
               "job": {"wall_s": 21.0, "images_per_s": 10.0, "fresh_fraction": 0.5, "ranks": [{"steps": 40}]}}
    folder.mkdir()
    (folder / "summary.json").write_text(json.dumps(summary), encoding="utf-8")
    # Of each step the longer wait counts, and the first step's is start-up.
    for rank, second in ((0, 1.0), (1, 3.0)):
        lines = [{"step": 0, "wait_s": 9.0}, {"step": 1, "wait_s": second}, {"step": 2, "wait_s": 2.0 - rank}]
        (folder / f"steps.{rank}.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    return folder


class Printing(unittest.TestCase):
    def test_table(self):
        lines = runs.table([run("block", 0.8), run("adaptive", 0.9)])
        self.assertEqual(len({len(line) for line in lines}), 1)
        self.assertTrue(lines[3].startswith("adaptive") and lines[3].endswith("90.0 %"))

    def test_spread(self):
        lines = [runs.line_of(busy, run("block", 0.8), run("adaptive", accuracy))
                 for busy, accuracy in ((0, 0.9), (0, 0.72), (2, 0.85))]
        rows = runs.spread(lines)
        self.assertEqual(len(rows), 4)
        self.assertIn("| 1.0 points (-8.0 points to 10.0 points) | 1 of 2 |", rows[2])
        self.assertTrue(rows[3].startswith("| 2 busy processes beside | 1 |"))

    def test_spread_is_kept(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "kept.jsonl"
            of = [runs.read_run(write_run(pathlib.Path(folder) / policy, policy, accuracy))
                  for policy, accuracy in (("block", 0.75), ("adaptive", 0.875))]
            file.write_text("".join(json.dumps(runs.line_of(busy, *of)) + "\n" for busy in (0, 2)))
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                runs.main(["--spread", str(file)])
        self.assertEqual(printed.getvalue().count("12.5 points (12.5 points to 12.5 points) | 1 of 1 |"), 2)


if __name__ == "__main__":
    unittest.main()
