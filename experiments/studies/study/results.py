"""Results as they are kept: a line of compact JSON for each run, appended as it ends."""

import dataclasses
import json
import lzma
import os
import pathlib

from study.design import Cell, Run


@dataclasses.dataclass(frozen=True)
class Result:
    run: Run
    right: tuple  # held-out samples that were right, at evenly spread times
    of: int
    steps: int
    fresh: float  # share of the steps (of echo: of the examples)
    stall: float  # share of the time
    uses: tuple  # median, 99th percentile and most of a batch's uses
    cpu_s: float

    @property
    def accuracy(self):
        return self.right[-1] / self.of

    def to_line(self):
        run, cell = self.run, self.run.cell
        made = {
            "stage": run.stage,
            "task": cell.task,
            "R": cell.ratio,
            "source": cell.source,
            "arm": run.arm,
            "seed": run.seed,
            "lr": run.rate,
            "right": list(self.right),
            "of": self.of,
            "steps": self.steps,
            "fresh": round(self.fresh, 4),
            "stall": round(self.stall, 4),
            "uses": list(self.uses),
            "cpu_s": round(self.cpu_s, 1),
        }
        return json.dumps(made, separators=(",", ":"))

    @staticmethod
    def of_line(line):
        made = json.loads(line)
        run = Run(made["stage"], Cell(made["task"], made["R"], made["source"]), made["arm"], made["seed"], made["lr"])
        return Result(
            run,
            tuple(made["right"]),
            made["of"],
            made["steps"],
            made["fresh"],
            made["stall"],
            tuple(made["uses"]),
            made["cpu_s"],
        )


def whole_lines(path):
    content = path.read_bytes()
    text = (lzma.decompress(content) if path.suffix == ".xz" else content).decode("utf-8")
    return text[: text.rfind("\n") + 1].splitlines()


def kept_lines(path):
    """Of a file, and of those beside it with a word more in their names (study.jsonl, study.WORD.jsonl,
    study.WORD.jsonl.xz), which are only read."""
    beside = path.stem + ".*" + (path.suffix or ".none")
    for file in (path, *sorted([*path.parent.glob(beside), *path.parent.glob(beside + ".xz")])):
        if file.is_file():
            yield from whole_lines(file)


class Results:
    """What kept_lines() finds. Lines that were cut off by a crash are dropped when the file is opened for writing."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        self._by_key = {}
        self._by_arm = {}  # {(stage, cell, arm): [result]}
        for line in kept_lines(self.path):
            self._keep(Result.of_line(line))

    def _keep(self, result):
        run = result.run
        self._by_key[run.key] = result
        self._by_arm.setdefault((run.stage, run.cell, run.arm), []).append(result)

    def __contains__(self, run):
        return run.key in self._by_key

    def __iter__(self):
        return iter(self._by_key.values())

    def __len__(self):
        return len(self._by_key)

    def only(self, wanted):
        """The results whose run is `wanted`, to read."""
        part = Results(os.devnull)
        for result in self:
            if wanted(result.run):
                part._keep(result)
        return part

    def append(self, result):
        whole = "".join(line + "\n" for line in whole_lines(self.path)) if self.path.exists() else ""
        if self.path.exists() and self.path.stat().st_size != len(whole.encode()):
            self.path.write_text(whole, encoding="utf-8")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(result.to_line() + "\n")
            file.flush()
            os.fsync(file.fileno())
        self._keep(result)

    def tuned(self, cell, arm):
        """{learning rate: accuracy} of the runs that choose it for an arm of a cell."""
        return {result.run.rate: result.accuracy for result in self._by_arm.get(("tune", cell, arm), ())}

    def study(self, cell, arm):
        """{seed: result} of an arm in a cell."""
        return {result.run.seed: result for result in self._by_arm.get(("study", cell.of(arm), arm), ())}
