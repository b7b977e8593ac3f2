"""The demonstration ``make demo``: the paper in small, then the estimator built on it.

    python -m bandfall.demo out

Everything is included: a noisy sine, 1,000 rows each of two of the paper's tables, and towing tests
of yacht hulls.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from joblib import Parallel, cpu_count, delayed, parallel_config

from bandfall._explore import render_playground
from bandfall.demo import _small as small
from bandfall.demo import _yacht as yacht
from bandfall.demo._yacht import load_yacht

__all__ = ["load_yacht", "main"]


def main(folder: Path) -> None:
    """Print the tables, write pictures and ``playground.html``, and print their paths."""
    from bandfall.demo import _pictures as pictures

    folder.mkdir(parents=True, exist_ok=True)
    # One core for each model, for a fair comparison of times.
    with parallel_config("loky", inner_max_num_threads=1):
        print(small.sweep_table(_run("Figure 1 in small", small.sweep, small.DRAWS)))
        print(small.score_table(_run("Table 2 in small", small.scores, small.SPLITS)))
        results = _run("yacht hulls and diabetes", yacht.score, yacht.cases())
    print(yacht.tables(results))
    print("  … pictures", file=sys.stderr, flush=True)
    sine = small.sine()
    pictures.draw_falling(sine, small.fit_floors(sine)).savefig(folder / "falling.png")
    pictures.draw_yachts(results).savefig(folder / "demo.png")
    playground = folder / "playground.html"
    playground.write_text(render_playground(), encoding="utf-8")
    print(f"\nPictures: {folder / 'falling.png'} (the paper), {folder / 'demo.png'} (the yachts)")
    command = " (or type `bandfall explore`)" if find_spec("typer") else ""
    print(f"To watch a model learn, open {playground} in a browser{command}.")
    print("The whole paper: pip install '.[paper]', then `bandfall paper run figure1`, or all.")


def _run(
    message: str, function: Callable[..., Any], arguments: Sequence[tuple[object, ...]]
) -> list[Any]:
    """Call a function with each of many arguments, in parallel."""
    print(f"  … {message}", file=sys.stderr, flush=True)
    parallel = Parallel(n_jobs=min(cpu_count(), 8))
    return list(parallel(delayed(function)(*each) for each in arguments))
