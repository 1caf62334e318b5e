"""Forebay's four ways to read the same photographs, one after another and beside the loaders whose users convert their
data or would have to: the files decoded by libjpeg-turbo and by Forebay itself, with a decode index, packed, and packed
as pixels; FFCV with the files' own bytes and with its raw pixels, whole and of at most 256 on a side."""

import csv
import os
import shutil
import subprocess

from bench import Failed, Row
from cases import Case, Check, against_everything, config_file, decoders

PEERS_OF_CASE = ("pytorch", "dali", "tfdata", "ffcv")
RAW, SMALL_RAW = "raw", "raw256"  # variants of peers/ffcv_jpeg.py
PIXELS = 256  # the longest side of --pixels, and of FFCV's smaller raw images
WANTED = {"own": 1.35, "decode index": 1.9, "packed": 2.8}  # times libjpeg-turbo
WANTED_OF_RAW = 1.3
MOST_BYTES_OF_RAW = 0.2


def bytes_of(path):
    """Of a file, or of all files of a folder."""
    if os.path.isfile(path):
        return os.path.getsize(path)
    return sum(os.path.getsize(os.path.join(place, name)) for place, _, names in os.walk(path) for name in names)


def each_once(bench, images):
    """A list of the same images, each once: a set is packed once, however often an epoch repeats it."""
    path = os.path.join(bench.folder, "photos-once.list")
    with open(images, newline="", encoding="utf-8") as lines:
        rows = sorted({tuple(row) for row in csv.reader(lines) if row})
    with open(path, "w", newline="", encoding="utf-8") as out:
        csv.writer(out, lineterminator="\n").writerows(rows)
    return path


def command(bench, *arguments):
    done = subprocess.run([bench.forebay_command, *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failed(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "it ended without a word")


def ways_to_read(bench, images):
    """{variant: its settings}, and {variant: the bytes that it reads}."""
    index = os.path.join(bench.folder, "photos-once.index")
    packed = {name: os.path.join(bench.folder, f"photos-{name}") for name in ("packed", "pixels")}
    command(bench, "index", images, "--save", index, "--decode-index")
    for name, more in (("packed", ()), ("pixels", ("--pixels", str(PIXELS)))):
        shutil.rmtree(packed[name], ignore_errors=True)
        command(bench, "pack", images, packed[name], *more)
    with open(images, newline="", encoding="utf-8") as lines:
        files = sum(os.path.getsize(row[0]) for row in csv.reader(lines))
    settings = {"turbo": ["workers.jpeg=turbo"], "own": ["workers.jpeg=own"],
                "decode index": ["workers.jpeg=own", f'dataset.index="{index}"']}
    sizes = {"turbo": files, "own": files, "decode index": files + bytes_of(index + ".points")}
    for name, folder in packed.items():
        settings[name] = ["dataset.format=auto", f'dataset.path="{folder}"']
        sizes[name] = bytes_of(folder)
    return settings, sizes


def with_raw_ffcv(bench, rows, images, count):
    """FFCV's raw modes by so many threads."""
    for variant in (RAW, SMALL_RAW):
        way = f"{count} {variant}"
        rows["ffcv", way] = Row(f"ffcv, {way}", lambda way=way: bench.peer("ffcv", images, way, 224))


def raw_bytes(bench, images, variant):
    """Of FFCV's file, once it is written; None without FFCV."""
    scratch = os.path.join(bench.folder, os.path.splitext(os.path.basename(images))[0])
    path = os.path.join(scratch, f"{variant}.beton")
    return os.path.getsize(path) if os.path.exists(path) else None


def packed_photographs(bench, data, only, variants):
    if "forebay" not in only:
        return None
    images, about = data.photographs()
    once = each_once(bench, images)
    settings, sizes = ways_to_read(bench, once)
    config = config_file(bench, "packed-once", "filelist", once, 224)
    beside = [name for name in only if name == "bare" or name in PEERS_OF_CASE]
    rows, counts, _ = against_everything(bench, "packed", (images, about), 224, beside, variants)
    for count in counts:
        for name, more in settings.items():
            rows[name, count] = Row(f"forebay {name}, {decoders(count)}", lambda count=count, more=more: bench.forebay(
                config, count, [f"workers.decode={count}", *more]))
    if "ffcv" in only:
        with_raw_ffcv(bench, rows, images, counts[-1])

    def ratio(key, other):
        return rows[key].ratio_to(rows[other]) if key in rows and other in rows else None

    def checks():
        for count in counts:
            for name, wanted in WANTED.items():
                yield Check(f"forebay {name} / turbo, {decoders(count)}", ratio((name, count), ("turbo", count)), wanted)
        last = counts[-1]
        for name, variant in (("packed", RAW), ("pixels", SMALL_RAW)):
            yield Check(f"forebay {name} / ffcv {variant}, {decoders(last)}",
                        ratio((name, last), ("ffcv", f"{last} {variant}")), WANTED_OF_RAW)
        raw = raw_bytes(bench, images, RAW)
        yield Check("bytes of packed / ffcv raw", raw and sizes["packed"] / raw, MOST_BYTES_OF_RAW, at_most=True)

    return Case("packed", f"Photographs by how they are stored, 224 x 224 ({about})", list(rows.values()),
                lambda: list(checks()), rows["turbo", counts[-1]])
