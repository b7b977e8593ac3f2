"""Differences between the paper's text and the author's scripts, and our choices."""

from __future__ import annotations

from bandfall.paper.layout import TextTable

_ROWS = [
    [
        "Start bandwidth σ₀ of KGD-D",
        "largest distance within the training rows",
        "largest distance between training rows and all rows",
        "text",
    ],
    [
        "Start bandwidth where the floor σ_m is larger",
        "not stated",
        "raised to the floor",
        "scripts: the left ends of Figures 4 and 7 depend on it",
    ],
    [
        "Order of update and speed test",
        "Algorithm 1 tests the speed, then updates",
        "update first, so that the first step is always at σ₀",
        "text",
    ],
    ["Smallest bandwidth in the tables", "0", "0.001", "text: the limit at 0 is exact here"],
    [
        "Limits of KGD-D",
        "training R² 0.999, or time 1000 in Figures 1, 4, 6 and 7",
        "both everywhere",
        "scripts",
    ],
    [
        "Scaling of the data",
        "standardised to zero mean and unit variance",
        "features standardised over training and test rows of a split together; the target is "
        "only centred",
        "scripts: otherwise the published results of KRR-MML cannot be reproduced, because its "
        "criterion depends on the scale of the target",
    ],
    [
        "Centring of the target",
        "mean of the training targets",
        "mean of the whole split",
        "KGD-D and the figures: text; KRR-CV, KRR-MML, KGF-CV: scripts, no intercept",
    ],
    [
        "Sizes of the CPU splits",
        "93 of 82 rows and 7 of 81",
        "the same, although the data have one row less",
        "the last split has 80 rows",
    ],
    [
        "Test points of Figures 1 and 6, bottom",
        "100 evenly spaced points",
        "100 points drawn from U(−1, 1)",
        "scripts",
    ],
    [
        "Test R²",
        "1 − ‖y − f̂‖²/‖y‖², footnote 1",
        "1 − MSE/Var(y), with the test targets' own mean",
        "scripts",
    ],
    [
        "Scored parameters of the MLP",
        "not stated",
        "the last, not the best on the validation rows",
        "scripts",
    ],
    [
        "Initial weights of the MLP",
        "not stated",
        "the default of a framework, which is unknown",
        "N(0, 1/fan-in); the lower quartiles of Table 4 depend on it and differ by up to 0.08",
    ],
    [
        "Loss of Figure 3's networks",
        "not stated",
        "half the mean squared error (networks 1–4), the mean squared error (network 5)",
        "scripts",
    ],
]

CHOICES = TextTable(
    "choices",
    "Where the paper's text and the author's scripts differ, and what is done here.",
    ["What", "Text", "Scripts", "Here"],
    _ROWS,
)
