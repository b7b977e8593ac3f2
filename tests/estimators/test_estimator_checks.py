"""scikit-learn's own checks, without exceptions but one that its own models need too."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from bandfall import (
    BandfallClassifier,
    BandfallRegressor,
    KernelDescentRegressor,
    KernelFlowCV,
    KernelFlowRegressor,
    KernelRidgeCV,
    KernelRidgeMML,
    KernelRidgeRegressor,
    PaperMLPRegressor,
)


@parametrize_with_checks(
    [
        KernelDescentRegressor(),
        KernelDescentRegressor(device="torch"),
        KernelRidgeRegressor(),
        KernelFlowRegressor(),
        KernelRidgeCV(),
        KernelFlowCV(),
        KernelRidgeMML(),
        PaperMLPRegressor(),
    ]
)
def test_sklearn_checks(estimator, check):
    check(estimator)


@pytest.mark.filterwarnings("ignore:values far outside")  # of checks that predict other rows
@pytest.mark.filterwarnings("ignore:.*rows repeat an earlier row")  # of checks that repeat rows
@pytest.mark.filterwarnings("ignore:y holds one class")  # of the check with one label
@parametrize_with_checks(
    [
        BandfallRegressor(kernels=("gaussian",), max_rounds=1),
        BandfallClassifier(kernels=("gaussian",), max_rounds=0),
    ],
    expected_failed_checks=lambda estimator: {
        "check_sample_weight_equivalence_on_dense_data": (
            "repeated rows are held out in other parts than one row of their weight"
        )
    },
)
def test_sklearn_checks_of_the_self_tuning(estimator, check):
    check(estimator)
