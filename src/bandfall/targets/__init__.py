"""Targets: numbers and classes, one file each, with a common base class."""

from bandfall.targets.base import Output, Target
from bandfall.targets.classes import Classes
from bandfall.targets.numbers import Numbers

__all__ = ["Classes", "Numbers", "Output", "Target"]
