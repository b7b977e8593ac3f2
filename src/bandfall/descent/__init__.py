"""Kernel gradient descent with a falling bandwidth: solvers, stopping and the Path."""

from bandfall.descent._euler import Euler
from bandfall.descent._fit import fit_path, get_solver, resume_path, rewind_path
from bandfall.descent._flow import Flow
from bandfall.descent._front import Plan
from bandfall.descent._path import Log, Path, Stage
from bandfall.descent._schedules import Constant, Front, Geometric, MinimumSpeed, Schedule
from bandfall.descent._stopping import Status, Stopping
from bandfall.descent._sum import KernelSum
from bandfall.descent._sweep import FloorSweep, floor_sweep

__all__ = [
    "Constant",
    "Euler",
    "FloorSweep",
    "Flow",
    "Front",
    "Geometric",
    "KernelSum",
    "Log",
    "MinimumSpeed",
    "Path",
    "Plan",
    "Schedule",
    "Stage",
    "Status",
    "Stopping",
    "fit_path",
    "floor_sweep",
    "get_solver",
    "resume_path",
    "rewind_path",
]
