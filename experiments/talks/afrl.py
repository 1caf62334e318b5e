"""AFRL's grid: LeNet-5 on MNIST, batches of 256 out of single files behind a slow store, a fresh batch every so many
steps, read by so many threads."""

import json
import os
import shutil

from feeds import call, options

BATCH = 256
STEP_MS = 3.0  # from memory, as the talk has it
LATENCY_MS = 3.0  # of a file: 16 threads bring a batch in 48 ms, and the talk's exhausted step takes about 50
INTERVALS = (1, 2, 4, 8, 16, 32)
THREADS = (1, 2, 4, 8, 16, 32)
STEPS = 96  # of a run: three times the longest interval
SHOWN_THREADS = 16
RATIO = BATCH * LATENCY_MS / SHOWN_THREADS / STEP_MS  # steps in the time of a batch
UNITS = 600  # steps that fit into the time of a training
SEEDS = (1, 2, 3)
CURVE = 10
RATE = 0.02


def base(folder):
    return {"dataset.path": folder, "dataset.batch_size": BATCH, "transform.crop": "center", "transform.mirror": 0,
            "transform.center_fraction": 1.0, "transform.size": [28, 28], "workers.decode": 1}


def policy_of(interval):
    return {"policy.name": "interval", "policy.interval": interval} if interval else {"policy.name": "adaptive"}


def run(forebay, folder, interval, threads):
    made = forebay.feed({**base(folder), **policy_of(interval), "workers.io": threads, "storage.latency_ms": LATENCY_MS,
                         "trainer.step_ms": STEP_MS, "run.steps": STEPS, "run.epochs": 1000})
    fresh = sum(step["decision"] == "fresh" for step in made.steps)
    produced = made.steps[-1]["produced"] - made.steps[0]["produced"]
    line = {"interval": interval, "threads": threads, "wall_s": round(made.wall_s, 3), "fresh": fresh,
            "enqueued_per_s": round(produced / made.wall_s, 2), "dequeued_per_s": round((fresh - 1) / made.wall_s, 2)}
    if threads == SHOWN_THREADS:
        times = [step["t_s"] for step in made.steps]
        line["depth"] = [step["depth"] for step in made.steps]
        line["step_ms"] = [round(1e3 * (b - a), 2) for a, b in zip(times, times[1:], strict=False)]
    return line


def grid(forebay, sets, quick, say):
    folder, about = sets.digits()
    lines = []
    for threads in reversed(THREADS[-2:] if quick else THREADS):
        for interval in (*(INTERVALS[::5] if quick else INTERVALS), 0):  # 0: adaptive
            lines.append(run(forebay, folder, interval, threads))
            say(f"afrl: {threads} threads, interval {interval or 'adaptive'}: {lines[-1]['wall_s']} s")
    return {"data": about, "lines": lines}


def simulated(forebay, folder, interval, seed, recording, steps):
    """When each step is served, in steps, in the time of `steps`."""
    call([forebay.command, "simulate", forebay.path("afrl.toml"), *options({**base(folder), **policy_of(interval)}),
          "-R", str(RATIO), "--source", "exponential",
          "--steps", str(steps), "--seed", str(seed), "--record", recording, "--no-optimum"])
    with open(os.path.join(recording, "steps.0.jsonl"), encoding="utf-8") as lines:
        times = [json.loads(line)["t_s"] for line in lines]
    return [time for time in times if time + 1 <= steps + 1e-6]


def train(forebay, folder, held_out, interval, seed, steps):
    """Held-out errors over the time of `steps`, in virtual time: see ../studies."""
    recording = forebay.path("recording")
    shutil.rmtree(recording, ignore_errors=True)
    with open(forebay.path("afrl.toml"), "w", encoding="utf-8") as file:
        file.write(f"seed = {seed}\n")
    times = simulated(forebay, folder, interval, seed, recording, steps)
    with open(forebay.path("times"), "w", encoding="utf-8") as file:
        file.write("\n".join(f"{time:.6f}" for time in times) + "\n")
    keys = {**base(folder), "policy.name": "replay", "policy.recording": recording, "telemetry.dir": "",
            "telemetry.interval_s": 0, "run.epochs": 100000}
    made = json.loads(call([forebay.trainer, forebay.path("afrl.toml"), *options(keys),
                            f"--held-out=dataset.path={json.dumps(held_out)}", "--net", "lenet", "--times",
                            forebay.path("times"), "--until", str(steps), "--lr", str(RATE), "--curve", str(CURVE)]))
    return {"interval": interval, "seed": seed, "steps": made["steps"], "fresh": made["fresh"],
            "error": [round(1 - right / made["of"], 4) for right in made["right"]]}


def errors(forebay, sets, quick, say):
    """Without a trainer or MNIST there is nothing."""
    held_out = sets.held_out_digits()
    if not held_out or not os.path.exists(forebay.trainer):
        say("afrl: no held-out error without MNIST and build/release/bin/study_trainer")
        return {"lines": []}
    folder, about = sets.digits()
    lines = []
    for seed in SEEDS[:1] if quick else SEEDS:
        for interval in (*INTERVALS, 0):
            lines.append(train(forebay, folder, held_out, interval, seed, 200 if quick else UNITS))
            say(f"afrl: seed {seed}, interval {interval or 'adaptive'}: error {lines[-1]['error'][-1]:.4f}")
    return {"data": about, "ratio": RATIO, "units": UNITS, "lines": lines}
