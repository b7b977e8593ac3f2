"""A Dask scheduler and workers as processes of their own, as their commands start them."""

import os
import pathlib
import signal
import subprocess
import sys
import time

import numpy as np
from distributed import Client

ROOT = pathlib.Path(__file__).resolve().parents[1]
SECONDS = 60.0  # for anything on a busy machine
# The command `dask`, in a process that does not outlive the tests, however these end.
COMMAND = """
import os, sys, threading, time

parent = os.getppid()

def end_with_parent():
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)

threading.Thread(target=end_with_parent, daemon=True).start()
sys.argv[0] = "dask"
from dask.cli import run_cli
run_cli()
"""


class Cluster:
    """Processes on loopback.

    Parameters
    ----------
    directory : path
        For logs and what workers write.
    """

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        self.workers = []
        self.scheduler = None
        self.client = None
        self.start_scheduler()

    def start_scheduler(self):
        file = self.directory / "scheduler.json"
        file.unlink(missing_ok=True)
        options = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--no-show"]
        self.scheduler = self._run("scheduler", *options, "--scheduler-file", str(file))
        wait_until(file.exists, "a scheduler")
        self.client = Client(scheduler_file=str(file), set_as_default=False, timeout=10)
        self.address = self.client.scheduler.address

    def start_worker(self, *options, python_path=(), memory="1GB"):
        """A worker, which has joined when this returns."""
        number = len(self.workers)
        before = set(self.client.nthreads())
        process = self._run(
            "worker", self.address, "--nthreads", "1", "--no-dashboard", "--no-nanny",
            "--memory-limit", memory, "--name", f"worker-{number}",
            "--local-directory", str(self.directory), *options, python_path=python_path,
        )  # fmt: skip
        self.workers.append(process)
        wait_until(lambda: set(self.client.nthreads()) - before, "a worker")
        (process.address,) = set(self.client.nthreads()) - before
        return process

    def grow_to(self, n_workers):
        """Start workers until there are so many."""
        while len(self.alive) < n_workers:
            self.start_worker()

    @property
    def alive(self):
        return [one for one in self.workers if one.poll() is None]

    def kill(self, process):
        """SIGKILL, and wait until the scheduler knows."""
        process.kill()
        process.wait()
        wait_until(lambda: process.address not in self.client.nthreads(), "a loss to be noticed")

    def held(self):
        """What of ours is still anywhere on the cluster."""
        found = self.client.run(_held_by_worker)
        found["scheduler"] = self.client.run_on_scheduler(_tasks_of_scheduler)
        return {where: names for where, names in found.items() if names}

    def close(self):
        self.client.close()
        for process in [*self.workers, self.scheduler]:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait()

    def _run(self, *command, python_path=()):
        log = open(self.directory / f"{command[0]}.log", "ab")  # noqa: SIM115
        with log:
            return subprocess.Popen(
                [sys.executable, "-c", COMMAND, *command],
                env=environment(python_path), cwd=self.directory, stdout=log, stderr=log,
            )  # fmt: skip


def environment(python_path=()):
    """Of a process that finds this package and these tests."""
    path = [*map(str, python_path), str(ROOT / "src"), str(ROOT / "tests")]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path),
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }


def run_python(code, *arguments):
    """Run code in a process of its own."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(
        command, env=environment(), capture_output=True, text=True, timeout=SECONDS, check=False
    )


def _held_by_worker(dask_worker):
    return [name for name in dask_worker.data if name.startswith("bandfall-")]


def _tasks_of_scheduler(dask_scheduler):
    return [name for name in dask_scheduler.tasks if name.startswith("bandfall-")]


def task_prefixes(dask_scheduler):
    """Names under which a dashboard shows tasks."""
    return list(dask_scheduler.task_prefixes)


def has_computed(dask_worker):
    """Whether a worker took part in a product."""
    held = [one for name, one in dask_worker.data.items() if name.startswith("bandfall-")]
    return any("engine" in vars(one) for one in held if hasattr(one, "__dict__"))


class Faulty:
    """Something that workers hold whose only method fails."""

    def fail(self):
        return 1 // 0


def wait_until(condition, what, seconds=SECONDS):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"no {what} within {seconds:g} s"
        time.sleep(0.05)


def slow_gaussian(u):
    """A profile that takes its time, so that there is a middle of a product."""
    time.sleep(0.005)
    return np.exp(-0.5 * u * u)
