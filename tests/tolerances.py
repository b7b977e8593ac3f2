"""One place for tolerances: rounding of the dtype times what the computation amplifies."""

import numpy as np


def rounding(dtype, amplification=1.0):
    """`amplification` units in the last place, as a relative tolerance."""
    return amplification * float(np.finfo(dtype).eps)
