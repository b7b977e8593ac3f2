"""Displays in scikit-learn's style; they need matplotlib (``pip install matplotlib``)."""

from bandfall.plotting._intervals import IntervalDisplay
from bandfall.plotting._path import PathDisplay, TangentLogDisplay
from bandfall.plotting._theory import BoundDisplay, DoubleDescentDisplay, KernelShiftDisplay

__all__ = [
    "BoundDisplay",
    "DoubleDescentDisplay",
    "IntervalDisplay",
    "KernelShiftDisplay",
    "PathDisplay",
    "TangentLogDisplay",
]
