"""Dell's CheXNet: X-rays with 14 labels in TFRecord files, read by one, two and four ranks through the pipeline that
did not scale and the one that did, and through Forebay."""

import contextlib
import csv
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import threading

from feeds import on_core_of

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "throughput"))
from containers import feature, masked_crc, message, varint  # noqa: E402

TF_RANK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tf_rank.py")
RANKS = (1, 2, 4)
ROUNDS = 3
BATCH = 64
SIDE = 224  # that the net wants
SHARDS = 32
COPIES = 10  # of each image in the shards: tf.data begins anew at every epoch, which a short one would measure
SEED = 17
SECONDS = 4.0
WARM_S = 1.0
WARM = 10  # steps that are not measured
PROBE = 20  # steps by which the length of a run is found
LATENCY_MS = 10.0  # of a read, where a store is emulated
LATENCY_READERS = 4
LIMIT_S = 600  # of a job of tf.data, its start included


def record(path, marks):
    """Of a TFRecord file: length, its checksum, the Example, its checksum."""
    with open(path, "rb") as file:
        image = feature(b"image/encoded", 1, message(1, file.read()))
    labels = feature(b"image/labels", 3, message(1, b"".join(map(varint, marks))))
    example = message(1, image + labels)
    length = struct.pack("<Q", len(example))
    return b"".join((length, struct.pack("<I", masked_crc(length)), example, struct.pack("<I", masked_crc(example))))


def write_shards(folder, rows):
    """Every image several times over, shuffled."""
    if os.path.exists(folder):
        return
    part = folder + ".part"
    shutil.rmtree(part, ignore_errors=True)
    os.makedirs(part)
    records = [record(*row) for row in rows] * COPIES
    random.Random(SEED).shuffle(records)
    for number in range(SHARDS):
        with open(os.path.join(part, f"train-{number:05}-of-{SHARDS:05}.tfrecord"), "wb") as file:
            file.writelines(records[number::SHARDS])
    os.rename(part, folder)


def write_table(path, names, rows):
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["image", *names], *([image, *marks] for image, marks in rows)])


class Fed:
    """Forebay, with these keys."""

    def __init__(self, forebay, keys, seconds):
        self.forebay, self.seconds, self.rates = forebay, seconds, {}
        self.keys = {"dataset.batch_size": BATCH, "transform.crop": "none", "transform.size": [SIDE, SIDE],
                     "transform.layout": "NHWC", "policy.name": "block", "trainer.step_ms": 0, "workers.decode": 1,
                     "workers.io": 1, "queue.capacity": 4, "fields.findings.kind": "multilabel", **keys}

    def measure(self, ranks):
        if ranks not in self.rates:
            self.rates[ranks] = self._run(ranks, PROBE)["images_per_s"]
        return self._run(ranks, max(PROBE, round(self.seconds * self.rates[ranks] / BATCH / ranks)))

    def _run(self, ranks, steps):
        runs = self.forebay.job({**self.keys, "run.steps": WARM + steps}, ranks)
        fresh = sum(run.fresh_since(WARM) for run in runs)
        longest = max(run.steps[-1]["t_s"] - run.steps[WARM]["t_s"] for run in runs)
        profiles = [run.summary["profile"] for run in runs]
        produced = sum(profile["batches"] for profile in profiles) * BATCH
        cpu_s = sum(profile["process_cores"] * profile["window_s"] for profile in profiles)
        read = sum(run.summary["bytes_read"] for run in runs)
        served = sum(step["size"] for run in runs for step in run.steps)
        return {"images_per_s": round(fresh / longest, 1), "cpu_us": round(1e6 * cpu_s / produced, 1),
                "bytes": round(read / served)}


def kill(processes):
    for process in processes:
        process.kill()


def answers_of(commands, line):
    """What programs answer to a line that all of them get once all have said that they are ready."""
    with tempfile.TemporaryFile("w+", encoding="utf-8") as errors, contextlib.ExitStack() as ending:
        programs = [ending.enter_context(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                                          stderr=errors, text=True)) for command in commands]
        ending.callback(kill, programs)
        limit = threading.Timer(LIMIT_S, kill, [programs])
        ending.callback(limit.cancel)
        limit.start()
        answers = [program.stdout.readline() for program in programs]
        if answers == ["ready\n"] * len(programs):
            for program in programs:
                print(line, file=program.stdin, flush=True)
            answers = [program.stdout.readline() for program in programs]
            if all(answers):
                return [json.loads(answer) for answer in answers]
        errors.seek(0)
        raise SystemExit(f"{' '.join(commands[0])}\nfailed, or took over {LIMIT_S} s: {errors.read().strip()[-800:]}")


class TfData:
    """One of the pipelines of tf_rank.py."""

    def __init__(self, forebay, folder, pipeline, labels, seconds):
        self.words = [forebay.tensorflow, TF_RANK, folder, pipeline, "--batch", str(BATCH), "--side", str(SIDE),
                      "--labels", str(labels)]
        self.seconds = seconds

    def measure(self, ranks):
        answers = answers_of([[*on_core_of(rank), *self.words, "--rank", str(rank), "--ranks", str(ranks)]
                              for rank in range(ranks)], f"{WARM_S} {self.seconds}")
        images = sum(answer["images"] for answer in answers)
        return {"images_per_s": round(sum(answer["images"] / answer["seconds"] for answer in answers), 1),
                "cpu_us": round(1e6 * sum(answer["cpu_s"] for answer in answers) / images, 1),
                "bytes": round(sum(answer["bytes"] for answer in answers) / images)}


def pipelines(forebay, names, rows, seconds, say):
    """{what the table calls it: what measures it}."""
    shards, table = forebay.path("xray-tfrecord"), forebay.path("xray.csv")
    write_shards(shards, rows)
    write_table(table, names, rows)
    of_shards = {"dataset.path": shards, "dataset.format": "tfrecord", "fields.findings.from": "image/labels",
                 "fields.findings.classes": names}
    found = {}
    if os.path.exists(forebay.tensorflow):
        found = {f"tf.data, {name}": TfData(forebay, shards, name, len(names), seconds) for name in ("old", "new")}
    else:
        say("dell: no tf.data without experiments/throughput/peers/setup --only tf")
    return {**found, "Forebay, TFRecord": Fed(forebay, of_shards, seconds),
            "Forebay, files and CSV": Fed(forebay, {"dataset.path": table, "dataset.format": "table",
                                                    "fields.findings.classes": names}, seconds),
            f"Forebay, TFRecord, {LATENCY_MS:g} ms a read": Fed(
                forebay, {**of_shards, "storage.latency_ms": LATENCY_MS, "workers.io": LATENCY_READERS}, seconds)}


def dell(forebay, sets, quick, say):
    names, rows, about = sets.xrays()
    measured = pipelines(forebay, names, rows, 1.0 if quick else SECONDS, say)
    lines = []
    for turn in range(1 if quick else ROUNDS):
        for ranks in RANKS:
            for name, pipeline in measured.items():
                lines.append({"pipeline": name, "ranks": ranks, "round": turn, **pipeline.measure(ranks)})
                say(f"dell: {name}, {ranks} rank{'s' * (ranks > 1)}: {lines[-1]['images_per_s']:.0f} images/s, "
                    f"{lines[-1]['cpu_us']:.0f} us of processor time an image")
    return {"data": f"{about}, each {COPIES} times in {SHARDS} TFRecord files", "lines": lines}
