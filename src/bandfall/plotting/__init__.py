"""Displays in scikit-learn's style; they need matplotlib (``pip install matplotlib``)."""

from bandfall.plotting._models import BoundaryDisplay, IntervalDisplay, SelectionDisplay
from bandfall.plotting._path import PathDisplay, TangentLogDisplay
from bandfall.plotting._theory import BoundDisplay, DoubleDescentDisplay, KernelShiftDisplay

__all__ = [
    "BoundDisplay",
    "BoundaryDisplay",
    "DoubleDescentDisplay",
    "IntervalDisplay",
    "KernelShiftDisplay",
    "PathDisplay",
    "SelectionDisplay",
    "TangentLogDisplay",
]
