"""The paper's theory as tools: diagnostics of a fitted path and of data.

Every function cites its equation; ``docs/theory.md`` walks through them.
"""

from bandfall.theory._bound import (
    GeneralizationBound,
    generalization_bound,
    gradient_bound,
    mean_kernel_shift,
    residual_bound,
)
from bandfall.theory._shift import (
    KernelMoments,
    ShiftRegions,
    expected_kernel_shift,
    kernel_moments,
    kernel_shift,
    shift_regions,
)
from bandfall.theory._spectrum import (
    StagedDegreesOfFreedom,
    degrees_of_freedom,
    flow_degrees_of_freedom,
    kernel_eigenvalues,
    mean_smallest_eigenvalue,
    path_smallest_eigenvalue,
    ridge_degrees_of_freedom,
    smallest_eigenvalue,
    staged_degrees_of_freedom,
)
from bandfall.theory._trajectory import fine_log, r2_acceleration, r2_speed

__all__ = [
    "GeneralizationBound",
    "KernelMoments",
    "ShiftRegions",
    "StagedDegreesOfFreedom",
    "degrees_of_freedom",
    "expected_kernel_shift",
    "fine_log",
    "flow_degrees_of_freedom",
    "generalization_bound",
    "gradient_bound",
    "kernel_eigenvalues",
    "kernel_moments",
    "kernel_shift",
    "mean_kernel_shift",
    "mean_smallest_eigenvalue",
    "path_smallest_eigenvalue",
    "r2_acceleration",
    "r2_speed",
    "residual_bound",
    "ridge_degrees_of_freedom",
    "shift_regions",
    "smallest_eigenvalue",
    "staged_degrees_of_freedom",
]
