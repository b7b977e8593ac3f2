"""scikit-learn's own checks, without exceptions."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from bandfall import (
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
