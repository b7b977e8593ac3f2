"""Cross-validation and evidence choose constant bandwidths, as the rivals of KGD-D in the paper."""

from bandfall.rivals._cross_validation import (
    best_cell,
    flow_cv_mse,
    permutation_folds,
    ridge_cv_mse,
)
from bandfall.rivals._evidence import Evidence, maximise_evidence
from bandfall.rivals._relevance import Relevance, relevance

__all__ = [
    "Evidence",
    "Relevance",
    "best_cell",
    "flow_cv_mse",
    "maximise_evidence",
    "permutation_folds",
    "relevance",
    "ridge_cv_mse",
]
