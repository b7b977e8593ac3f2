"""Displays in scikit-learn's style; they need matplotlib (``pip install matplotlib``)."""

from bandfall.plotting._bound import BoundDisplay
from bandfall.plotting._boundary import BoundaryDisplay
from bandfall.plotting._double_descent import DoubleDescentDisplay
from bandfall.plotting._interval import IntervalDisplay
from bandfall.plotting._path import PathDisplay, TangentLogDisplay
from bandfall.plotting._selection import SelectionDisplay
from bandfall.plotting._shift import KernelShiftDisplay

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
