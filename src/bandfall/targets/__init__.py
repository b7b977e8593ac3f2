"""What models predict: one kind of target a file, behind one protocol."""

from bandfall.targets.base import Output, Target
from bandfall.targets.classes import Classes
from bandfall.targets.numbers import Numbers

__all__ = ["Classes", "Numbers", "Output", "Target"]
