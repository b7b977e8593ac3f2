"""Kernel gradient descent with a falling bandwidth: solvers, stopping and the Path."""

from bandfall.descent._euler import Euler
from bandfall.descent._fit import fit_path, get_solver, rewind_path
from bandfall.descent._flow import Flow
from bandfall.descent._front import TrainingFront
from bandfall.descent._path import Log, Path, Stage
from bandfall.descent._schedules import Constant, MinimumSpeed, Schedule
from bandfall.descent._stopping import Status, Stopping
from bandfall.descent._sum import KernelSum
from bandfall.descent._sweep import FloorSweep, floor_sweep

__all__ = [
    "Constant",
    "Euler",
    "FloorSweep",
    "Flow",
    "KernelSum",
    "Log",
    "MinimumSpeed",
    "Path",
    "Schedule",
    "Stage",
    "Status",
    "Stopping",
    "TrainingFront",
    "fit_path",
    "floor_sweep",
    "get_solver",
    "rewind_path",
]
