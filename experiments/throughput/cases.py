"""What is measured: each case gives rows (loaders, settings) that are run in turn, and what must hold of them. Beside plain
files these are small PNG files and containers, each read by Forebay and by the loaders whose users keep such data, and a
trainer that takes a core, its step computing for STEP_MS when it has a core to itself. Every peer has several ways to be
set up; the first one listed is the fastest by measurement (`--variants all`)."""

import os
import statistics
import subprocess
import sys
from collections import namedtuple

from bench import (BATCH, PEERS, WANTED, Failed, Resident, Row, script_of, threads_of, title_of,
                   variant_of)
from case import Case, Check, config_file, ratio, read_once
from views import several_views

WANTED_OF_BARE = 0.95
WANTED_OF_PYTHON = 0.98
WANTED_OF_FIXED = 0.95
WANTED_OF_AUTO = 0.97  # of queue.capacity = 16
MOST_MB_OF_AUTO = 300
MOST_OVERHEAD_US = 2.0
SAME_VALUES = 0.15  # mean and deviation (about 1.2) of normalised values; 3 standard errors of the batches looked at


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


def queues(bench, data, only, variants):
    """A queue that grows beside a deep and a shallow one."""
    if "forebay" not in only:
        return None
    images, about = data.photographs()
    config = config_file(bench, "queue", "filelist", images, 224)
    cores = len(bench.cores)
    rows = {capacity: Row(f"queue.capacity = {capacity}", lambda capacity=capacity: bench.forebay(
        config, cores, [f"workers.decode={cores}", f"queue.capacity={capacity}"])) for capacity in (16, 2, "auto")}

    def checks():
        return [Check("queue: images/s, auto / 16", ratio(rows, "auto", 16), WANTED_OF_AUTO),
                Check("queue: MB of auto", rows["auto"].median_of("pss_mb"), MOST_MB_OF_AUTO, at_most=True)]

    return Case("queue", f"Capacities of the queue, photographs ({about})", list(rows.values()), checks)


WANTED_OF_CONTAINERS = 1.5
PEER_WARM_UP_S = 5  # when it starts

# kind of data: {loader: ways to set it up}, as in bench.py
TF_JPEG = ("2 fast", "2", "4 fast")
DALI_JPEG = ("3 fast", "2 fast", "4 fast", "2")
PYTHON_JPEG = ("2 cv2", "2 simplejpeg", "3 simplejpeg", "4 simplejpeg", "2 pil")
READERS = {
    "png": {"tfdata": ("2", "4"), "webdataset": ("2 cv2", "3 cv2", "2 pil"), "dali": ("2", "3", "4"),
            "pytorch": ("3 cv2", "2 cv2", "2 pil")},
    "tfrecord": {"tfdata": TF_JPEG, "dali": DALI_JPEG},
    "webdataset": {"webdataset": PYTHON_JPEG, "dali": DALI_JPEG},
    "lmdb": {"tfdata": TF_JPEG, "dali": DALI_JPEG, "pytorch": PYTHON_JPEG},
}
TITLES = {"png": "CIFAR-10 PNG files, whole images of 32 x 32", "tfrecord": "Photographs in TFRecord, 224 x 224",
          "webdataset": "Photographs in WebDataset tar, 224 x 224", "lmdb": "Photographs in LMDB (Caffe), 224 x 224"}
FORMATS = {"png": "filelist", "tfrecord": "tfrecord", "webdataset": "webdataset", "lmdb": "lmdb"}


class ResidentCase(Case):
    """Peers that stay are ended when the case is over."""

    def __init__(self, *arguments, residents, reference, **more):
        super().__init__(*arguments, **more)
        self.residents, self.reference = residents, reference

    def run(self, rounds, say):
        try:
            super().run(rounds, say)
        finally:
            for resident in self.residents:
                resident.close()


def python_with_lmdb(bench):
    """Writes all containers; without it there is no LMDB."""
    for environment in ("torch", "dali", "tf"):
        python = os.path.join(bench.peers, environment, "bin", "python")
        if os.path.exists(python) and subprocess.run([python, "-c", "import lmdb"], capture_output=True,
                                                     check=False).returncode == 0:
            return python
    return None


def container(bench, images, kind):
    """The folder of a container with the images of a list, written unless it is there for the same list."""
    folder = os.path.join(bench.folder, os.path.splitext(os.path.basename(images))[0] + "-containers")
    target = os.path.join(folder, kind)
    mark = os.path.join(folder, kind + ".list")
    with open(images, encoding="utf-8") as file:
        listed = file.read()
    if os.path.isdir(target) and os.path.exists(mark):
        with open(mark, encoding="utf-8") as file:
            if file.read() == listed:
                return target
    python = python_with_lmdb(bench) if kind == "lmdb" else sys.executable
    os.makedirs(folder, exist_ok=True)
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "containers.py")
    subprocess.run([python, script, images, folder, kind], check=True)
    with open(mark, "w", encoding="utf-8") as file:
        file.write(listed)
    return target


def peer_row(bench, peer, variant, what, like):
    """A row, and the process that stays for it. `what`: kind of data, its path, the side of a batch's images."""
    python = os.path.join(bench.peers, PEERS[peer].environment, "bin", "python")
    crop = "none" if what.case == "png" else "random"
    command = [python, script_of("common.py"), PEERS[peer].code, what.path, f"--kind={what.kind}", f"--crop={crop}",
               f"--threads={threads_of(variant)}", f"--variant={variant_of(variant)}"]
    stays = Resident(command, bench.cores, PEER_WARM_UP_S, what.size)
    return Row(f"{peer}, {variant}", lambda: like_the_bare_loop(stays.turn(bench.warm_s, bench.seconds), like())), stays


What = namedtuple("What", "case kind path size")


def container_case(name):
    is_png = name == "png"
    size = 32 if is_png else 224
    overrides = ['transform.crop="none"'] if is_png else []

    def source(bench, images, peer):
        """What a loader reads."""
        if is_png and peer != "webdataset":
            return What(name, "files", images, size)
        kind = "webdataset" if is_png else name
        path = container(bench, images, kind)
        read_once(path)
        return What(name, kind, path, size)

    def case(bench, data, only, variants):
        if name == "lmdb" and python_with_lmdb(bench) is None:
            print("\nThe case 'lmdb' is left out: py-lmdb, which writes it, is not installed (peers/setup)")
            return None
        images, about = data.small_png() if is_png else data.photographs()
        config = config_file(bench, f"container-{name}", FORMATS[name], source(bench, images, "forebay").path, size)
        cores = len(bench.cores)
        rows, residents = {}, []
        if "bare" in only:
            rows["bare", cores] = Row(f"bare loop, {cores} threads", lambda: bench.bare(config, cores, overrides))
        if "forebay" in only:
            rows["forebay", cores] = Row(f"forebay, {cores} decoders", lambda: bench.forebay(
                config, cores, [*overrides, f"workers.decode={cores}"]))
        for peer in (peer for peer in READERS[name] if peer in only):
            for variant in READERS[name][peer][:None if variants == "all" else 1]:
                rows[peer, variant], stays = peer_row(bench, peer, variant, source(bench, images, peer),
                                                      lambda: rows.get(("bare", cores)))
                residents.append(stays)

        def checks():
            return [Check(f"{name}: forebay / {peer}", ratio(rows, ("forebay", cores), best_of(rows, peer)),
                          WANTED_OF_CONTAINERS)
                    for peer in READERS[name]]

        return ResidentCase(name, f"{TITLES[name]} ({about})", list(rows.values()), checks,
                            rows.get(("bare", cores)), residents=residents, reference=rows.get(("forebay", cores)))

    return case


STEP_MS = 50
TRAINER_WARM_UP_S = 2
WANTED_BESIDE_TRAINER = 1.1  # of any loader's images per second


def work_of_a_step(bench):
    """Bytes to hash in a step, by the interpreter that the loaders run in."""
    python = bench.python_of(PEERS["forebay-python"].environment)
    done = subprocess.run(["taskset", "-c", str(bench.cores[0]), python, "-c",
                           "import measuring; print(measuring.hashed_per_second())"], check=True, text=True,
                          capture_output=True, cwd=os.path.dirname(script_of("measuring.py")))
    return int(float(done.stdout) * STEP_MS / 1000)


class Beside:
    """A loader with a trainer in its process; started when it is first measured."""

    def __init__(self, bench, peer, way, what, amount):
        self.bench, self.peer, self.way, self.what, self.amount = bench, peer, way, what, amount
        self.resident = None

    def turn(self):
        if self.resident is None:
            command = self.bench.command_of(self.peer, self.what, self.way)
            self.resident = Resident([*command, f"--trainer={self.amount}"], self.bench.cores, TRAINER_WARM_UP_S, 224)
        return self.resident.turn(self.bench.warm_s / 2, self.bench.seconds)

    def close(self):
        if self.resident:
            self.resident.close()


def beside_a_trainer(bench, data, only, variants):
    try:
        amount = work_of_a_step(bench)
    except (Failed, subprocess.CalledProcessError) as why:
        print(f"\nThe case 'trainer' is left out: {why}", file=sys.stderr)
        return None
    images, about = data.photographs()
    config = config_file(bench, "trainer", "filelist", images, 224)
    rows, loaders = {}, []
    for peer in (peer for peer in PEERS if peer in only):
        ways = {PEERS[peer].beside_trainer, *(PEERS[peer].ways if variants == "all" else ())}
        for way in sorted(ways):
            loader = Beside(bench, peer, way, config if peer == "forebay-python" else images, amount)
            loaders.append(loader)
            rows[peer, way] = Row(title_of(peer, way), lambda loader=loader: like_the_bare_loop(
                loader.turn(), rows.get(forebay)))
    forebay = ("forebay-python", PEERS["forebay-python"].beside_trainer)

    def checks():
        return [Check(f"beside a trainer: forebay-python / {key[0]}", ratio(rows, forebay, key), WANTED_BESIDE_TRAINER)
                for key in rows if key != forebay and key[1] == PEERS[key[0]].beside_trainer]

    return ResidentCase("trainer", f"Beside a trainer that computes for {STEP_MS} ms per batch ({about})",
                        list(rows.values()), checks, residents=loaders, reference=rows.get(forebay))


CASES = {"photos": photographs, "small": small_images, "trainer": beside_a_trainer, "queue": queues,
             "views": several_views,
             **{name: container_case(name) for name in READERS}}
