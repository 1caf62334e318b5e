"""What measure.py and agreement.py share: emulated stores, runs of `forebay feed` side by side, and their telemetry."""

import datetime
import json
import os
import subprocess
import time

STEP_MS = 20
STEPS_PER_S = 1000 / STEP_MS
IMAGES = 4  # in the dataset and in a batch: every batch is the same bytes, so a constant store is constant
READERS = 4
LIMIT_S = 120  # beyond what a run should take, before it is given up

CONFIG = """
seed = {seed}
[run]
steps = {steps}
[dataset]
format = "folder"
path = "{data}"
batch_size = {images}
[transform]
crop = "none"
size = [{size}, {size}]
[queue]
capacity = {capacity}
[workers]
io = {readers}
decode = 1
[policy]
name = "{policy}"
interval = {interval}
[storage]
{storage}
[telemetry]
dir = "{run}"
interval_s = 0
decisions = false
[trainer]
step_ms = {step_ms}
"""


class Store:
    """An emulated store that delivers `batches_per_s` in the long run.

    constant: bandwidth alone, and no burst: bytes come at one pace.
    jittery:  half the time of a batch goes to latencies, exponentially distributed, of reads of which four are under
              way at once; bandwidth does the rest.
    bursty:   jittery, and after the time of 16 batches nothing comes for the time of 4: a fifth of the time. That is
              short against a queue of 16, and the same in batches whatever R is, so that rows can be compared.
    """

    def __init__(self, kind, ratio):
        self.kind = kind
        self.ratio = ratio
        self.batches_per_s = STEPS_PER_S / ratio
        # Latencies and what is under way when an outage begins change the rate by some percent: see calibrate().
        self.pace = 1.0

    @property
    def outage_s(self):
        return 4 / self.batches_per_s if self.kind == "bursty" else 0

    @property
    def period_s(self):
        return 5 * self.outage_s

    def section(self, batch_bytes):
        undisturbed = self.batches_per_s * self.pace * (5 / 4 if self.kind == "bursty" else 1)
        keys = {"bandwidth_mb_s": undisturbed * batch_bytes / 1e6}
        if self.kind != "constant":
            keys.update(latency_ms=500 / undisturbed, jitter=1.0)
        if self.kind == "bursty":
            keys.update(outage_every_s=self.period_s - self.outage_s, outage_s=self.outage_s)
        return "\n".join(f"{key} = {value:.9f}" for key, value in keys.items())


class Run:
    """One `forebay feed`, started."""

    def __init__(self, bench, name, store, policy, steps, seed=17, step_ms=STEP_MS, capacity=16, size=32):
        self.folder = os.path.join(bench.folder, name)
        self.config = self.folder + ".toml"
        self.summary = self.folder + ".json"
        self.what = f"{store.kind} R={store.ratio} {policy}"
        kind, _, interval = policy.partition(" ")
        with open(self.config, "w", encoding="utf-8") as config:
            config.write(CONFIG.format(seed=seed, steps=steps, data=bench.data, images=IMAGES, readers=READERS,
                                       policy=kind, interval=interval or 1, storage=store.section(bench.batch_bytes),
                                       run=self.folder, step_ms=step_ms, size=size,
                                       capacity='"auto"' if capacity == "auto" else capacity))
        self.limit_s = LIMIT_S + steps * max(STEP_MS / 1000, 1 / store.batches_per_s)
        self.process = subprocess.Popen([bench.forebay, "feed", self.config, "--quiet", "--summary", self.summary],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def steps(self):
        """Waits for the end; the lines of its telemetry, one per step."""
        if self.process.returncode is None:
            _, errors = self.process.communicate(timeout=self.limit_s)
            if self.process.returncode != 0:
                raise RuntimeError(f"{self.what} ended with {self.process.returncode}: {errors}")
        with open(os.path.join(self.folder, "steps.0.jsonl"), encoding="utf-8") as lines:
            return [json.loads(line) for line in lines]


class Bench:
    """A dataset in `folder`, and the runs made with it. Leaving it kills what still runs."""

    def __init__(self, forebay, folder):
        self.forebay = os.path.abspath(forebay)
        self.folder = folder
        self.data = os.path.join(folder, "data")
        subprocess.run([self.forebay, "make-dataset", self.data, "--layout", "folder", "--images", str(IMAGES),
                        "--classes", "2", "--seed", "1", "--size", "64x48"], check=True, stdout=subprocess.DEVNULL,
                       timeout=LIMIT_S)
        self.batch_bytes = sum(os.path.getsize(os.path.join(path, file))
                               for path, _, files in os.walk(self.data) for file in files if file.endswith(".jpg"))
        self.runs = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for run in self.runs:
            if run.process.poll() is None:
                run.process.kill()
            run.process.wait(LIMIT_S)

    def start(self, *arguments, **keywords):
        self.runs.append(Run(self, f"run{len(self.runs)}", *arguments, **keywords))
        return self.runs[-1]

    def start_lambda(self, store, batches, seed=17, **keywords):
        """As fast as the store can: what `lambda` means."""
        return self.start(store, "block", batches, seed=seed, step_ms=0, **keywords)

    def calibrate(self, stores, rounds=2):
        """Sets the pace of the stores so that they deliver what they are asked for, all at the same time."""
        stores = [store for store in stores if store.kind != "constant"]
        for _ in range(rounds):
            # Whole periods from one arrival on; the first second is for the start.
            spans = [max(4.0, 4 * store.period_s) // (store.period_s or 1) * (store.period_s or 1) for store in stores]
            runs = [self.start_lambda(store, int((span + 2) * 1.1 * store.batches_per_s) + 20)
                    for store, span in zip(stores, spans)]
            for store, span, run in zip(stores, spans, runs):
                times = [line["t_s"] for line in run.steps()]
                start = next(t for t in times if t >= 1)
                if times[-1] < start + span:
                    raise RuntimeError(f"{run.what}: too fast to be calibrated")
                store.pace *= store.batches_per_s / (sum(start < t <= start + span for t in times) / span)


def machine():
    """The machine in words, the date and the load."""
    model = "unknown"
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        for line in lines:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    return {"cores": len(os.sched_getaffinity(0)), "cpu": model,
            "date": datetime.datetime.now().isoformat(timespec="seconds"), "load": os.getloadavg()[0]}


def print_machine(about):
    print(f"{about['cores']} cores of {about['cpu']}, {about['date']}, load average {about['load']:.2f}", flush=True)


def minutes_since(begin):
    return (time.monotonic() - begin) / 60
