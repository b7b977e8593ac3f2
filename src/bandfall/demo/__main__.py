"""``python -m bandfall.demo FOLDER``."""

import sys
from pathlib import Path

from bandfall.demo import main

main(Path(*sys.argv[1:2] or ["out"]))
