#!/usr/bin/env python3
"""Submits a job script to the private Slurm of `run`, lets Slurm interrupt it three times, and tells what happened.

follow.py JOB_SCRIPT SLURMD_LOG SAMPLES, in a folder with feed.toml. Ends with 0 when the job was interrupted in all
three ways, finished, and served every sample of every epoch fresh exactly once over all its attempts."""

import collections
import glob
import json
import os
import re
import subprocess
import sys
import time

EPOCHS = 3
LIMIT_S = 180
DISTURB_AFTER_S = 4  # of serving
STATE = "run/feed.state"
OVER = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY")
SIGNALS = {10: "SIGUSR1", 15: "SIGTERM", 9: "SIGKILL"}  # not the SIGCONT that goes before each

# What interrupts which attempt. Nothing has to be done for the first: its time limit comes near.
CAUSES = {1: "the time limit", 2: "a preemption with GraceTime", 3: "a requeue by the administrator"}


def output_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=20).stdout


def say(text):
    now = time.time()
    print(time.strftime("%H:%M:%S", time.localtime(now)) + f".{int(now * 10) % 10}  {text}", flush=True)


class Tail:
    """What was added to a file since the last look, in whole lines."""

    def __init__(self, path):
        self.path, self.offset = path, 0

    def lines(self):
        if not os.path.exists(self.path):
            return []
        if os.path.getsize(self.path) < self.offset:
            sys.exit(f"{self.path} became shorter: a resumed run must append to it")
        with open(self.path, "rb") as file:
            file.seek(self.offset)
            data = file.read()
        whole = data[:data.rfind(b"\n") + 1]
        self.offset += len(whole)
        return whole.decode().splitlines()


class Attempt:
    def __init__(self):
        self.steps = self.samples = 0
        self.first = self.last = None  # epoch and step of rank 0
        self.first_at = None
        self.signal = "-"
        self.end = "-"


class Account:
    """Reads what the job and Slurm leave behind while the job runs, and says what is new."""

    def __init__(self, job, slurmd_log):
        self.job = job
        self.attempts = []
        self.served = collections.defaultdict(collections.Counter)  # epoch: sample: how often fresh
        self.ids = {}
        self.slurmd = Tail(slurmd_log)
        self.state = None

    def new_attempt(self):
        self.attempts.append(Attempt())
        saved = "with a saved state" if os.path.exists(STATE) else "from the beginning"
        say(f"attempt {len(self.attempts)} starts, {saved}")

    def look(self):
        self.read_ids()
        self.read_signals()
        self.look_at_state()

    def read_ids(self):
        attempt = self.attempts[-1]
        for path in sorted(glob.glob("run/ids/ids.*.jsonl")):
            for line in self.ids.setdefault(path, Tail(path)).lines():
                record = json.loads(line)
                if path.endswith(".0.jsonl"):
                    attempt.steps += 1
                    attempt.last = f"epoch {record['epoch']}, step {record['step']}"
                    if attempt.first is None:
                        attempt.first, attempt.first_at = attempt.last, time.monotonic()
                        say(f"  {'resumed' if len(self.attempts) > 1 else 'began'} at {attempt.first}")
                if record["use_index"] == 0:
                    self.served[record["epoch"]].update(record["ids"])
                    attempt.samples += len(record["ids"])

    def read_signals(self):
        for line in self.slurmd.lines():
            found = re.search(r"\] (?P<one>_handle_signal_container: )?[sS]ent signal (?P<number>\d+) to "
                              r"(pid \d+ )?StepId=(?P<job>\d+)\.(?P<step>\w+)", line)
            if not found or found["job"] != self.job or int(found["number"]) not in SIGNALS:
                continue
            attempt = self.attempts[-1]
            name = SIGNALS[int(found["number"])]
            step = found["step"] != "batch"
            receiver = "the ranks" if step else "the job script" + ("" if found["one"] else " and all its children")
            if attempt.signal == "-":
                attempt.signal = name
            say(f"  Slurm sends {name} to {receiver}" + (f"; last step: {attempt.last}" if step else ""))

    def look_at_state(self):
        if not os.path.exists(STATE):
            return
        now = os.stat(STATE)
        if (now.st_ino, now.st_mtime_ns) != self.state:
            self.state = (now.st_ino, now.st_mtime_ns)
            self.read_ids()
            say(f"  state saved, {now.st_size} bytes; last step: {self.attempts[-1].last}")


def interrupt(account, number):
    if number == 2:
        say("a job of a partition with a higher PriorityTier needs the node")
        output_of("sbatch", "--partition=high", "--ntasks=2", "--output=/dev/null", "--wrap=sleep 2")
    elif number == 3:
        say("the administrator: scontrol requeue (like a preemption without GraceTime)")
        output_of("scontrol", "requeue", account.job)


def follow(account):
    """Until the job is over. Its last state, and the attempts that were interrupted."""
    interrupted, before, begin = set(), None, time.monotonic()
    while time.monotonic() - begin < LIMIT_S:
        fields = dict(re.findall(r"(\w+)=(\S*)", output_of("scontrol", "show", "job", "-o", account.job)))
        state, restarts = fields["JobState"], int(fields["Restarts"])
        if account.attempts:
            account.look()
        if state == "PENDING" and before not in (None, "PENDING"):
            account.attempts[-1].end = "requeued"
            say(f"  requeued, starts again at {fields['StartTime'][-8:]} or later")
        if state in ("RUNNING", *OVER) and restarts == len(account.attempts):
            account.new_attempt()
        if state in OVER:
            time.sleep(0.5)
            account.look()
            account.attempts[-1].end = state.lower()
            say(f"  {state}, exit code {fields['ExitCode'].split(':')[0]}")
            return state
        before, number = state, len(account.attempts)
        since = account.attempts[-1].first_at if number else None
        if state == "RUNNING" and number not in interrupted and since and time.monotonic() - since > DISTURB_AFTER_S:
            interrupted.add(number)
            interrupt(account, number)
        time.sleep(0.1)
    return f"not over after {LIMIT_S} s"


def judge(account, samples, state):
    print(f"\n{'attempt':>7}  {'first step of rank 0':<21}  {'steps':>5}  {'new samples':>11}  {'signal':<8}  end")
    for number, at in enumerate(account.attempts, 1):
        print(f"{number:>7}  {at.first or '-':<21}  {at.steps:>5}  {at.samples:>11}  {at.signal:<8}  {at.end}")
    print()
    wrong = [] if state == "COMPLETED" else [f"the job: {state}"]
    all_missing = all_duplicated = 0
    for epoch in range(EPOCHS):
        counts = account.served.pop(epoch, {})
        missing = sum(1 for sample in range(samples) if sample not in counts)
        duplicated = sum(count - 1 for count in counts.values())
        unknown = sum(1 for sample in counts if not 0 <= sample < samples)
        print(f"epoch {epoch}: samples {samples}, served {sum(counts.values())}, missing {missing}, "
              f"duplicated {duplicated}")
        all_missing, all_duplicated = all_missing + missing, all_duplicated + duplicated
        if missing or duplicated or unknown:
            wrong.append(f"epoch {epoch} is not every sample once")
    print(f"in all:  samples {EPOCHS * samples}, missing {all_missing}, duplicated {all_duplicated}")
    if account.served:
        wrong.append(f"epochs that were not asked for: {sorted(account.served)}")
    for number, cause in CAUSES.items():
        if len(account.attempts) <= number or account.attempts[number - 1].end != "requeued":
            wrong.append(f"attempt {number} should have ended by {cause} and been requeued")
    print("wrong: " + "; ".join(wrong) if wrong else "all as it should be")
    return 1 if wrong else 0


def main(script, slurmd_log, samples):
    options = ["--time=1", f"--signal={'B:' if 'mpirun' in script else ''}USR1@10", "--cpus-per-task=1"]
    command = ["sbatch", "--parsable", *options, script, "--epochs", str(EPOCHS), "--log-ids", "run/ids", "--quiet"]
    account = Account(output_of(*command).strip(), slurmd_log)
    say(f"submitted as job {account.job}: sbatch {' '.join(options)} {os.path.basename(script)}")
    code = judge(account, int(samples), follow(account))
    if code:
        print(f"\nwhat the job printed:\n{output_of('tail', '-n', '40', f'slurm-{account.job}.out')}")
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
