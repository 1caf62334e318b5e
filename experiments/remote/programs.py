"""What peers measures in a process of its own, beside the loaders of photographs. Each prints JSON.

    programs.py index FOREBAY INDEX | first INDEX FOLDER | train STEP_S SECONDS POLICY FOLDER
    programs.py floor URL | arrays LIBRARY FOLDER | make-mds PHOTOS OUT | make-npz OUT
"""

import io
import json
import mmap
import os
import random
import resource
import subprocess
import sys
import time

SIDE, SAMPLES, BATCHES = 12083, 7, 3  # an array has SIDE x SIDE bytes, 146 MB
RANGE, RANGES, OBJECTS = 8 << 20, 128, 2000


def say(**figures):
    print(json.dumps(figures), flush=True)


def core_s(who=resource.RUSAGE_SELF):
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def index(forebay, path):
    """The index of a bucket, as it is saved by a command."""
    since = time.monotonic()
    subprocess.run([forebay, "index", "s3://many/", "--save", path], check=True, stdout=subprocess.DEVNULL)
    say(index_s=time.monotonic() - since, index_core_s=core_s(resource.RUSAGE_CHILDREN),
        index_peak_MB=resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024)


def first(path, folder):
    """From a saved index to the first batch."""
    import forebay

    # A virtual machine's memory may have to come from the machine below it first, which can take seconds.
    with mmap.mmap(-1, 1 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        memory.madvise(mmap.MADV_HUGEPAGE)
        for place in range(0, 1 << 30, 1 << 21):
            memory[place] = 1
    since = time.monotonic()
    with forebay.Feeder(dataset="s3://many/", dataset_index=path, batch_size=64, size=(224, 224),
                        telemetry_dir=folder) as feeder:
        next(iter(feeder))
        say(first_batch_s=time.monotonic() - since)


def train(step_s, seconds, policy, folder):
    """A trainer whose steps take so long, for so long."""
    import forebay

    more = {"policy": policy} if policy != "default" else {}
    with forebay.Feeder(dataset="s3://photos/", batch_size=64, size=(224, 224), epochs=1000, telemetry_dir=folder,
                        **more) as feeder:
        until = time.monotonic() + float(seconds)
        for _ in feeder:
            time.sleep(float(step_s))
            if time.monotonic() > until:
                break
        about = feeder.summary()
    say(stall_percent=100 * about["stall_s"] / about["wall_s"], fresh_percent=100 * about["fresh_fraction"],
        MB_per_s=about["bytes_read"] / 1e6 / about["wall_s"])


def floor(url, small):
    """Ranges of 8 MiB, by a loop that only receives (and decrypts), by one that copies them to their place too, and by
    the curl command; and a small object, by that again and again on one connection."""
    import socket
    import ssl
    from urllib.parse import urlsplit

    place = urlsplit(url)
    connection = socket.create_connection((place.hostname, place.port))
    if place.scheme == "https":
        connection = ssl.create_default_context(cafile=os.environ["AWS_CA_BUNDLE"]).wrap_socket(
            connection, server_hostname=place.hostname)
    memory = memoryview(bytearray(256 << 10))
    kept = memoryview(bytearray(RANGE))
    request = f"GET {place.path} HTTP/1.1\r\nHost: {place.netloc}\r\nRange: bytes=0-{RANGE - 1}\r\n\r\n".encode()

    def cost(keeps):
        core = core_s()
        for _ in range(RANGES):
            connection.sendall(request)
            got = connection.recv_into(memory)
            left = RANGE - (got - bytes(memory[:got]).index(b"\r\n\r\n") - 4)
            while left > 0:
                got = connection.recv_into(memory[:min(left, len(memory))])
                if keeps:
                    kept[RANGE - left:RANGE - left + got] = memory[:got]
                left -= got
        return (core_s() - core) / (RANGES * RANGE / 1e9)

    received, copied = cost(False), cost(True)

    def of_curl(times, object_url, *words):
        core = core_s(resource.RUSAGE_CHILDREN)
        subprocess.run(["curl", "-sf", "--cacert", os.environ["AWS_CA_BUNDLE"], *words] +
                       times * ["-o", "/dev/null", object_url], check=True)
        return core_s(resource.RUSAGE_CHILDREN) - core

    say(received_core_s_per_GB=received, copied_core_s_per_GB=copied,
        curl_core_s_per_GB=of_curl(RANGES, url, "-r", f"0-{RANGE - 1}") / (RANGES * RANGE / 1e9),
        curl_us_per_object=1e6 * of_curl(OBJECTS, small) / OBJECTS)


def by_forebay(folder):
    import forebay

    volume = {"kind": "array", "dtype": "uint8", "shape": [1, SIDE, SIDE], "from": "{stem}.npz:x"}
    with forebay.Feeder(dataset="s3://arrays/list.txt", batch_size=SAMPLES, epochs=1000, crop="none", size=(32, 32),
                        fields={"volume": volume}, policy="block", capacity=1, pool=1, max_bad=0,
                        workers={"io": SAMPLES, "bytes": 3 << 30}, telemetry_dir=folder) as feeder:
        for batch in feeder:
            yield batch["volume"]


def stacked(bodies):
    import numpy

    batch = numpy.empty((SAMPLES, 1, SIDE, SIDE), numpy.uint8)
    for place, body in zip(batch, bodies, strict=True):
        place[:] = numpy.load(io.BytesIO(body))["x"]
    return batch


def by_boto3(_):
    from concurrent.futures import ThreadPoolExecutor

    import boto3

    client = boto3.client("s3", config=boto3.session.Config(s3={"addressing_style": "path"},
                                                            max_pool_connections=SAMPLES))
    with ThreadPoolExecutor(SAMPLES) as pool:
        while True:
            yield stacked(pool.map(lambda n: client.get_object(Bucket="arrays", Key=f"{n}.npz")["Body"].read(),
                                   range(SAMPLES)))


def by_s3dlio(_):
    import s3dlio

    while True:
        yield stacked(body for _, body in s3dlio.get_many([f"s3://arrays/{n}.npz" for n in range(SAMPLES)], SAMPLES))


def arrays(library, folder):
    """Batches of the arrays of npz files: what a core brings in a second."""
    batches = {"forebay": by_forebay, "boto3": by_boto3, "s3dlio": by_s3dlio}[library](folder)
    assert next(batches).shape == (SAMPLES, 1, SIDE, SIDE)
    core, since = core_s(), time.monotonic()
    for _ in range(BATCHES):
        next(batches)
    amount = BATCHES * SAMPLES * SIDE * SIDE / 1e9
    say(GB_per_core_s=amount / (core_s() - core), GB_per_s=amount / (time.monotonic() - since))
    os._exit(0)  # what is read ahead is not waited for


def make_mds(photos, out):
    import streaming

    files = [(os.path.join(photos, folder, name), label)
             for label, folder in enumerate(sorted(next(os.walk(photos))[1]))
             for name in sorted(os.listdir(os.path.join(photos, folder)))]
    random.Random(17).shuffle(files)
    with streaming.MDSWriter(out=out, columns={"image": "bytes", "label": "int"}) as shards:
        for path, label in files:
            with open(path, "rb") as file:
                shards.write({"image": file.read(), "label": label})


def make_npz(out):
    import numpy

    numpy.savez(out, x=numpy.random.default_rng(17).integers(0, 256, (1, SIDE, SIDE), numpy.uint8))


if __name__ == "__main__":
    {"index": index, "first": first, "train": train, "floor": floor, "arrays": arrays, "make-mds": make_mds,
     "make-npz": make_npz}[sys.argv[1]](*sys.argv[2:])
