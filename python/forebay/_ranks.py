"""The ranks of a job: those that a program passes as ``comm=``, and those of torch.distributed."""

from __future__ import annotations

import os
import sys
from typing import Any

from . import _core, _links
from .communicator import Communicator
from .errors import ConfigError
from .sockets import SocketCommunicator


class Solo:
    """``comm=forebay.SOLO``: this process is a job of its own, although a launcher started several."""

    def __repr__(self) -> str:
        return "forebay.SOLO"


SOLO = Solo()


def _distributed() -> Any:
    """torch.distributed if the program has imported it and initialised a process group; else None."""
    distributed = sys.modules.get("torch.distributed")
    try:
        return distributed if distributed is not None and distributed.is_initialized() else None
    except AttributeError:  # PyTorch was built without it
        return None


def group_size() -> int:
    """The number of processes of torch.distributed, including this one; 1 without it."""
    distributed = _distributed()
    return 1 if distributed is None else int(distributed.get_world_size())


class ProcessGroupCommunicator(SocketCommunicator):
    """The ranks of a process group of torch.distributed, whatever its backend. Collective.

    The group is used once, to exchange addresses; Forebay's traffic has its own TCP connections, so it never mixes with
    the trainer's, and a step of the feeder never waits for one of the trainer's collectives. ``group``: None is the
    group of all processes.
    """

    def __init__(self, group: Any = None) -> None:
        distributed = _distributed()
        if distributed is None:
            raise ConfigError(
                'comm="torch" takes the ranks of torch.distributed: call torch.distributed.init_process_group("gloo") '
                "(or nccl) before the feeder is made"
            )
        rank, size = distributed.get_rank(group), distributed.get_world_size(group)
        if rank < 0:
            raise ConfigError("this process is not in the process group that comm is")

        def exchange(mine: Any) -> list[Any]:
            everything: list[Any] = [None] * size
            distributed.all_gather_object(everything, mine, group=group)
            return everything

        nodes = exchange(_links.node())
        hosts = exchange(_links.host(nodes))
        super().__init__(rank, hosts, nodes, exchange)


def refuse_launched() -> None:
    """Refuses a process under mpirun or srun without comm=, because every rank would serve the whole dataset."""
    launched = _core.launched()
    if launched is not None:
        _refuse(launched[0], f"a job ({launched[1]})", "comm=MPI.COMM_WORLD of mpi4py")


def _refuse_process_group() -> None:
    """Likewise under torchrun."""
    size = group_size()
    text = os.environ.get("WORLD_SIZE", "1")
    if size == 1 and "TORCHELASTIC_RUN_ID" in os.environ and text.isdigit():
        size = int(text)
    if size > 1:
        _refuse(size, "torch.distributed", 'comm="torch", or a process group')


def _refuse(size: int | str, of: str, ranks: str) -> None:
    raise ConfigError(
        f"this process is one of {size} of {of}: each of them would serve the whole dataset. Give its ranks: {ranks}. "
        "If each process is to be a job of its own, say so: comm=forebay.SOLO"
    )


def ranks_of(comm: Any) -> Communicator | None:
    """The ranks that comm= stands for; None for a single process. Collective."""
    if comm is None:
        _refuse_process_group()
        refuse_launched()
    if comm is None or isinstance(comm, Solo):
        return None
    if isinstance(comm, Communicator):
        return comm
    if hasattr(comm, "Iallreduce"):
        from .mpi import MpiCommunicator

        return MpiCommunicator(comm)
    group = getattr(sys.modules.get("torch.distributed"), "ProcessGroup", None)
    if comm == "torch" or (group is not None and isinstance(comm, group)):
        return ProcessGroupCommunicator(None if comm == "torch" else comm)
    raise ConfigError(
        f'comm={comm!r} is no communicator: give one of mpi4py (MPI.COMM_WORLD), "torch" or a process group of '
        "torch.distributed, a subclass of forebay.Communicator, forebay.SOLO, or nothing for a single process"
    )
