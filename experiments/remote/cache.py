"""What a cache on the node leaves for the store: requests and bytes of each epoch, as the store counts them.

A store on the loopback serves tar shards of samples as large as photographs; each epoch is a run of its own, in another
order. Needs the package: `PYTHONPATH=... python experiments/remote/cache.py`.
"""

from __future__ import annotations

import io
import random
import sys
import tarfile
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "python" / "tests"))

import forebay
from conftest import SMALL, png
from object_store import Store, running

SAMPLES, SHARDS = 2000, 8


def shard(numbers: range, chance: random.Random) -> bytes:
    """Pictures with as many bytes behind their end as make them 60 to 160 kB."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for number in numbers:
            picture = png(number % 256) + chance.randbytes(chance.randrange(60_000, 160_000))
            for ending, data in (("png", picture), ("cls", b"0")):
                member = tarfile.TarInfo(f"{number:05}.{ending}")
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
    return file.getvalue()


def epoch(store: Store, index: Path, seed: int, **cache: object) -> tuple[int, dict[str, float]]:
    store.requests.clear()
    options = {**SMALL, "batch_size": 50, "workers_io": 8, "seed": seed, "dataset_index": str(index), **cache}
    with forebay.Feeder(dataset=store.url + f"/shard-{{0..{SHARDS - 1}}}.tar", **options) as feeder:
        for _ in feeder:
            pass
        summary = feeder.summary()
    return len(store.requests), summary


def main() -> None:
    chance = random.Random(1)
    each = SAMPLES // SHARDS
    objects = {f"/shard-{i}.tar": shard(range(i * each, (i + 1) * each), chance) for i in range(SHARDS)}
    with running(objects) as store, tempfile.TemporaryDirectory() as folder:
        index = Path(folder) / "index"
        epoch(store, index, 0)
        requests, summary = epoch(store, index, 1)
        size = summary["bytes_read"]
        print(f"{SAMPLES} samples, {size / 1e6:.1f} MB; without a cache: {requests} requests")
        whole = 0.0
        for share in (1, 0.75, 0.5):
            place = {"cache_dir": f"{folder}/{share}", "cache_bytes": int(share * whole) or 1 << 40}
            for number in (1, 2, 3):
                requests, summary = epoch(store, index, number, **place)
                whole = whole or summary["cache_held"]
                store_mb, cache_mb, held_mb = (
                    summary[key] / 1e6 for key in ("bytes_from_store", "bytes_from_cache", "cache_held")
                )
                print(
                    f"cache of {share:4.0%}, epoch {number}: {requests:4} requests ({requests / SAMPLES:6.1%}), "
                    f"{store_mb:6.1f} MB from the store, {cache_mb:6.1f} from the cache, which holds {held_mb:6.1f}"
                )


if __name__ == "__main__":
    main()
