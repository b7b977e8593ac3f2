"""Pages to play with: watch a model learn in the browser.

The playground needs nothing but this package; the explorer of models (`data_page`, `server`,
`what_if`) needs what the commands need.
"""

from bandfall._explore.playground import render_playground

__all__ = ["render_playground"]
