"""Trains the CNN of ../train_cnn in PyTorch, fed by Forebay, on one process or on several ranks.

    python -m forebay make-dataset data --layout folder --size 64x64 --split 0.2

    python train_cnn.py data/train data/val
    mpirun -n 2 python -m mpi4py train_cnn.py data/train data/val
    torchrun --nproc_per_node 2 train_cnn.py data/train data/val

With --checkpoint FILE it saves after each epoch, and resumes from the file on any number of ranks. SIGTERM ends it.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import forebay
import torch
from torch import distributed, nn

LEARNING_RATE = 0.05  # at the start; it falls to 0

class Ranks:
    """The processes of this job: those of torchrun, those of mpirun, or this one alone."""

    def __init__(self) -> None:
        self.comm: Any = None  # for the feeders
        self.rank, self.size = 0, 1
        self.add: Callable[[torch.Tensor], Any] = lambda values: None  # sums over the ranks, in place
        if "TORCHELASTIC_RUN_ID" in os.environ:  # torchrun
            distributed.init_process_group("gloo")
            self.comm, self.add = "torch", distributed.all_reduce
            self.rank, self.size = distributed.get_rank(), distributed.get_world_size()
        elif "mpi4py" in sys.modules:  # python -m mpi4py
            from mpi4py import MPI

            world = self.comm = MPI.COMM_WORLD
            self.rank, self.size = world.rank, world.size
            self.add = lambda values: world.Allreduce(MPI.IN_PLACE, values.numpy())

    def say(self, text: str) -> None:
        if self.rank == 0:
            print(text, flush=True)


class Cnn(nn.Sequential):
    """Three blocks of convolution. Group normalisation: running statistics of batches would differ between ranks."""

    def __init__(self, classes: int) -> None:
        layers: list[nn.Module] = []
        for channels, width in ((3, 16), (16, 32), (32, 64)):
            convolution = nn.Conv2d(channels, width, 3, padding=1, bias=False)
            layers += [convolution, nn.GroupNorm(4, width), nn.ReLU(), nn.MaxPool2d(2)]
        super().__init__(*layers, nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(4 * 64, classes))


def flat_gradients(model: nn.Module) -> torch.Tensor:
    """One tensor that all gradients are views of, so that one all-reduce averages them."""
    parameters = list(model.parameters())
    flat = torch.zeros(sum(weight.numel() for weight in parameters))
    for weight, part in zip(parameters, flat.split([weight.numel() for weight in parameters])):
        weight.grad = part.view_as(weight)
    return flat


def accuracy(model: nn.Module, ranks: Ranks, options: dict[str, Any]) -> float:
    """The share of held-out samples that the model gets right. Collective."""
    counts = torch.zeros(2)  # right, all
    with torch.no_grad(), forebay.Feeder(comm=ranks.comm, eval=True, crop="center", mirror=0, **options) as feeder:
        for batch in feeder:
            if len(batch) == 0:  # this rank has none left, others have
                continue
            images, labels = batch.torch()
            counts += torch.tensor([(model(images).argmax(1) == labels).sum().item(), len(batch)])
    ranks.add(counts)
    return float(counts[0] / counts[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train", help="training data")
    parser.add_argument("val", help="held-out data, evaluated after each epoch")
    parser.add_argument("--checkpoint", default="", help="resume from this file if it exists, and save to it")
    parser.add_argument("--epochs", type=int, default=10, help="in all, those before resuming included")
    parser.add_argument("--stop-after", type=int, default=0, metavar="STEPS", help="save and end after so many steps")
    parser.add_argument("--batch-size", type=int, default=32, help="of each rank")
    parser.add_argument("--policy", default="adaptive", help="what to do while storage is behind")
    arguments = parser.parse_args()

    torch.set_num_threads(1)  # the other cores are the decoders'
    torch.set_flush_denormal(True)
    torch.manual_seed(17)  # the same weights on all ranks
    ranks = Ranks()

    options = {"batch_size": arguments.batch_size, "size": (32, 32), "device": "host"}
    training = {"scale": (0.5, 1.0), "epochs": arguments.epochs, "policy": arguments.policy, "seed": 17}
    feeder = forebay.Feeder(dataset=arguments.train, comm=ranks.comm, **options, **training)
    signal.signal(signal.SIGTERM, lambda *_: feeder.request_stop())
    options["dataset"] = {"path": arguments.val, "classes": feeder.classes}  # the same numbers for the same names

    model = Cnn(len(feeder.classes))
    gradients = flat_gradients(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE, momentum=0.9)
    if os.path.exists(arguments.checkpoint):
        saved = torch.load(arguments.checkpoint)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        feeder.load_state_dict(saved["data"])
        ranks.say(f"resumes after step {feeder.steps}")

    def save() -> None:
        parts = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "data": feeder.state_dict()}
        if ranks.rank == 0 and arguments.checkpoint:
            torch.save(parts, arguments.checkpoint + ".saving")
            os.replace(arguments.checkpoint + ".saving", arguments.checkpoint)

    for epoch in feeder.epochs():
        for group in optimizer.param_groups:
            group["lr"] = LEARNING_RATE * (1 - epoch.number / arguments.epochs)
        for batch in epoch:
            images, labels = batch.torch()
            gradients.zero_()
            loss = nn.functional.cross_entropy(model(images), labels)
            loss.backward()
            ranks.add(gradients)
            gradients /= ranks.size
            optimizer.step()
            if feeder.steps == arguments.stop_after:
                break
        save()
        if feeder.was_stopped or feeder.steps == arguments.stop_after:
            ranks.say(f"stopped after step {feeder.steps}")
            break
        share = accuracy(model, ranks, options)
        ranks.say(f"epoch {epoch.number + 1}: loss {loss.item():.3f}, held-out accuracy {share:.3f}")

    feeder.close()
    made = feeder.summary()
    ranks.say("{steps} steps in {wall_s:.1f} s, {fresh_fraction:.1%} of them on new data".format(**made))
    if ranks.comm == "torch":
        distributed.destroy_process_group()


if __name__ == "__main__":
    main()
