"""Makes one run: simulates it, then trains on what the simulation recorded. And makes the data of a task ready: unpacked, sorted or generated in the work folder, once."""

import collections
import dataclasses
import gzip
import json
import pathlib
import shutil
import subprocess
import tempfile

from study.design import ARMS, POINTS, SOURCE_OPTIONS, TASKS
from study.results import Result

HERE = pathlib.Path(__file__).resolve().parents[1]
CEILING_RATIO = 0.01  # of a store that never keeps anybody waiting
SPLIT = (("dataset.split", "[0.9, 0.1]"), ("dataset.part", 0))  # the rest is for tuning


class Failed(Exception):
    """A program of a run ended with an error."""


@dataclasses.dataclass
class Machine:
    """Where the programs and the data are."""

    build: pathlib.Path
    data: pathlib.Path
    work: pathlib.Path  # a folder for what is made on the way
    points: int = POINTS
    scale: float = 1.0  # of the length of runs, for a quick look
    ahead_of_others: bool = False  # real runs: scheduled before other programs

    def steps(self, run):
        return round(ARMS[run.arm].steps(TASKS[run.cell.task], run.cell.ratio) * self.scale)

    def program(self, name):
        path = self.build / "bin" / name
        if not path.exists():
            raise Failed(
                f"{path} does not exist; build it: cmake --preset release -DFOREBAY_EXPERIMENTS=ON && "
                "cmake --build --preset release --target forebay_command study_trainer"
            )
        return str(path)

    def key_options(self, pairs, flag="--set"):
        """Options of a command that set keys; paths are below the data's folder, or below the work folder if made."""
        words = []
        for key, value in pairs:
            if key == "dataset.path":
                root = self.data if (self.data / value).exists() else self.work
                value = json.dumps(str(root / value))
            words += [flag, f"{key}={value}"]
        return words

    def config(self, run):
        task, arm = TASKS[run.cell.task], ARMS[run.arm]
        return [str(HERE / "study.toml"), *self.key_options((("seed", run.seed), *task.train, *SPLIT, *arm.keys))]

    def held_out(self, run):
        pairs = (
            (("dataset.part", 1), ("dataset.fraction", 0.5)) if run.stage == "tune" else TASKS[run.cell.task].held_out
        )
        return self.key_options(pairs, "--held-out")


def call(words):
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failed(f"{' '.join(words)}\nended with {done.returncode}: {(done.stderr or done.stdout).strip()[-800:]}")
    return done.stdout


@dataclasses.dataclass(frozen=True)
class Schedule:
    """When the steps of a run were served, and what they served."""

    times: list  # in steps
    fresh: float
    stall: float
    uses: tuple


def read_schedule(folder, until, unit=1.0):
    """Of the steps that ended by `until`; times in the files are in units of so many seconds."""
    times, uses, waited, fresh = [], collections.Counter(), 0.0, 0
    with open(pathlib.Path(folder) / "steps.0.jsonl", encoding="utf-8") as lines:
        for line in lines:
            step = json.loads(line)
            served = step["t_s"] / unit
            if served + 1 > until + 1e-6:
                waited += max(0.0, until - (served - step["wait_s"] / unit)) if times else 0.0
                break
            waited += step["wait_s"] / unit if times else 0.0
            times.append(served)
            fresh += step["use_index"] == 0
            uses[step["epoch"], step["batch"]] += 1
    counts = sorted(uses.values())
    middle = (counts[len(counts) // 2], counts[min(len(counts) - 1, int(0.99 * len(counts)))], counts[-1])
    return Schedule(times, fresh / len(times), waited / until, middle)


def simulate(machine, run, folder):
    arm = ARMS[run.arm]
    source = SOURCE_OPTIONS[run.cell.source] if arm.throttled else SOURCE_OPTIONS["steady"]
    ratio = run.cell.ratio / arm.views if arm.throttled else CEILING_RATIO
    until = machine.steps(run)
    call(
        [
            machine.program("forebay"),
            "simulate",
            *machine.config(run),
            "--policy",
            arm.policy,
            "-R",
            str(ratio),
            *source,
            "--steps",
            str(until),
            "--seed",
            str(run.seed),
            "--record",
            str(folder),
            "--no-optimum",
        ]
    )
    return read_schedule(folder, until)


def train(machine, run, policy, extra):
    words = [
        machine.program("study_trainer"),
        *machine.config(run),
        *machine.key_options(policy),
        *machine.held_out(run),
        "--net",
        TASKS[run.cell.task].net,
        "--until",
        str(machine.steps(run)),
        "--lr",
        str(run.rate),
        "--curve",
        str(machine.points),
        *extra,
    ]
    return json.loads(call(words))


def make(machine, run):
    """The result of a run in virtual time."""
    machine.work.mkdir(parents=True, exist_ok=True)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="run.", dir=machine.work))
    try:
        schedule = simulate(machine, run, folder / "recording")
        times = folder / "times"
        times.write_text("\n".join(f"{time:.6f}" for time in schedule.times) + "\n", encoding="utf-8")
        arm = ARMS[run.arm]
        policy = [("policy.name", "replay"), ("policy.recording", json.dumps(str(folder / "recording")))]
        extra = ["--times", str(times)]
        if arm.echo:
            policy = [("policy.name", "block")]
            extra += ["--echo", str(arm.echo)]
        if arm.nodes:
            policy = [("policy.name", "block")]
            extra += ["--nodes", str(arm.nodes), *(["--by-class"] if arm.by_class else [])]
        if arm.weight:
            extra += ["--weight-from", str(arm.weight[0]), "--weight-power", str(arm.weight[1]), "--weigh", arm.weighs]
        made = train(machine, run, policy, extra)
    finally:
        shutil.rmtree(folder)
    if made["steps"] != len(schedule.times):
        raise Failed(f"{run}: the trainer made {made['steps']} steps, the recording has {len(schedule.times)}")
    return Result(
        run,
        tuple(made["right"]),
        made["of"],
        made["steps"],
        schedule.fresh,
        schedule.stall,
        schedule.uses,
        made["cpu_s"],
    )


# Data


def unpack_file(source, target):
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_suffix(".partial")
    with gzip.open(source) as packed, open(partial, "wb") as unpacked:
        shutil.copyfileobj(packed, unpacked)
    partial.rename(target)


def make_shapes(machine):
    if (machine.work / "made").exists():
        return None
    options = {"--layout": "folder", "--images": 3000, "--classes": 8, "--size": "32x32", "--split": 0.2, "--seed": 17}
    words = [str(word) for option in options.items() for word in option]
    call([machine.program("forebay"), "make-dataset", str(machine.work / "made"), *words])
    return "made 3,000 images of shapes"


def unpack_fashion(machine):
    unpacked = machine.work / "fashion-mnist"
    if (unpacked / "train-labels-idx1-ubyte").exists():
        return None
    for part in ("t10k-images-idx3", "t10k-labels-idx1", "train-images-idx3", "train-labels-idx1"):
        unpack_file(machine.data / "fashion-mnist" / f"{part}-ubyte.gz", unpacked / f"{part}-ubyte")
    return "unpacked Fashion-MNIST"


def unpack_cifar(machine):
    if (machine.work / "cifar10").exists() or (machine.data / "cifar10" / "train").exists():
        return None
    partial = emptied(machine.work / "cifar10.partial")
    call(["tar", "-C", str(partial), "-xf", str(machine.data / "cifar10" / "cifar10-jpg-20000-train-4000-test.tar")])
    partial.rename(machine.work / "cifar10")
    return "unpacked CIFAR-10"


def sort_bccd(machine):
    """A tree for each part that the set itself is divided into: by images, so that no image is in both."""
    if (machine.work / "bccd").exists():
        return None
    source, partial = machine.data / "voc" / "bccd", emptied(machine.work / "bccd.partial")
    for part in ("trainval", "test"):
        names = (source / "ImageSets" / "Main" / f"{part}.txt").read_text(encoding="utf-8").split()
        for folder, ending in (("JPEGImages", ".jpg"), ("Annotations", ".xml")):
            (partial / part / folder).mkdir(parents=True)
            for name in names:
                (partial / part / folder / (name + ending)).symlink_to((source / folder / (name + ending)).resolve())
    partial.rename(machine.work / "bccd")
    return "divided BCCD"


def emptied(folder):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


PREPARE = {
    "made": make_shapes,
    "fashion": unpack_fashion,
    "fashion-few": unpack_fashion,
    "cifar": unpack_cifar,
    "cifar-small": unpack_cifar,
    "cifar-norm": unpack_cifar,
    "objects": sort_bccd,
}


def prepare(machine, task):
    """Says what it did, or None if there was nothing to do."""
    return PREPARE[task.removesuffix("-long")](machine)
