"""What is predicted: numbers or classes, one file each."""

from bandfall._targets.classes import Classes
from bandfall._targets.numbers import Numbers, Output

Target = Numbers | Classes

__all__ = ["Classes", "Numbers", "Output", "Target"]
