"""Runs `forebay feed`, alone or by several ranks, and says what its telemetry says."""

import json
import os
import shutil
import statistics
import subprocess
import tempfile
from dataclasses import dataclass

COMMON = {"telemetry.interval_s": 0, "telemetry.live": "never", "telemetry.decisions": False}
LIMIT_S = 900
MPIRUN = ("mpirun", "--oversubscribe", "--bind-to", "none", "--mca", "btl", "self,vader")


@dataclass(frozen=True)
class Run:
    """Of one rank."""

    summary: dict  # the rank's part
    steps: list  # the lines of steps.RANK.jsonl

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
        return self.summary["profile"]["stages"][stage]["busy"]


class Forebay:
    """The command of a build, and a folder for what is unpacked and written; a study's trainer if it was built, and
    TensorFlow's Python if peers/setup has installed it."""

    def __init__(self, build, work, peers):
        self.command = os.path.abspath(os.path.join(build, "bin", "forebay"))
        self.trainer = os.path.abspath(os.path.join(build, "bin", "study_trainer"))
        self.tensorflow = os.path.abspath(os.path.join(peers, "tf", "bin", "python"))
        self.work = os.path.abspath(work)
        os.makedirs(self.work, exist_ok=True)

    def feed(self, settings, cores=None):
        """A run with these keys over the defaults, on so many cores."""
        on = ["taskset", "-c", ",".join(map(str, allowed_cores()[:cores]))] if cores else []
        return self._run(settings, 1, lambda words: [*on, *words])[0]

    def job(self, settings, ranks):
        """The same by ranks under mpirun, each on one core: a run for each."""
        def started(words):
            each = [["-n", "1", *on_core_of(rank), *words] for rank in range(ranks)]
            return [*MPIRUN, *each[0], *(word for rank in each[1:] for word in (":", *rank))]

        return self._run(settings, ranks, started)

    def _run(self, settings, ranks, started):
        folder = tempfile.mkdtemp(prefix="run.", dir=self.work)
        try:
            config, summary = os.path.join(folder, "feed.toml"), os.path.join(folder, "summary.json")
            with open(config, "w", encoding="utf-8") as file:
                file.write("seed = 1\n")
            keys = {**COMMON, "telemetry.dir": os.path.join(folder, "run"), **settings}
            call(started([self.command, "feed", config, "--quiet", "--summary", summary, *options(keys)]))
            with open(summary, encoding="utf-8") as file:
                made = json.load(file)
            return [Run(made["ranks"][rank], steps_of(folder, rank)) for rank in range(ranks)]
        finally:
            shutil.rmtree(folder)

    def path(self, name):
        return os.path.join(self.work, name)


def steps_of(folder, rank):
    with open(os.path.join(folder, "run", f"steps.{rank}.jsonl"), encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def allowed_cores():
    return sorted(os.sched_getaffinity(0))


def on_core_of(rank):
    """What starts a rank on a core of its own, as long as there are enough."""
    cores = allowed_cores()
    return ["taskset", "-c", str(cores[rank % len(cores)])]


def options(keys):
    return [f"--set={key}={json.dumps(value)}" for key, value in keys.items()]


def call(words):
    as_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"} if os.geteuid() == 0 else {}
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=LIMIT_S,
                          env={**os.environ, **as_root})
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, words))}\nended with {done.returncode}: {done.stderr.strip()[-800:]}")
    return done.stdout
