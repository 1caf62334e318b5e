"""Runs `forebay feed`, and says what its telemetry says."""

import json
import os
import shutil
import statistics
import subprocess
import tempfile
from dataclasses import dataclass

COMMON = {"telemetry.interval_s": 0, "telemetry.live": "never", "telemetry.decisions": False}
LIMIT_S = 900


@dataclass(frozen=True)
class Run:
    summary: dict
    steps: list  # the lines of steps.0.jsonl

    @property
    def wall_s(self):
        """From the first batch to the last."""
        return self.steps[-1]["t_s"] - self.steps[0]["t_s"]

    def fresh_since(self, skipped):
        return sum(step["size"] for step in self.steps[skipped + 1:] if step["decision"] == "fresh")

    def images_per_s(self, skipped):
        """Fresh images, once `skipped` steps are over."""
        return self.fresh_since(skipped) / (self.steps[-1]["t_s"] - self.steps[skipped]["t_s"])

    def batch_s(self, skipped):
        """Median time from batch to batch."""
        times = [step["t_s"] for step in self.steps[skipped:]]
        return statistics.median(b - a for a, b in zip(times, times[1:], strict=False))

    def busy(self, stage):
        """Share of its threads' time."""
        return self.summary["ranks"][0]["profile"]["stages"][stage]["busy"]


class Forebay:
    """The command of a build, and a folder for what is unpacked and written; a study's trainer if it was built."""

    def __init__(self, build, work):
        self.command = os.path.abspath(os.path.join(build, "bin", "forebay"))
        self.trainer = os.path.abspath(os.path.join(build, "bin", "study_trainer"))
        self.work = os.path.abspath(work)
        os.makedirs(self.work, exist_ok=True)

    def feed(self, settings, cores=None):
        """A run with these keys over the defaults, on so many cores."""
        folder = tempfile.mkdtemp(prefix="run.", dir=self.work)
        try:
            config, summary = os.path.join(folder, "feed.toml"), os.path.join(folder, "summary.json")
            with open(config, "w", encoding="utf-8") as file:
                file.write("seed = 1\n")
            keys = {**COMMON, "telemetry.dir": os.path.join(folder, "run"), **settings}
            words = [self.command, "feed", config, "--quiet", "--summary", summary, *options(keys)]
            if cores:
                allowed = sorted(os.sched_getaffinity(0))[:cores]
                words = ["taskset", "-c", ",".join(map(str, allowed)), *words]
            call(words)
            with open(summary, encoding="utf-8") as file:
                made = json.load(file)
            with open(os.path.join(folder, "run", "steps.0.jsonl"), encoding="utf-8") as lines:
                return Run(made, [json.loads(line) for line in lines])
        finally:
            shutil.rmtree(folder)

    def path(self, name):
        return os.path.join(self.work, name)


def options(keys):
    return [f"--set={key}={json.dumps(value)}" for key, value in keys.items()]


def call(words):
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, words))}\nended with {done.returncode}: {done.stderr.strip()[-800:]}")
    return done.stdout
