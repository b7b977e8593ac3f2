"""The captions of the paper's figures, to be read beside ours."""

CAPTIONS = {
    "figure1": (
        "Top: Inferred models for different values of the minimum allowed bandwidth, σ_m, and a "
        "fixed training time/regularization. With increasing model complexity (decreasing σ_m) the "
        "generalization goes from poor, to good, to poor, to, for the decreasing bandwidth model, "
        "good. Bottom: Mean and 90 % prediction intervals of training and generalization errors "
        "(as 1 − R²) as a function of σ_m. The four vertical black lines correspond to the four "
        "top panels."
    ),
    "figure2": (
        "Δk₂ as a function of σ. We used the Gaussian kernel, with the data standardized to zero "
        "mean and unit variance, and split into 100 random, non-overlapping splits, each "
        "containing 30 observations. The solid and dotted lines mark the median and first and "
        "fourth quartile across the 100 splits. As σ goes to 0 and ∞, Δk₂ becomes "
        "deterministically 1 and 0, while for intermediate values of σ, Δk₂ exhibits randomness "
        "and is significantly larger than 1."
    ),
    "figure3": (
        "Inferred functions of neural networks of increasing complexity, trained until R² on "
        "training data exceeds 0.999, or at most for 10⁷ epochs, N_e. R²_te denotes R² on test "
        "data. In the fifth panel, we have used preconditioned gradient descent to make the NTK "
        "evolve as if its bandwidth decreased to zero during training."
    ),
    "figure4": (
        "Training and test errors (as 1 − R²) as functions of model complexity (in terms of σ_m), "
        "for kernel regression with constant and decreasing bandwidths. The plots show the means, "
        "together with the 90 % prediction intervals. For simple models, both the training and "
        "test errors are large, but they all decrease with increasing model complexity. While the "
        "training errors decrease toward zero, the test errors start to increase again as the "
        "models become even more complex. When using a decreasing bandwidth, a second descent in "
        "the error results in good generalization for very complex models, something that is not "
        "the case for the constant bandwidth model."
    ),
    "figure5": (
        "Inferred models at different training times, increasing with the row number. Training "
        "time/regularization is selected to obtain the same R² on training data for both models. "
        "KGD-D first captures the linear parts of the data, and performs well both on the linear "
        "and sinusoidal parts, in combination with perfectly interpolating the data at "
        "convergence. In contrast, the constant bandwidth (selected by 10-fold cross-validation) "
        "is too small to perform well on the linear parts and too large to generalize well when "
        "the training error goes to zero."
    ),
    "figure6": (
        "Analogue of Figure 1, for the four kernels in Table 3. Except for ν = 1/2, for which the "
        "kernel and inferred functions tend to linearly interpolate the data, the results agree "
        "with those of Figure 4."
    ),
    "figure7": (
        "Training and test errors (as 1 − R²) as functions of model complexity (in terms of σ_m), "
        "for kernel regression with constant and decreasing bandwidths. The plots show the means, "
        "together with the 90 % prediction intervals. Except for ν = 1/2, for which the kernel and "
        "inferred functions tend to linearly interpolate the data, the results agree with those "
        "of Figure 4."
    ),
}
