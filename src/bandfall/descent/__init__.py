"""Kernel gradient descent with a falling bandwidth: solvers, stopping and the Path."""

from bandfall.descent.euler import Euler
from bandfall.descent.fit import fit_path, resume_path, rewind_path
from bandfall.descent.flow import Flow
from bandfall.descent.front import Plan
from bandfall.descent.path import Log, Path, Stage
from bandfall.descent.solvers import get_solver
from bandfall.descent.stopping import Status, Stopping
from bandfall.descent.sweep import FloorSweep, floor_sweep

__all__ = [
    "Euler",
    "FloorSweep",
    "Flow",
    "Log",
    "Path",
    "Plan",
    "Stage",
    "Status",
    "Stopping",
    "fit_path",
    "floor_sweep",
    "get_solver",
    "resume_path",
    "rewind_path",
]
