"""The cases beside plain files: small PNG files and containers, each read by Forebay and by the loaders whose users keep
such data; and a trainer that takes a core, its step computing for STEP_MS when it has a core to itself. Every peer has
several ways to be set up; the first one listed is the fastest by measurement (`--variants all`)."""

import os
import subprocess
import sys
from collections import namedtuple

from bench import Failed, Resident, Row, script_of
from cases import CASES, Case, Check, best_of, config_file, like_the_bare_loop, ratio
from loaders import PEERS, threads_of, title_of, variant_of

WANTED_OF_CONTAINERS = 1.5
PEER_WARM_UP_S = 5  # when it starts

# kind of data: {loader: ways to set it up}, as in loaders.py
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


def read_once(path):
    """Brings a container into the page cache."""
    for name in os.listdir(path):
        with open(os.path.join(path, name), "rb", buffering=0) as file:
            while file.read(1 << 22):
                pass


def peer_row(bench, peer, variant, what, like):
    """A row, and the process that stays for it. `what`: kind of data, its path, the side of a batch's images."""
    python = os.path.join(bench.peers, PEERS[peer].environment, "bin", "python")
    crop = "none" if what.case == "png" else "random"
    command = [python, script_of("peer.py"), PEERS[peer].code, what.path, f"--kind={what.kind}", f"--crop={crop}",
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


ALL_CASES = {**CASES, "trainer": beside_a_trainer,
             **{name: container_case(name) for name in READERS}}
