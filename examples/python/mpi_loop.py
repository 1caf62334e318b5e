"""A loop on several ranks without an ML library: it checks by the ids that each epoch serves every sample once.

    mpirun -n 2 python -m mpi4py mpi_loop.py data/train
    mpirun -n 2 python -m mpi4py mpi_loop.py data/train --state loop.npz --stop-after 20
    mpirun -n 3 python -m mpi4py mpi_loop.py data/train --state loop.npz                  # resumes on three ranks
"""

from __future__ import annotations

import argparse
import json
import os
import sys

import forebay
import numpy as np
from mpi4py import MPI


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="images in class folders, or whatever else Forebay reads")
    parser.add_argument("--epochs", type=int, default=2, help="in all, those before resuming included")
    parser.add_argument("--batch-size", type=int, default=16, help="of each rank")
    parser.add_argument("--size", type=int, default=64, help="side of an image in pixels")
    parser.add_argument("--policy", default="adaptive", help="what to do while storage is behind")
    parser.add_argument("--state", default="", help="resume from this file if it exists, and save to it at the end")
    parser.add_argument("--stop-after", type=int, default=0, metavar="STEPS", help="end after so many steps")
    arguments = parser.parse_args()

    world = MPI.COMM_WORLD
    feeder = forebay.Feeder(
        dataset=arguments.data,
        comm=world,
        batch_size=arguments.batch_size,
        size=(arguments.size, arguments.size),
        epochs=arguments.epochs,
        policy=arguments.policy,
        drop_last=False,
        device="host",
    )
    fresh = np.zeros(feeder.dataset_size, np.int64)  # how often each sample was fresh in this epoch, on this rank
    if os.path.exists(arguments.state):
        saved = np.load(arguments.state)
        feeder.load_state_dict(json.loads(str(saved["state"])))
        if world.rank == 0:  # it counts for all ranks of the earlier run
            fresh += saved["fresh"]
            print(f"resumes after step {feeder.steps} on {world.size} ranks", flush=True)

    is_right = True
    for epoch in feeder.epochs():
        sums = np.zeros(2)  # of the pixels, and their number
        for batch in epoch:
            if batch.is_fresh:
                np.add.at(fresh, batch.ids, 1)
            step = np.array([batch.images.sum(dtype=np.float64), batch.images.size])
            world.Allreduce(MPI.IN_PLACE, step)  # where a trainer averages its gradients
            sums += step
            if feeder.steps == arguments.stop_after:
                break
        is_cut = feeder.steps == arguments.stop_after or feeder.was_stopped
        world.Allreduce(MPI.IN_PLACE, fresh)
        once = int((fresh == 1).sum())
        if is_cut and once < len(fresh):
            break  # in the middle of the epoch
        is_right = is_right and once == len(fresh)
        if world.rank == 0:
            mean = sums[0] / sums[1]
            print(f"epoch {epoch.number}: {once} of {len(fresh)} samples exactly once, mean {mean:.4f}", flush=True)
        fresh[:] = 0
        if is_cut:
            break

    state = feeder.state_dict()  # the same on all ranks
    if arguments.state and world.rank == 0:
        with open(arguments.state, "wb") as file:
            np.savez(file, state=json.dumps(state), fresh=fresh)
    feeder.close()
    made = feeder.summary()
    print(f"rank {world.rank}: " + "{steps} steps in {wall_s:.1f} s, {fresh_fraction:.1%} of them fresh".format(**made))
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
