"""The six data sets of the paper: four loaders, two generators, and the paper's splits.

Nothing is bundled: see `bandfall.datasets.real` for where the real files are looked for.
"""

from bandfall.datasets.real import (
    load_cpu,
    load_power,
    load_superconductors,
    load_uk_temperature,
)
from bandfall.datasets.splits import Split, paper_splits
from bandfall.datasets.synthetic import make_sine, make_two_scale

__all__ = [
    "Split",
    "load_cpu",
    "load_power",
    "load_superconductors",
    "load_uk_temperature",
    "make_sine",
    "make_two_scale",
    "paper_splits",
]
