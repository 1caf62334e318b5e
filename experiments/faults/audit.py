"""What a job was served and what its state says is left: together every batch of every epoch once, and right."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

Batch = tuple[int, int]  # epoch, number

_HEAD = struct.Struct("<6Q")
_STEP = struct.Struct("<5Q")
JOURNAL_BYTES = 1 << 20


class Step(NamedTuple):
    step: int
    epoch: int
    batch: int
    use_index: int
    hash: int


class Journal(NamedTuple):
    """What fault_job wrote to served.bin."""

    steps: list[Step]
    durable: int
    ended: bool
    summary_steps: int
    summary_fresh: int
    dropped_records: int

    def fresh(self, before: int) -> list[Batch]:
        return [(step.epoch, step.batch) for step in self.steps if step.use_index == 0 and step.step < before]


def read_journal(folder: Path) -> Journal:
    data = (folder / "served.bin").read_bytes()
    count, durable, ended, steps, fresh, dropped = _HEAD.unpack_from(data)
    served = [Step(*_STEP.unpack_from(data, _HEAD.size + i * _STEP.size)) for i in range(count)]
    return Journal(served, durable, ended == 1, steps, fresh, dropped)


def new_journal(folder: Path) -> None:
    (folder / "served.bin").write_bytes(bytes(JOURNAL_BYTES))


class State(NamedTuple):
    steps: int
    opened: int
    left: list[Batch]


NOTHING_SAVED = State(0, 0, [])


def read_state(file: Path) -> State:
    """As docs/state.md describes it, and not by Forebay. Raises ValueError or KeyError."""
    text = file.read_text(encoding="utf-8")
    if not text.endswith("\n"):
        raise ValueError("is cut off")
    state = json.loads(text)
    pieces = json.loads(zlib.decompress(base64.b64decode(state["left"]["zlib"])))
    lists = [[value % 2**64 for value in accumulate(pieces[name])] for name in ("epoch", "shard", "begin", "end")]
    left = [
        (epoch, block * state["virtual_shards"] + shard)
        for epoch, shard, begin, end in zip(*lists, strict=True)
        for block in range(begin, end)
    ]
    return State(state["steps"], state["opened"], left)


class Reference(NamedTuple):
    """What a job that nothing happens to is served."""

    hashes: dict[Batch, int]

    @classmethod
    def of(cls, journal: Journal) -> Reference:
        return cls({(step.epoch, step.batch): step.hash for step in journal.steps})

    def wrong(self, journal: Journal) -> list[str]:
        bad = [step for step in journal.steps if self.hashes.get((step.epoch, step.batch)) != step.hash]
        return [f"{len(bad)} steps with other pixels, labels or ids, the first at step {bad[0].step}"] if bad else []

    def until(self, opened: int) -> set[Batch]:
        return {batch for batch in self.hashes if batch[0] < opened}


class Verdict(NamedTuple):
    lost: int
    doubled: int


def compare(served: list[Batch], expected: set[Batch]) -> Verdict:
    return Verdict(len(expected - set(served)), len(served) - len(set(served)) + len(set(served) - expected))


def check_state(reference: Reference, journal: Journal, state: State) -> Verdict:
    """What is served before the state and what is left in it are all batches of the epochs that it opened."""
    return compare(journal.fresh(state.steps) + state.left, reference.until(state.opened))


class Lines(NamedTuple):
    steps: int  # whole lines of steps
    made_way: int  # steps before the first of them (telemetry.max_bytes)
    cut: int  # lines of all logs that are not whole


def lines_of(folder: Path) -> Lines:
    steps, cut = [], 0
    for log in folder.glob("*.jsonl"):
        for line in log.read_bytes().split(b"\n"):
            try:
                parsed = json.loads(line or b"{}")
                if log.name.startswith("steps.0.") and line:
                    steps.append(parsed["step"])
            except ValueError:
                cut += 1
    has_made_way = (folder / "steps.0.earlier.jsonl").exists()
    return Lines(len(steps), min(steps) if steps and has_made_way else 0, cut)
