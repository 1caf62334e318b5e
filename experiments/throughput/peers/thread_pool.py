"""No loader at all: a pool of threads from Python's standard library, each of which makes a whole batch by OpenCV (or
another decoder of decoding.py), which holds no lock of Python's meanwhile. The arrays are used again, so that no memory
is mapped while it runs: a batch holds until the next one is asked for."""

import collections
import concurrent.futures
import itertools

import common
import decoding
from measuring import measure

AHEAD = 4  # batches


def batches(options):
    paths, _ = common.read_list(options.list)
    load = decoding.Load(options)
    order = common.shuffled(paths)
    arrays = itertools.cycle([decoding.empty_batch(options.batch, options.size) for _ in range(AHEAD + 1)])
    pending = collections.deque()
    with concurrent.futures.ThreadPoolExecutor(options.threads) as pool:
        while True:
            while len(pending) < AHEAD:
                chosen = list(itertools.islice(order, options.batch))
                pending.append(pool.submit(decoding.fill, load, chosen, next(arrays)))
            yield pending.popleft().result()


def main():
    options = common.arguments(__doc__)
    measure(batches(options), options, lambda batch: batch.copy(),
            version=f"thread pool, {decoding.version_of(options.variant)}")


if __name__ == "__main__":
    main()
