"""What is compared: tasks (data, net, length of a run), arms (what is done while storage is behind), sources."""

import dataclasses
import pathlib

RATIOS = (3.0, 0.8, 6.0, 1.5, 12.0)  # in the order in which they are studied
SOURCES = ("exponential", "outages", "steady")
FIRST_SEEDS = 2  # that every arm gets; who gets more is decided by results (plan.py)
MOST_SEEDS = 8
TUNING_SEED = 1001  # learning rates are chosen with a seed of their own, on a part of the training set
TUNING_SOURCE = "exponential"
POINTS = 10  # of a curve

# Options of `forebay simulate` for each. Outages: on average 100 steps on, 100 off.
SOURCE_OPTIONS = {
    "steady": ["--source", "constant"],
    "exponential": ["--source", "exponential"],
    "outages": ["--source", "outages", "--on", "100", "--off", "100"],
}


@dataclasses.dataclass(frozen=True)
class Task:
    """A dataset with a net. `steps`: the length of a run, in times of a step."""

    name: str
    title: str
    net: str
    steps: int
    rate: float  # the learning rate that tuning begins with
    train: tuple  # (key, value) pairs of the configuration
    held_out: tuple  # of the held-out data, on top of those
    needs: str  # a file or folder below the data's folder


def _fashion(name, title, fraction):
    return Task(
        name=name,
        title=title,
        net="small",
        steps=1000,
        rate=0.02,
        train=(
            ("dataset.path", "fashion-mnist/train-images-idx3-ubyte"),
            ("dataset.format", "idx"),
            ("dataset.fraction", fraction),
        ),
        held_out=(
            ("dataset.path", "fashion-mnist/t10k-images-idx3-ubyte"),
            ("dataset.split", "[]"),
            ("dataset.part", 0),
            ("dataset.fraction", 0.5),
        ),
        needs="fashion-mnist/train-images-idx3-ubyte.gz",
    )


TASKS = {
    task.name: task
    for task in (
        _fashion("fashion", "Fashion-MNIST", 1.0),
        _fashion("fashion-few", "Fashion-MNIST, 1 image in 30", 1 / 30),
        Task(
            name="cifar",
            title="CIFAR-10, 20,000 images",
            net="cnn",
            steps=1500,
            rate=0.05,
            train=(("dataset.path", "cifar10/train"), ("dataset.format", "folder"), ("transform.size", "[32, 32]")),
            held_out=(("dataset.path", "cifar10/test"), ("dataset.split", "[]"), ("dataset.part", 0)),
            needs="cifar10",
        ),
        Task(
            name="made",
            title="generated shapes (forebay make-dataset)",
            net="small",
            steps=1000,
            rate=0.02,
            train=(("dataset.path", "made/train"), ("dataset.format", "folder"), ("transform.size", "[32, 32]")),
            held_out=(("dataset.path", "made/val"), ("dataset.split", "[]"), ("dataset.part", 0)),
            needs="",
        ),
    )
}


@dataclasses.dataclass(frozen=True)
class Arm:
    """What is done while storage is behind. `echo`: example-level data echoing in place of a policy."""

    name: str
    policy: str
    keys: tuple = ()
    echo: int = 0
    throttled: bool = True

    @property
    def interval(self):
        return int(dict(self.keys).get("policy.interval", 1))


def _arms():
    both = (("", ()), (".dequeue", (("transform.when", "dequeue"),)))
    yield Arm("block", "block")
    yield Arm("ceiling", "block", throttled=False)
    for when, keys in both:
        for pool in (4, 1, 8):
            yield Arm(f"adaptive.pool{pool}{when}", "adaptive", (("queue.pool", pool), *keys))
        for interval in (2, 4, 8, 16):
            yield Arm(f"interval{interval}{when}", "interval", (("policy.interval", interval), *keys))
        yield Arm(f"greedy{when}", "greedy", keys)
    for cap in (4, 8, 16):
        yield Arm(f"adaptive.cap{cap}", "adaptive", (("policy.max_uses", cap),))
    for factor in (2, 4, 8, 16):
        # It takes a batch from storage as often as interval does, and waits for it as often.
        yield Arm(f"echo{factor}", "interval", (("policy.interval", factor),), echo=factor)


ARMS = {arm.name: arm for arm in _arms()}
# In the order in which they are studied.
ORDER = (
    "block",
    "adaptive.pool4",
    "interval4",
    "interval8",
    "interval2",
    "interval16",
    "adaptive.pool4.dequeue",
    "greedy",
    "ceiling",
    "echo4",
    "echo8",
    "adaptive.pool1",
    "adaptive.pool8",
    "echo2",
    "echo16",
    "adaptive.pool1.dequeue",
    "adaptive.pool8.dequeue",
    "adaptive.cap8",
    "adaptive.cap4",
    "adaptive.cap16",
    "interval4.dequeue",
    "interval8.dequeue",
    "interval2.dequeue",
    "interval16.dequeue",
    "greedy.dequeue",
)
assert sorted(ORDER) == sorted(ARMS)
ADAPTIVE = "adaptive.pool4"  # the default of Forebay
INTERVALS = ("block", "interval2", "interval4", "interval8", "interval16")  # block is interval 1


@dataclasses.dataclass(frozen=True)
class Cell:
    """Where arms are compared."""

    task: str
    ratio: float
    source: str

    def of(self, arm):
        """The cell in which an arm is kept: the ceiling has no source."""
        return self if ARMS[arm].throttled else Cell(self.task, 0.0, "none")


@dataclasses.dataclass(frozen=True)
class Run:
    """One training run. `stage`: "tune" chooses the learning rate, "study" counts."""

    stage: str
    cell: Cell
    arm: str
    seed: int
    rate: float

    @property
    def key(self):
        rate = f"{self.rate:.4g}" if self.stage == "tune" else ""
        return (self.stage, self.cell.task, self.cell.ratio, self.cell.source, self.arm, self.seed, rate)


def needed(task, data):
    """The path that a task needs, or None if it is there."""
    path = pathlib.Path(data) / task.needs
    return None if task.needs == "" or path.exists() else path
