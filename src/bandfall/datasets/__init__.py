"""The six data sets of the paper: four loaders, two generators, and the paper's splits.

No data are bundled: `bandfall.datasets._real` describes where the real files are searched.
"""

from bandfall.datasets._real import load_cpu, load_power, load_superconductors, load_uk_temperature
from bandfall.datasets._splits import Split, paper_splits
from bandfall.datasets._synthetic import make_sine, make_two_scale

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
