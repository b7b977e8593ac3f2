"""Rows of classes, and paths trained on their codes."""

import numpy as np

from bandfall._models.logistic import ClassTarget
from bandfall._targets.links import class_codes, class_shares
from bandfall.descent import Flow, Stopping, fit_path
from bandfall.descent._schedules import MinimumSpeed
from bandfall.kernels import get_kernel


def problem(n_classes, n=60, weighted=False):
    random = np.random.default_rng(n_classes)
    X = random.normal(size=(n, 3))
    scores = np.stack([X @ random.normal(size=3) for _ in range(n_classes)], axis=1)
    labels = (scores + random.gumbel(size=scores.shape)).argmax(axis=1)
    weights = random.uniform(0.5, 2.0, n) if weighted else None
    return X, ClassTarget(labels, class_shares(labels, weights, n_classes), weights)


def path_of(X, target, kernel="gaussian"):
    codes = class_codes(target.labels, target.prior)
    stopping = Stopping(max_r2=0.6)
    schedule = MinimumSpeed(0.1, 0.5)
    return fit_path(
        X, codes, get_kernel(kernel), solver=Flow(), schedule=schedule, stopping=stopping
    )
