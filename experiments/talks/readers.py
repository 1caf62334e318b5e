"""ALCF's table of threads, NUS's of cores and formats, and DALI's of readers and of where decoding is done."""

import os
import subprocess
import sys

from feeds import call

CONTAINERS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "throughput", "containers.py")
ALCF_THREADS = (1, 16, 64)
ALCF_LATENCY_MS = 45.0  # one thread then takes about 3 s for a batch of 64, as in the tutorial
NUS_LATENCY_MS = 1.0
NUS_READERS = 8
WARM = 4  # steps that are not measured


def plain(path, size, batch, steps, **more):
    return {"dataset.path": path, "dataset.batch_size": batch, "transform.size": [size, size], "policy.name": "block",
            "trainer.step_ms": 0, "run.steps": steps, "run.epochs": 100000, **more}


def alcf(forebay, sets, quick, say):
    folder, about = sets.objects()
    lines = []
    for threads in ALCF_THREADS:
        steps = WARM + (3 if quick else max(6, threads))
        run = forebay.feed(plain(folder, 224, 64, steps, **{
            "dataset.format": "voc" if "BCCD" in about else "auto", "workers.io": threads,
            "storage.latency_ms": ALCF_LATENCY_MS, "queue.capacity": 2}))
        lines.append({"threads": threads, "images_per_s": round(run.images_per_s(WARM), 1),
                      "batch_s": round(run.batch_s(WARM), 3), "readers_busy": round(run.busy("storage"), 3),
                      "decoders_busy": round(run.busy("decode"), 3), "bound": run.summary["profile"]["bound"]})
        say(f"alcf: {threads} readers: {lines[-1]['images_per_s']} images/s")
    return {"data": about, "lines": lines}


def listed(forebay, folder, name):
    """A list of a folder's images, as containers.py takes it."""
    path = forebay.path(f"{name}.list")
    found = sorted(os.path.join(place, file) for place, _, files in os.walk(folder) for file in files
                   if file.lower().endswith((".jpg", ".jpeg", ".png")))
    classes = {name: number for number, name in enumerate(sorted({os.path.dirname(file) for file in found}))}
    with open(path, "w", encoding="utf-8") as out:
        out.writelines(f'"{file}",{classes[os.path.dirname(file)]}\n' for file in found)
    return path


def stored(forebay, folder, name, say):
    """{kind of storage: what dataset.path and dataset.format take} of one set of images. LMDB wants py-lmdb."""
    images = listed(forebay, folder, name)
    found = {"files": (images, "filelist")}
    target = forebay.path(f"{name}-containers")
    for kind in ("tfrecord", "webdataset", "recordio", "lmdb"):
        done = os.path.join(target, kind)
        if not os.path.exists(done):
            made = subprocess.run([sys.executable, CONTAINERS, images, target, kind], capture_output=True, text=True,
                                  check=False)
            if made.returncode != 0:
                say(f"{name}: no {kind}: {(made.stderr.strip().splitlines() or ['it ended without a word'])[-1]}")
                continue
        found[kind] = (os.path.join(done, "train.rec") if kind == "recordio" else done, kind)
    packed = forebay.path(f"{name}-packed")
    call([forebay.command, "pack", images, packed])
    return {**found, "pack": (packed, "auto")}


def nus(forebay, sets, quick, say):
    tables = []
    for name, (folder, about), size, steps in (("mnist", sets.digits(), 28, 400), ("cifar", sets.small(), 32, 400),
                                               ("photos", sets.photographs(), 224, 60)):
        lines = []
        for kind, (path, form) in stored(forebay, folder, name, say).items():
            for latency in (0.0, NUS_LATENCY_MS):
                for cores in (1, 2):
                    run = forebay.feed(plain(path, size, 64, WARM + (steps // 10 if quick else steps), **{
                        "dataset.format": form, "storage.latency_ms": latency, "workers.io": NUS_READERS,
                        "workers.decode": cores}), cores)
                    lines.append({"stored": kind, "latency_ms": latency, "cores": cores,
                                  "images_per_s": round(run.images_per_s(WARM))})
                    say(f"nus: {name}, {kind}, {latency} ms, {cores} cores: {lines[-1]['images_per_s']} images/s")
        tables.append({"data": about, "lines": lines})
    return {"tables": tables}


def dali(forebay, sets, quick, say):
    folder, about = sets.photographs()
    ways = stored(forebay, folder, "photos", say)
    lines = []
    for kind, (path, form) in ways.items():
        for jpeg in ("turbo", "own"):
            run = forebay.feed(plain(path, 224, 64, WARM + (6 if quick else 80), **{
                "dataset.format": form, "workers.jpeg": jpeg, "workers.decode": 2}))
            lines.append({"reader": kind, "jpeg": jpeg, "images_per_s": round(run.images_per_s(WARM))})
            say(f"dali: {kind}, {jpeg}: {lines[-1]['images_per_s']} images/s")
    return {"data": about, "lines": lines}
