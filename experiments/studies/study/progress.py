"""A bar with an estimate on a terminal, else a line now and then."""

import collections
import statistics
import sys
import time

from study.design import ARMS, TASKS

FIRST_GUESS = 0.004  # seconds per step, before there is a result
EVERY = 30  # seconds between lines where there is no terminal


class Progress:
    def __init__(self, results, scope):
        self._scope = scope
        self._started = time.monotonic()
        self._last = -EVERY
        self._made = 0
        self._per_step = collections.defaultdict(list)  # {task: seconds of processor per step}
        for result in results:
            self._count(result)

    def _count(self, result):
        self._per_step[result.run.cell.task].append(result.cpu_s / max(1, result.steps))

    def seconds(self, run):
        """How long a run will take, about."""
        known = self._per_step.get(run.cell.task)
        interval = ARMS[run.arm].interval if ARMS[run.arm].policy in ("interval", "block") else float("inf")
        share = min(1.0, interval / max(run.cell.ratio, 1e-9)) if ARMS[run.arm].throttled else 1.0
        steps = ARMS[run.arm].steps(TASKS[run.cell.task], run.cell.ratio)
        return steps * share * (statistics.median(known) if known else FIRST_GUESS) + 2

    def show(self, result, waiting):
        """After a run, with as many others that can be made now; those that follow from them are not known yet."""
        self._count(result)
        self._made += 1
        now = time.monotonic()
        run = result.run
        whole = self._made + max(0, waiting - 1)
        left = (now - self._started) / self._made * (whole - self._made)
        width = 20 * self._made // max(1, whole)
        line = (
            f"{'█' * width}{'░' * (20 - width)} {self._made}/{whole}  {left / 60:.0f} min left  "
            f"{run.stage} {run.cell.task} R={run.cell.ratio:g} {run.cell.source} {run.arm} seed {run.seed}: "
            f"{100 * result.accuracy:.1f} %"
        )
        if sys.stderr.isatty():
            print(f"\r{line}\033[K", end="", file=sys.stderr, flush=True)
        elif now - self._last >= EVERY:
            self._last = now
            print(line, file=sys.stderr, flush=True)

    def end(self, waiting):
        minutes = (time.monotonic() - self._started) / 60
        more = f"; {waiting} more are known, the same command continues" if waiting else "; nothing is left to run"
        print(f"\n{self._made} runs in {minutes:.1f} min{more}", file=sys.stderr)
