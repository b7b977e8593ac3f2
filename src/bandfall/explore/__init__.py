"""Pages to play with: watch a model learn in the browser."""

from bandfall.explore.playground import render_playground

__all__ = ["render_playground"]
