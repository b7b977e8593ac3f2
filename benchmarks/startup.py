"""Seconds until `import bandfall`, the first model and `bandfall --help` are ready.

python benchmarks/startup.py [--source FOLDER]    the folder `src` of another checkout, to compare

Best of five processes each; the first run fills the disk cache and does not count.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

CALLS = {
    "import bandfall": ["-c", "import bandfall"],
    "from bandfall import BandfallRegressor": ["-c", "from bandfall import BandfallRegressor"],
    "bandfall --help": ["-m", "bandfall", "--help"],
    "bandfall fit --help": ["-m", "bandfall", "fit", "--help"],
}


def seconds(arguments: list[str], source: Path, n_runs: int = 5) -> float:
    """Best time of a new Python process."""
    times = []
    for _ in range(n_runs + 1):
        start = time.perf_counter()
        subprocess.run(
            [sys.executable, *arguments],
            check=True,
            stdout=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": str(source)},
        )
        times.append(time.perf_counter() - start)
    return min(times[1:])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", type=Path, default=Path(__file__).parents[1] / "src")
    source = parser.parse_args().source.resolve()
    for name, arguments in CALLS.items():
        print(f"{name:40s} {seconds(arguments, source):5.2f} s")
