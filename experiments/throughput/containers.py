#!/usr/bin/env python3
"""Writes the images of a list into containers that the loaders read, in the list's order, with their own bytes.

    containers.py LIST FOLDER KIND...      KIND: tfrecord, webdataset, recordio, lmdb (which needs py-lmdb)
    containers.py index FOLDER             how long indexing 200,000 records of each takes; --help says more

tfrecord: FOLDER/tfrecord/train-NNNNN-of-00008, records of tf.train.Example with `image/encoded` and
    `image/class/label`; DALI's index of each in FOLDER/tfrecord-index.
webdataset: FOLDER/webdataset/shard-NN.tar with NNNNNNNN.jpg (or .png) and NNNNNNNN.cls.
recordio: FOLDER/recordio/train.rec, as MXNet's im2rec writes it.
lmdb: FOLDER/lmdb, keys NNNNNNNN, values are encoded Datum messages as Caffe's convert_imageset writes them."""

import argparse
import csv
import functools
import importlib.util
import json
import os
import random
import shutil
import statistics
import struct
import subprocess
import sys
import tarfile
import time

SHARDS = 8
MASK_DELTA = 0xA282EAD8  # of TFRecord's checksums
CASTAGNOLI = 0x82F63B78
RECORDIO_MAGIC = 0xCED7230A
LMDB_ROOM = 1 << 40  # address space, not disk


def crc_table():
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (CASTAGNOLI if value & 1 else 0)
        table.append(value)
    return table


TABLE = crc_table()


def masked_crc(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + MASK_DELTA) & 0xFFFFFFFF


def varint(value):
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out + bytes([value]))


def message(number, data):
    """Field `number` of a protobuf message that holds bytes or a message."""
    return varint(number << 3 | 2) + varint(len(data)) + data


def number_field(number, value):
    return varint(number << 3) + varint(value)


def feature(name, kind, values):
    """An entry of tf.train.Features; `kind` 1: bytes, 3: int64."""
    return message(1, message(1, name) + message(2, message(kind, values)))


@functools.cache
def bytes_of(path):
    with open(path, "rb") as file:
        return file.read()


@functools.cache
def tfrecord(path, label):
    """A whole record: length, its checksum, the Example, its checksum."""
    image = feature(b"image/encoded", 1, message(1, bytes_of(path)))
    example = message(1, image + feature(b"image/class/label", 3, message(1, varint(label))))
    length = struct.pack("<Q", len(example))
    return b"".join((length, struct.pack("<I", masked_crc(length)), example, struct.pack("<I", masked_crc(example))))


def write_tfrecord(folder, rows):
    os.makedirs(folder + "-index", exist_ok=True)
    for number in range(SHARDS):
        name = f"train-{number:05}-of-{SHARDS:05}"
        with open(os.path.join(folder, name), "wb") as shard, \
                open(os.path.join(folder + "-index", name), "w", encoding="ascii") as index:
            for row in rows[number::SHARDS]:
                record = tfrecord(*row)
                index.write(f"{shard.tell()} {len(record)}\n")
                shard.write(record)


def member(name, data):
    """A file of a tar archive."""
    header = tarfile.TarInfo(name)
    header.size = len(data)
    return header.tobuf(tarfile.USTAR_FORMAT) + data + bytes(-len(data) % tarfile.BLOCKSIZE)


def write_webdataset(folder, rows):
    for number in range(SHARDS):
        with open(os.path.join(folder, f"shard-{number:02}.tar"), "wb") as shard:
            for index in range(number, len(rows), SHARDS):
                path, label = rows[index]
                ending = "png" if path.lower().endswith(".png") else "jpg"
                shard.write(member(f"{index:08}.{ending}", bytes_of(path)))
                shard.write(member(f"{index:08}.cls", str(label).encode()))
            shard.write(bytes(2 * tarfile.BLOCKSIZE))


def write_recordio(folder, rows):
    magic = struct.pack("<I", RECORDIO_MAGIC)
    with open(os.path.join(folder, "train.rec"), "wb") as file:
        for index, (path, label) in enumerate(rows):
            image = bytes_of(path)
            if magic in image:
                raise SystemExit(f"{path} holds RecordIO's magic number, which would make it a record of several parts")
            record = struct.pack("<IfQQ", 0, label, index, 0) + image
            file.write(magic + struct.pack("<I", len(record)) + record + bytes(-len(record) % 4))


def datum(path, label):
    return message(4, bytes_of(path)) + number_field(5, label) + number_field(7, 1)  # data, label, encoded


def write_lmdb(folder, rows):
    import lmdb

    with lmdb.open(folder, map_size=LMDB_ROOM) as environment, environment.begin(write=True) as transaction:
        for index, row in enumerate(rows):
            transaction.put(f"{index:08}".encode(), datum(*row), append=True)


WRITERS = {"tfrecord": write_tfrecord, "webdataset": write_webdataset, "recordio": write_recordio,
           "lmdb": write_lmdb}


def write(kind, folder, rows):
    """Under another name until it is complete."""
    target = os.path.join(folder, kind)
    part = target + ".part"
    for left in (part, part + "-index"):
        shutil.rmtree(left, ignore_errors=True)
    os.makedirs(part)
    WRITERS[kind](part, rows)
    if os.path.isdir(part + "-index"):
        shutil.rmtree(target + "-index", ignore_errors=True)
        os.rename(part + "-index", target + "-index")
    shutil.rmtree(target, ignore_errors=True)
    os.rename(part, target)


CLASSES = 1000
JPEG_START = bytes.fromhex("ffd8ffe000104a46494600010100000100010000")


def parse_index(words):
    parser = argparse.ArgumentParser(prog="containers.py index", description=index_times.__doc__)
    parser.add_argument("folder", help="where the containers are written; must not exist")
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--bytes", type=int, default=10_000, help="of an image")
    parser.add_argument("--kinds", default="tfrecord,webdataset,recordio,lmdb")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--peers", default="build/peers")
    return parser.parse_args(words)


def written(kind, folder, image, records, peers):
    """The container's path; by an interpreter that has py-lmdb, if that is what it takes."""
    rows = [(image, number % CLASSES) for number in range(records)]
    if kind != "lmdb" or importlib.util.find_spec("lmdb"):
        write(kind, folder, rows)
        return os.path.join(folder, kind)
    pythons = [os.path.join(peers, name, "bin", "python") for name in ("torch", "dali", "tf")]
    python = next((path for path in pythons if os.path.exists(path)), None)
    if python is None:
        return None
    listed = os.path.join(folder, "list.csv")
    with open(listed, "w", encoding="utf-8") as file:
        file.writelines(f'"{path}",{label}\n' for path, label in rows)
    subprocess.run([python, __file__, listed, folder, kind], check=True)
    return os.path.join(folder, kind)


def bytes_below(folder):
    return sum(os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder))


def index_times(words):
    """How long it takes to index containers in the page cache, and with how much memory. Writes one after the other
    below FOLDER, of records of 10 kB, builds its index several times by bench_index (-DFOREBAY_EXPERIMENTS=ON), each
    time in a process of its own, and deletes it. 200,000 records take 2 GB of disk and memory, 1,000,000 take 12."""
    options = parse_index(words)
    folder = os.path.abspath(options.folder)
    os.makedirs(folder)
    try:
        image = os.path.join(folder, "image.jpg")
        with open(image, "wb") as file:
            file.write(JPEG_START + random.Random(17).randbytes(options.bytes - len(JPEG_START)))
        bench = os.path.join(options.build, "bin", "bench_index")
        print(f"{options.records:,} records of {options.bytes / 1000:g} kB in the page cache; median of "
              f"{options.rounds} "
              "builds [range]")
        print(f"{'format':<11} {'files, GB':>9}  {'build, s':<24}  {'index, MB':>9}  {'peak memory, MB':>15}")
        for kind in options.kinds.split(","):
            begin = time.monotonic()
            path = written(kind, folder, image, options.records, options.peers)
            if path is None:
                print(f"{kind:<11} missing: py-lmdb is not installed (peers/setup)")
                continue
            print(f"{kind}: written in {time.monotonic() - begin:.0f} s", file=sys.stderr)
            size = bytes_below(path)
            index = os.path.join(folder, "index")
            runs = [json.loads(subprocess.run([bench, "build", kind, path, index], check=True, text=True,
                                              stdout=subprocess.PIPE).stdout)
                    for _ in range(options.rounds + 1)][1:]  # the first one brings it into the page cache
            if any(run["samples"] != options.records for run in runs):
                raise SystemExit(f"{kind}: {runs[0]['samples']} samples were indexed, not {options.records}")
            times = [run["build_s"] for run in runs]
            spread = f"{statistics.median(times):.2f} [{min(times):.2f} .. {max(times):.2f}]"
            print(f"{kind:<11} {size / 1e9:9.1f}  {spread:<24}  {runs[0]['bytes'] / 1e6:9.1f}  "
                  f"{max(run['peak_mb'] for run in runs):15.0f}", flush=True)
            for left in (path, path + "-index"):
                shutil.rmtree(left, ignore_errors=True)
    finally:
        shutil.rmtree(folder)


def main():
    if sys.argv[1:2] == ["index"]:
        return index_times(sys.argv[2:])
    images, folder, *kinds = sys.argv[1:]
    with open(images, newline="", encoding="utf-8") as lines:
        rows = [(row[0], int(row[1])) for row in csv.reader(lines) if row]
    for kind in kinds:
        write(kind, folder, rows)


if __name__ == "__main__":
    main()
