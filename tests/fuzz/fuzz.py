"""Runs fuzz targets that are built, two at a time, and says how it goes. Called by tests/fuzz/run."""
import argparse
import concurrent.futures
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import seeds  # noqa: E402

AT_A_TIME = 2
REPORT_EVERY = 15  # seconds
REPORT_LINES = 60  # of what a sanitizer says about a find

# A single allocation above the limit is a find: inputs are small, and memory shall be in proportion.
LIMITS = ["-timeout=60", "-report_slow_units=60", "-rss_limit_mb=2048", "-malloc_limit_mb=256"]

PROGRESS = re.compile(r"^#(\d+)\s.*?cov: (\d+) .*?corp: (\d+)/", re.MULTILINE)
DONE = re.compile(r"^Done (\d+) runs in", re.MULTILINE)


class Runs:
    """The processes that run, so that they can be ended together."""

    def __init__(self):
        self._lock = threading.Lock()
        self._processes = set()
        self.stopped = False

    def start(self, command, **options):
        with self._lock:
            if self.stopped:
                raise InterruptedError
            process = subprocess.Popen(command, **options)
            self._processes.add(process)
            return process

    def ended(self, process):
        with self._lock:
            self._processes.discard(process)

    def stop(self):
        with self._lock:
            self.stopped = True
            for process in self._processes:
                process.kill()


def say(message):
    print(message, flush=True)


def tell_progress(target, log, passed, seconds):
    found = PROGRESS.findall(log.read_text(errors="replace"))
    if found:
        inputs, covered, kept = found[-1]
        say(f"{target}: {passed} of {seconds} s, {inputs} inputs, {covered} edges covered, {kept} inputs kept")


def fuzz(target, options, work, runs):
    """Returns whether nothing was found."""
    corpus = options.cache / target / "corpus"
    finds = options.cache / target / "finds"
    for folder in (corpus, finds):
        folder.mkdir(parents=True, exist_ok=True)
    before = set(finds.iterdir())
    log = work / f"{target}.log"
    scratch = work / f"{target}.tmp"
    scratch.mkdir()
    command = [options.binaries / target, f"-max_total_time={options.seconds}", f"-artifact_prefix={finds}/",
               f"-dict={work / 'seeds' / target}.dict", *LIMITS, corpus, work / "seeds" / target]
    with log.open("wb") as output:
        process = runs.start(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                             env={**os.environ, "TMPDIR": str(scratch)})
        start = time.monotonic()
        while True:
            try:
                process.wait(REPORT_EVERY)
                break
            except subprocess.TimeoutExpired:
                tell_progress(target, log, round(time.monotonic() - start), options.seconds)
    runs.ended(process)
    if runs.stopped:
        return False
    text = log.read_text(errors="replace")
    done = DONE.search(text)
    if process.returncode == 0 and done and int(done[1]) > 0:
        say(f"{target}: {done[1]} inputs, nothing found")
        return True

    say(f"{target}: ended with status {process.returncode}\n" + report(text))
    found = sorted(set(finds.iterdir()) - before) or sorted(re.findall(r"Test unit written to (\S+)", text))
    for file in found:
        say(f"{target}: repeat it with: tests/fuzz/run --repeat {target} {shlex.quote(str(file))}")
    return False


def report(text):
    """What a sanitizer or libFuzzer says about the find, else the last that was said."""
    lines = text.splitlines()
    for i, line in enumerate(lines):
        if "ERROR: " in line or "runtime error: " in line or "broken invariant: " in line:
            return "\n".join(lines[i:i + REPORT_LINES])
    return "\n".join(lines[-REPORT_LINES:])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binaries", type=pathlib.Path, required=True)
    parser.add_argument("--cache", type=pathlib.Path, required=True)
    parser.add_argument("--seconds", type=int)
    parser.add_argument("--repeat", type=pathlib.Path)
    parser.add_argument("targets", nargs="+")
    options = parser.parse_args()

    def end(number, _):
        sys.exit(128 + number)
    # Under a shell's "&" ctrl-C is ignored, and so it would be in what is started here.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end)

    if options.repeat:
        return subprocess.run([options.binaries / options.targets[0], *LIMITS, options.repeat]).returncode

    runs = Runs()
    with tempfile.TemporaryDirectory(prefix="headway-fuzz-") as folder:
        work = pathlib.Path(folder)
        seeds.main(work / "seeds")
        pool = concurrent.futures.ThreadPoolExecutor(AT_A_TIME)
        try:
            results = list(pool.map(lambda target: fuzz(target, options, work, runs), options.targets))
        finally:
            runs.stop()
            pool.shutdown(cancel_futures=True)
    failed = results.count(False)
    say(f"{len(results) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
