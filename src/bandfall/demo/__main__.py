"""``python -m bandfall.demo``."""

import sys

from bandfall.demo import main

sys.exit(main())
