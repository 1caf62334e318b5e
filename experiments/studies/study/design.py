"""What is compared: tasks (data, net, length of a run), arms (what is done while storage is behind), sources."""

import dataclasses
import pathlib

RATIOS = (3.0, 0.8, 6.0, 1.5, 12.0)  # in the order in which they are studied
SOURCES = ("exponential", "outages", "steady")
FIRST_SEEDS = 2  # that every arm gets; who gets more is decided by results (plan.py)
MOST_SEEDS = 8
PROOF_SEEDS = 101  # and on: seeds on which nothing was chosen (limits.py)
TUNING_SEED = 1001  # learning rates are chosen with a seed of their own, on a part of the training set
TUNING_SOURCE = "exponential"
POINTS = 10  # of a curve
BATCH = 32  # study.toml's

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


def _fashion(name, title, fraction, steps=1000):
    return Task(
        name=name,
        title=title,
        net="small",
        steps=steps,
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


def _cifar(name, title, net, steps, rate=0.05):
    return Task(
        name=name,
        title=title,
        net=net,
        steps=steps,
        rate=rate,
        train=(("dataset.path", "cifar10/train"), ("dataset.format", "folder"), ("transform.size", "[32, 32]")),
        held_out=(("dataset.path", "cifar10/test"), ("dataset.split", "[]"), ("dataset.part", 0)),
        needs="cifar10",
    )


TASKS = {
    task.name: task
    for task in (
        _fashion("fashion", "Fashion-MNIST", 1.0),
        _fashion("fashion-few", "Fashion-MNIST, 1 image in 30", 1 / 30),
        _fashion("fashion-few-long", "Fashion-MNIST, 1 image in 30, six times as long", 1 / 30, 6000),
        _cifar("cifar-small", "CIFAR-10, 20,000 images, the small net", "small", 1000),
        _cifar("cifar-small-long", "CIFAR-10, 20,000 images, the small net, six times as long", "small", 6000),
        _cifar("cifar-norm-long", "CIFAR-10, 20,000 images, the small net with batch statistics, long", "norm", 6000),
        _cifar("cifar", "CIFAR-10, 20,000 images", "cnn", 1500),
        Task(
            name="objects",
            title="Objects of BCCD, a detection set",
            net="small",
            steps=1000,
            rate=0.02,
            train=(("dataset.path", "bccd/trainval"), ("dataset.format", "voc"), ("transform.size", "[32, 32]")),
            held_out=(("dataset.path", "bccd/test"), ("dataset.split", "[]"), ("dataset.part", 0)),
            needs="voc/bccd/ImageSets",
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
    """What is done while storage is behind. `echo`: example-level data echoing in place of a policy.

    `weight`: (s, p) - the loss of a batch's n-th use counts min(1, (s / n)^p); `weighs`: what is multiplied by it.
    `share`: of the task's time that the run lasts, schedule and all. `uses`: of each of the batches that the source
    gives in a run; nobody waits, and the run lasts as long as that takes. `views`: of each sample in a batch. The rows
    of a batch stay the same, and so what a step costs; if it is `wide` the samples do, and a step costs `views` units.
    `nodes`: a step averages over a batch of each, and costs `cost` units; if `by_class`, each has a piece of the data
    sorted by class.
    """

    name: str
    policy: str
    keys: tuple = ()
    echo: int = 0
    throttled: bool = True
    weight: tuple = ()
    weighs: str = "loss"
    share: float = 1.0
    uses: int = 0
    views: int = 1
    wide: bool = False
    nodes: int = 0
    cost: int = 1
    by_class: bool = False
    tuned_as: str = ""  # the arm whose learning rate it takes; empty: its own

    @property
    def interval(self):
        return int(dict(self.keys).get("policy.interval", 1))

    def steps(self, task, ratio):
        """The length of a run, in times of a step (of a wide arm: of its steps)."""
        if self.uses:
            return round(task.steps / ratio) * self.uses
        return round(task.steps * self.share / (self.cost * (self.views if self.wide else 1)))


# The arms that the falsifier is about: Forebay's defaults, and those before the first answer (docs/decisions/0024).
DEFAULT = "adaptive.queue12.pool8.auto"
ADAPTIVE = "adaptive.pool4"
REUSE = f"{DEFAULT}.dequeue"


def _arms():
    yield Arm(DEFAULT, "adaptive", (("queue.capacity", 12), ("queue.pool", 8), ("policy.max_uses", "auto")))
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


DEQUEUE = (("transform.when", "dequeue"),)
# What may limit reuse, beside the pool and new views: a cap, or a weight of the n-th use.
LIMITS = {
    **{f"cap{cap}": {"keys": (("policy.max_uses", cap),)} for cap in (2, 4, 6, 8, 16)},
    "auto": {"keys": (("policy.max_uses", "auto"),)},
    "inverse": {"weight": (1, 1)},  # 1 / n
    "root": {"weight": (1, 0.5)},  # 1 / sqrt(n)
    "rootrate": {"weight": (1, 0.5), "weighs": "rate"},
    "soft4": {"weight": (4, 1)},  # 4 / n from the fourth use on: a batch counts the less the longer it stays
    "soft8": {"weight": (8, 1)},
}
SHARES = (50, 31, 20)  # of a run's time in percent; 31: 1 / 3.25


def _adaptive(pool, limit, when, capacity=16):
    name = "adaptive" if capacity == 16 else f"adaptive.queue{capacity}"
    name = f"{name}.pool{pool}" if pool != 4 or not limit else name
    added = LIMITS.get(limit, {})
    queue = () if capacity == 16 else (("queue.capacity", capacity),)
    keys = (*queue, ("queue.pool", pool), *added.get("keys", ()), *(DEQUEUE if when else ()))
    return Arm(f"{name}{limit and '.'}{limit}{when}", "adaptive", **{**added, "keys": keys})


def _limit_arms():
    """The arms of the question what limits reuse."""
    for when in ("", ".dequeue"):
        for pool in (4, 8, 16, 32):
            for limit in ("", *LIMITS):
                yield _adaptive(pool, limit, when)
        # The memory of a queue of 16 and a pool of 4, 21 batches, shared out otherwise.
        for capacity, pool in ((8, 12), (12, 8)):
            for limit in ("", *LIMITS):
                yield _adaptive(pool, limit, when, capacity)
        for uses in (1, 2, 4, 8, 16):
            if uses > 1 or not when:
                keys = (("policy.interval", uses), *(DEQUEUE if when else ()))
                yield Arm(f"uses{uses}{when}", "interval", keys, throttled=False, uses=uses)


def _view_arms():
    """The arms of the question whether several views of a sample in a batch are worth more than reuse."""
    for base in ("block", REUSE):
        for views in (2, 4):
            arm = dataclasses.replace(ARMS[base], keys=(*ARMS[base].keys, ("transform.views", views)), views=views)
            keys = (*arm.keys, ("dataset.batch_size", BATCH // views))
            yield dataclasses.replace(arm, name=f"{base}.views{views}", keys=keys)
            yield dataclasses.replace(arm, name=f"{base}.wide{views}", wide=True)
            if base == REUSE:  # as many samples in memory
                keys = (*keys, ("queue.capacity", 12 * views), ("queue.pool", 8 * views))
                yield dataclasses.replace(arm, name=f"{base}.views{views}.memory", keys=keys)


def _node_arms():
    """The arms of the question what it costs if each node keeps its own samples (dataset.order = "local")."""
    nodes, rows = 8, 16
    keys = (("dataset.batch_size", rows),)
    whole = Arm("nodes8", "block", keys, throttled=False, nodes=nodes, cost=nodes * rows // BATCH)
    yield whole
    for ending, exchange in (("", 0), (".exchange10", 0.1)):
        local = (("dataset.order", "local"), ("dataset.nodes", nodes), ("dataset.exchange", exchange))
        yield dataclasses.replace(whole, name=f"nodes8.local{ending}", keys=(*keys, *local), tuned_as="nodes8")
    yield dataclasses.replace(whole, name="nodes8.sorted", by_class=True, tuned_as="nodes8")


def _shorter(arms):
    for arm in arms:
        if not arm.uses:
            for percent in (90, *SHARES):
                share = 1 / 3.25 if percent == 31 else percent / 100
                name = f"{arm.name}.in{percent}"
                yield dataclasses.replace(arm, name=name, share=share, tuned_as=arm.name)
                yield dataclasses.replace(arm, name=f"{name}.tuned", share=share)


ARMS = {arm.name: arm for arm in _arms()}
# In the order in which they are studied.
ORDER = (
    "block",
    DEFAULT,
    ADAPTIVE,
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
ARMS = {**{arm.name: arm for arm in _limit_arms()}, **ARMS}  # the others are run if they are asked for
ARMS.update({arm.name: arm for arm in list(_shorter(ARMS.values()))})
ARMS.update({arm.name: arm for arm in (*_view_arms(), *_node_arms())})
INTERVALS = ("block", "interval2", "interval4", "interval8", "interval16")  # block is interval 1


@dataclasses.dataclass(frozen=True)
class Cell:
    """Where arms are compared."""

    task: str
    ratio: float
    source: str

    def of(self, arm):
        """The cell in which an arm is kept: the ceiling has no source."""
        if ARMS[arm].throttled:
            return self
        return Cell(self.task, self.ratio if ARMS[arm].uses else 0.0, "none")


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
