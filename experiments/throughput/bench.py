"""Runs one loader once, on given cores, and says how many images per second it delivered."""

import contextlib
import glob
import json
import os
import select
import signal
import statistics
import subprocess
import tempfile
import time
from collections import namedtuple

from peers.measuring import cpu_seconds, pss_mb

# The other loaders: the virtual environment that each runs in, MODULE.FUNCTION of peers/, and ways to set it up, `threads
# variant`, of which the first is the fastest by measurement and is what is compared with Forebay (`--variants all` measures
# all); the best way beside a trainer that takes a core; `writes`: it reads a format of its own.
Loader = namedtuple("Loader", "environment code ways beside_trainer writes", defaults=(False,))

ON_TWO = ("2 simplejpeg", "2 cv2", "2 torchvision", "2 pil", "3 simplejpeg", "4 simplejpeg")

PEERS = {
    "forebay-python": Loader("torch", "plain_loaders.forebay_python", ("2", "0"), "0"),
    "thread-pool": Loader("torch", "plain_loaders.thread_pool", ON_TWO, "2 simplejpeg"),
    "pytorch": Loader("torch", "torch_loaders.workers", ON_TWO, "2 simplejpeg"),
    "torchvision": Loader("torch", "torch_loaders.reference", ("2", "4"), "2"),
    "webdataset": Loader("torch", "torch_loaders.web_dataset", ON_TWO, "2 simplejpeg", True),
    "streaming": Loader("torch", "torch_loaders.streaming_mds", ON_TWO, "2 simplejpeg", True),
    "grain": Loader("torch", "plain_loaders.grain_data", ("2 simplejpeg", "2 cv2", "3 simplejpeg", "2 simplejpeg processes"),
                    "2 simplejpeg"),
    "spdl": Loader("torch", "plain_loaders.spdl_io", ("2 simplejpeg", "2 cv2", "3 simplejpeg"), "2 simplejpeg"),
    "dali": Loader("dali", "dali.run", ("3 fast", "2 fast", "4 fast", "2"), "2 fast"),
    "tfdata": Loader("tf", "tf_data.run", ("2 fast", "2", "4 fast"), "2 fast"),
    "ffcv": Loader("ffcv", "ffcv_jpeg.run", ("2", "3"), "2", True),
}

# What Forebay through Python is to be at least, times the loader, on two cores.
WANTED = {"thread-pool": 1.3, "pytorch": 1.6, "torchvision": 2.5, "webdataset": 1.8, "streaming": 1.8, "grain": 1.5,
          "spdl": 1.3, "dali": 1.25, "tfdata": 1.5, "ffcv": 2.0}

BATCH = 64
START_S = 180  # no loader takes longer to its first batch; FFCV compiles, and some write a format of their own
POLL_S = 0.05
LATE_S = 20  # a batch that the measured time ends with comes at most so late
TAIL_BYTES = 4096


def threads_of(way):
    return way.split()[0]


def variant_of(way):
    return way.partition(" ")[2]


def title_of(name, way):
    return f"{name}, {'auto' if way == '0' else way}"


class Failed(Exception):
    """A loader that is not there or did not work; the text says why."""


class Bench:
    def __init__(self, build, peers, folder, cores, warm_s, seconds):
        # Whole paths: some loaders are started in another folder.
        self.forebay_command = os.path.abspath(os.path.join(build, "bin", "forebay"))
        self.bare_command = os.path.abspath(os.path.join(build, "bin", "bench_bare_loop"))
        self.peers = os.path.abspath(peers)
        self.folder, self.cores, self.warm_s, self.seconds = folder, cores, warm_s, seconds
        self.prepared = set()

    def bare(self, config, threads, overrides=()):
        """The bare loop by so many threads on as many cores."""
        return self._json([self.bare_command, config, str(threads), str(self.warm_s), str(self.seconds), *overrides],
                          threads)

    def forebay(self, config, cores, overrides=()):
        """`forebay feed` for as long as the others; the rate is that between the batches of the measured time, from the
        telemetry of its steps: the summary's also counts what was ready when the run began."""
        with tempfile.TemporaryDirectory(dir=self.folder) as run:
            summary = os.path.join(run, "summary.json")
            sets = [f"--set={item}" for item in (*overrides, f"telemetry.dir={json.dumps(run)}")]
            with open(os.path.join(run, "errors"), "w+", encoding="utf-8") as errors:
                command = [self.forebay_command, "feed", config, "--quiet", "--summary", summary, *sets]
                process = subprocess.Popen(self._on(cores) + command, stdout=errors, stderr=errors,
                                           start_new_session=True)
                used = self._stop_after_measuring(process, os.path.join(run, "steps.0.jsonl"))
                errors.seek(0)
                if process.returncode != 0:
                    raise Failed(last_line(errors.read()))
            with open(os.path.join(run, "steps.0.jsonl"), encoding="utf-8") as lines:
                times = [json.loads(line)["t_s"] for line in lines]
            with open(summary, encoding="utf-8") as file:
                whole = json.load(file)
        first, last = self._measured(times)
        took = (times[last] - times[first]) / (last - first)  # seconds per batch
        longest = max(b - a for a, b in zip(times[first:last], times[first + 1:last + 1], strict=False))
        return {"images_per_s": BATCH / took, "longest_gap": longest / took, **used,
                "summary_images_per_s": whole["images_per_s"], "bad_samples": whole["bad_samples"],
                "queue_capacity": whole["queue_capacity"]}

    def peer(self, name, what, way, size):
        """One of the other loaders, over a list of files; Forebay's Python package over a configuration file."""
        result = self._json([*self.command_of(name, what, way), f"--batch={BATCH}", f"--size={size}",
                             f"--warm={self.warm_s}", f"--seconds={self.seconds}"], len(self.cores))
        require_batches_of(size, result)
        return result

    def command_of(self, name, what, way):
        """How a peer is started, after it has written what it reads."""
        loader = PEERS[name]
        python = self.python_of(loader.environment)
        scratch = os.path.join(self.folder, os.path.splitext(os.path.basename(what))[0])
        os.makedirs(scratch, exist_ok=True)
        command = [python, script_of("common.py"), loader.code, what, f"--threads={threads_of(way)}",
                   f"--variant={variant_of(way)}", f"--scratch={scratch}"]
        written = (name, what, variant_of(way))
        if loader.writes and written not in self.prepared:
            done = subprocess.run([*command, "--prepare"], capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise Failed(last_line(done.stderr))
            self.prepared.add(written)
        return command

    def python_of(self, environment):
        python = os.path.join(self.peers, environment, "bin", "python")
        if not os.path.exists(python):
            raise Failed("not installed: see peers/setup")
        return python

    def _on(self, cores):
        return ["taskset", "-c", ",".join(str(core) for core in self.cores[:cores])]

    def _json(self, command, cores):
        process = subprocess.Popen(self._on(cores) + command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   start_new_session=True)
        try:
            out, errors = process.communicate(timeout=START_S + self.warm_s + self.seconds)
        except subprocess.TimeoutExpired:
            raise Failed(f"no result within {START_S} s of its start") from None
        finally:
            end_group(process)
        if process.returncode != 0:
            raise Failed(last_line(errors))
        return json.loads(out.splitlines()[-1])

    def _measured(self, times):
        """The first step after the warm-up and the first one after the measured time: several may come at once, so that
        the last one within it may lie long before its end."""
        first = next((n for n, t in enumerate(times) if t >= self.warm_s), None)
        last = next((n for n, t in enumerate(times) if t >= self.warm_s + self.seconds), None)
        if first is None or last is None or first == last:
            raise Failed(f"no batch after {self.seconds} s: give --seconds more")
        return first, last

    def _stop_after_measuring(self, process, steps):
        """Lets it run until its last record is past the measured time, then asks it to end. Returns how many cores it
        kept busy, and its memory."""
        try:
            self._wait(process, lambda: os.path.exists(steps) and os.path.getsize(steps) > 0, START_S)
            self._wait(process, lambda: False, self.warm_s)
            since, used = time.monotonic(), cpu_seconds(process.pid)
            self._wait(process, lambda: False, self.seconds)
            busy = (cpu_seconds(process.pid) - used) / (time.monotonic() - since)
            memory = pss_mb(process.pid)
            self._wait(process, lambda: last_time(steps) >= self.warm_s + self.seconds, LATE_S)
            return {"busy_cores": busy, "pss_mb": memory}
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(60)
            end_group(process)

    @staticmethod
    def _wait(process, until, seconds):
        deadline = time.monotonic() + seconds
        while process.poll() is None and not until() and time.monotonic() < deadline:
            time.sleep(POLL_S)


class Resident:
    """A loader that stays: one peer's process in a session of its own, confined to cores. It starts once, becomes warm,
    and is measured again and again when it is its turn. In between it is stopped, so that it takes nothing from the
    others."""

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


def script_of(name):
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "peers", name)


def require_batches_of(size, result):
    if result["shape"] != [BATCH, 3, size, size] or result["dtype"] != "float32" or not result["contiguous"]:
        raise Failed(f"delivers {result['dtype']} {result['shape']}, not [{BATCH}, 3, {size}, {size}] float32")


def end_group(process):
    """Ends what is left of a process that leads a session, its workers included: they got no Ctrl-C of ours."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def last_time(steps):
    """When the last step was made that is in a file of steps."""
    with open(steps, "rb") as file:
        file.seek(max(0, os.path.getsize(steps) - TAIL_BYTES))
        whole = [line for line in file.read().split(b"\n")[:-1] if line.startswith(b"{") and line.endswith(b"}")]
    return json.loads(whole[-1])["t_s"] if whole else 0


def last_line(text):
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip()[:160] if lines else "it ended without a word"


class Row:
    """A loader's results, one per round; `failure` instead once it did not work."""

    def __init__(self, name, run):
        self.name, self.run, self.results, self.failure = name, run, [], None

    def measure(self):
        if self.failure:
            return
        try:
            self.results.append(self.run())
        except Failed as why:
            self.failure = str(why)

    @property
    def rates(self):
        return [] if self.failure else [result["images_per_s"] for result in self.results]

    @property
    def median(self):
        return statistics.median(self.rates) if self.rates else None

    @property
    def cpu_us(self):
        """Processor time per image, in us: less than its share of the wall clock where the cores were not kept busy."""
        used = [1e6 * result["busy_cores"] / result["images_per_s"] for result in self.results]
        return statistics.median(used) if used else None

    def median_of(self, figure):
        """Of the rounds in which it was taken, or None."""
        found = [result[figure] for result in self.results if figure in result]
        return statistics.median(found) if found and not self.failure else None

    @property
    def steps_ms(self):
        """The length of every step of a trainer, of all rounds, in order of length."""
        return sorted(step for result in self.results for step in result.get("steps_ms", ()))

    def step_ms(self, share):
        steps = self.steps_ms
        return steps[min(len(steps) - 1, int(share * len(steps)))] if steps else None

    def ratio_to(self, other):
        """Median of the ratios of the rounds: what drifts from round to round drifts for both. None without figures."""
        if not self.rates or not other.rates:
            return None
        return statistics.median(a / b for a, b in zip(self.rates, other.rates, strict=False))

    def to_json(self):
        return {"name": self.name, "failure": self.failure, "median": self.median, "cpu_us": self.cpu_us,
                "results": self.results}


def interleave(rows, rounds, say):
    """A B C A B C ..."""
    for number in range(rounds):
        for row in rows:
            row.measure()
            say(f"  {number + 1}/{rounds} {row.name}: " +
                (row.failure or f"{row.results[-1]['images_per_s']:.1f} images/s"))


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")
    return {"cpu": model, "cores": os.cpu_count(), "kernel": os.uname().release, "load": os.getloadavg()[0],
            "date": time.strftime("%Y-%m-%d %H:%M")}


def tidy(folder):
    """Removes what an interrupted run has left of its telemetry."""
    for left in glob.glob(os.path.join(folder, "tmp*")):
        subprocess.run(["rm", "-rf", left], check=False)
