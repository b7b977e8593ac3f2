"""
A schedule of your own
======================

The paper shrinks the bandwidth when R² rises too slowly. To use another rule, write an object with
three members.
"""

from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np

from bandfall.datasets import make_sine
from bandfall.descent import Flow, MinimumSpeed, Stopping, fit_path
from bandfall.kernels import get_kernel

X, y, X_new, y_new = make_sine(random_state=8)
order = np.argsort(X_new[:, 0])  # to draw curves
X_new, y_new = X_new[order], y_new[order]

# %%
# This one halves the bandwidth each time R² rises more slowly than `min_speed`.


@dataclass(frozen=True)
class Halving:
    """Half the bandwidth whenever training gets slow."""

    min_speed: float
    floor: float = 0.01

    def next_bandwidth(self, front):
        """The bandwidth to go on with."""
        bandwidth = front.bandwidth
        while bandwidth > self.floor and front.speed(bandwidth) <= self.min_speed:
            bandwidth = max(bandwidth / 2.0, self.floor)
        return bandwidth

    def threshold(self, bandwidth):
        """Speed below which training leaves that bandwidth."""
        return self.min_speed if bandwidth > self.floor else 0.0


# %%
# Compare both schedules with the same kernel, solver and stopping rule.

schedules = {
    "the paper's": MinimumSpeed(min_speed=0.1, shrink=0.1),
    "halving": Halving(min_speed=0.1),
}
fig, axes = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
axes[1].plot(X[:, 0], y, ".", color="black")
for name, schedule in schedules.items():
    path = fit_path(
        X,
        y[:, None],
        get_kernel("gaussian"),
        solver=Flow(),
        schedule=schedule,
        stopping=Stopping(max_r2=0.999, max_time=1000.0),
        bandwidth=2.0,
    )
    axes[0].step(
        path.log.time, path.log.bandwidth, where="post", label=f"{name}: {len(path)} stages"
    )
    axes[1].plot(X_new[:, 0], path.evaluate(X_new)[:, 0])
axes[0].set(xscale="log", xlabel="training time", ylabel="bandwidth")
axes[0].legend(loc="upper right", fontsize=8)
axes[1].set(title="the models at the end", ylim=(-2, 2))
