"""A loader that stays: it starts once, becomes warm, and is measured again and again when it is its turn. In between it
is stopped, so that it takes nothing from the others."""

import contextlib
import json
import os
import select
import signal
import subprocess
import tempfile
import time

from bench import BATCH, START_S, Failed, end_group, last_line, require_batches_of


class Resident:
    """One peer's process in a session of its own, confined to cores."""

    def __init__(self, command, cores, warm_s, size):
        self.command = ["taskset", "-c", ",".join(str(core) for core in cores), *command, "--turns",
                        f"--warm={warm_s}", f"--size={size}", f"--batch={BATCH}"]
        self.python, self.size, self.warm_s = command[0], size, warm_s
        self.process = self.errors = None
        self.rest = b""

    def start(self):
        if not os.path.exists(self.python):
            raise Failed("not installed: see peers/setup")
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115 (close() closes it)
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.errors, start_new_session=True)
        self._until(lambda line: line == b"ready", START_S + self.warm_s)

    def turn(self, warm_s, seconds):
        """Its result over so many seconds. Throws Failed when it ended or delivers something else."""
        if self.process is None:
            self.start()
        self._signal(signal.SIGCONT)
        try:
            self.process.stdin.write(f"{warm_s} {seconds}\n".encode())
            self.process.stdin.flush()
        except BrokenPipeError:
            raise Failed(self._last_words()) from None
        result = json.loads(self._until(lambda line: line.startswith(b"{"), START_S + warm_s + seconds))
        self._signal(signal.SIGSTOP)
        require_batches_of(self.size, result)
        return result

    def _signal(self, number):
        """To all processes of its session that are still there."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def close(self):
        if self.process is not None:
            end_group(self.process)
            self.process.stdin.close()
            self.process.stdout.close()
            self.errors.close()
            self.process = None

    def _until(self, wanted, seconds):
        """The next line that is wanted; libraries print others."""
        deadline = time.monotonic() + seconds
        out = self.process.stdout.fileno()
        while True:
            *lines, self.rest = self.rest.split(b"\n")
            for number, line in enumerate(lines):
                if wanted(line):
                    self.rest = b"\n".join([*lines[number + 1:], self.rest])
                    return line
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([out], [], [], left)[0]:
                raise Failed(f"nothing came for {seconds:.0f} s")
            more = os.read(out, 1 << 16)
            if not more:
                raise Failed(self._last_words())
            self.rest += more

    def _last_words(self):
        self.process.wait()
        self.errors.seek(0)
        return last_line(self.errors.read().decode(errors="replace"))
