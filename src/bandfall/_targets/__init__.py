"""Targets: numbers and classes, one file each, with a common base class."""

from bandfall._targets.base import Output, Target
from bandfall._targets.classes import Classes
from bandfall._targets.numbers import Numbers

__all__ = ["Classes", "Numbers", "Output", "Target"]
