"""What is measured: each case gives rows (loaders, settings) that are run in turn, and what must hold of them."""

import os
import statistics

from bench import BATCH, Failed, Row, interleave
from loaders import PEERS, WANTED, title_of

WANTED_OF_BARE = 0.95
WANTED_OF_PYTHON = 0.98
WANTED_OF_FIXED = 0.95
MOST_OVERHEAD_US = 2.0
SAME_VALUES = 0.15  # mean and deviation (about 1.2) of normalised values; 3 standard errors of the batches looked at

COMMON = """\
[dataset]
format = "{format}"
path = "{path}"
batch_size = {batch}
[transform]
crop = "random_resized"
size = [{size}, {size}]
mirror = 0.5
[queue]
capacity = 16
pool = 1
[policy]
name = "block"
[telemetry]
dir = ""
per_step = true
decisions = false
interval_s = 0
live = "never"
[trainer]
step_ms = 0
[run]
steps = 1000000000
"""


class Check:
    """A figure against what was wanted of it; without a figure it is open, not passed."""

    def __init__(self, name, value, wanted, at_most=False):
        self.name, self.value, self.wanted, self.at_most = name, value, wanted, at_most

    @property
    def passed(self):
        if self.value is None:
            return None
        return self.value <= self.wanted if self.at_most else self.value >= self.wanted

    def __str__(self):
        figure = "not measured" if self.value is None else f"{self.value:.3f}"
        says = {True: "pass", False: "FAIL", None: "open"}[self.passed]
        return f"{says}  {self.name:<58} {figure:>12}  wanted {'<=' if self.at_most else '>='} {self.wanted}"

    def to_json(self):
        return {"name": self.name, "value": self.value, "wanted": self.wanted, "passed": self.passed}


class Case:
    reference = None  # a row that the others are compared with

    def __init__(self, name, title, rows, checks, base=None):
        self.name, self.title, self.rows, self._checks, self.base = name, title, rows, checks, base

    def run(self, rounds, say):
        interleave(self.rows, rounds, say)

    def checks(self):
        return self._checks()


def config_file(bench, name, form, path, size):
    file = os.path.join(bench.folder, f"{name}.toml")
    with open(file, "w", encoding="utf-8") as out:
        out.write(COMMON.format(format=form, path=path, batch=BATCH, size=size))
    return file


def decoders(count):
    return f"{count} decoder" + ("s" if count > 1 else "")


def ways_of(peer, variants):
    return PEERS[peer].ways[:None if variants == "all" else 1]


def against_everything(bench, name, what, size, only, variants):
    """Rows of the bare loop, Forebay and every peer over one list; also each by its name."""
    images, about = what
    config = config_file(bench, name, "filelist", images, size)
    counts = sorted({1, len(bench.cores)})
    rows = {}

    def add(key, title, run):
        rows[key] = Row(title, run)

    # Beside each other: these two are compared most closely.
    for count in counts:
        if "bare" in only:
            add(("bare", count), f"bare loop, {count} thread" + "s" * (count > 1),
                lambda count=count: bench.bare(config, count))
        if "forebay" in only:
            add(("forebay", count), f"forebay, {decoders(count)}",
                lambda count=count: bench.forebay(config, count, [f"workers.decode={count}"]))
    if "forebay" in only:
        add(("forebay", "auto"), "forebay, auto", lambda: bench.forebay(config, len(bench.cores)))
    for peer in only:
        if peer in ("bare", "forebay"):
            continue
        reads = config if peer == "forebay-python" else images
        for way in ways_of(peer, variants):
            add((peer, way), title_of(peer, way), lambda peer=peer, way=way, reads=reads: like_the_bare_loop(
                bench.peer(peer, reads, way, size), rows.get(("bare", counts[-1]))))
    return rows, counts, about


def like_the_bare_loop(result, bare):
    """The result of a peer, unless its values are not those of the same work: the bare loop's, or another row's."""
    if bare and bare.rates:
        for figure in ("mean", "std"):
            difference = abs(result[figure] - statistics.median(run[figure] for run in bare.results))
            if difference > SAME_VALUES:
                raise Failed(f"the {figure} of its values is off by {difference:.3f}: not the same work")
    return result


def ratio(rows, key, other):
    return rows[key].ratio_to(rows[other]) if key in rows and other in rows else None


def best_of(rows, peer):
    """The key of the best way to set a peer up."""
    keys = [key for key in rows if key[0] == peer and rows[key].median]
    return max(keys, key=lambda key: rows[key].median, default=None)


def photographs(bench, data, only, variants):
    rows, counts, about = against_everything(bench, "photos", data.photographs(), 224, only, variants)

    def checks():
        for count in counts:
            yield Check(f"photographs: forebay / bare loop, {decoders(count)}",
                        ratio(rows, ("forebay", count), ("bare", count)), WANTED_OF_BARE)
        python = best_of(rows, "forebay-python")
        yield Check("photographs: forebay-python / forebay", ratio(rows, python, ("forebay", counts[-1])),
                    WANTED_OF_PYTHON)
        for peer, wanted in WANTED.items():
            yield Check(f"photographs: forebay-python / {peer}, {len(bench.cores)} cores",
                        ratio(rows, python, best_of(rows, peer)), wanted)
        yield Check("photographs: forebay auto / best fixed",
                    best_fixed(rows, ("forebay", "auto"), [("forebay", count) for count in counts]), WANTED_OF_FIXED)

    return Case("photos", f"Photographs, 224 x 224 ({about})", list(rows.values()), lambda: list(checks()),
                rows.get(("bare", counts[-1])))


def best_fixed(rows, auto, fixed):
    """auto / the best of the fixed settings, the median over the rounds. Which setting is the best is found in the
    other rounds: the best of several that are alike, chosen by the same figures, would be favoured by noise."""
    settings = [rows[key] for key in fixed if key in rows and rows[key].rates]
    if not settings or auto not in rows or not rows[auto].rates:
        return None

    def others(row, number):
        return statistics.median(row.rates[:number] + row.rates[number + 1:] or row.rates)

    return statistics.median(rate / max(settings, key=lambda row: others(row, number)).rates[number]
                             for number, rate in enumerate(rows[auto].rates))


def small_images(bench, data, only, variants):
    rows, counts, about = against_everything(bench, "small", data.small(), 32, only, variants)

    def overhead_us(count):
        """What an image costs a core in Forebay beyond what it costs in the bare loop."""
        forebay, bare = rows.get(("forebay", count)), rows.get(("bare", count))
        if not forebay or not bare or not forebay.rates or not bare.rates:
            return None
        return statistics.median(1e6 * count * (1 / a - 1 / b) for a, b in zip(forebay.rates, bare.rates, strict=False))

    def cpu_overhead_us(count):
        """The same in processor time, which other programs on the machine disturb less."""
        of = [rows.get((name, count)) for name in ("forebay", "bare")]
        return of[0].cpu_us - of[1].cpu_us if all(row and row.rates for row in of) else None

    def checks():
        for count in counts:
            for what, of in (("us", overhead_us), ("us of CPU", cpu_overhead_us)):
                yield Check(f"small images: overhead per image in {what}, {decoders(count)}", of(count),
                            MOST_OVERHEAD_US, at_most=True)

    return Case("small", f"Small images, 32 x 32 ({about})", list(rows.values()),
                lambda: list(checks()), rows.get(("bare", counts[-1])))


CASES = {"photos": photographs, "small": small_images}
