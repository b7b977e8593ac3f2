"""What each figure shows, in our words: the text that stands under it in the report."""

CAPTIONS = {
    "figure1": (
        "One draw of 20 noisy points from a sine on top: what KGD-D and KRR learn when the "
        "bandwidth may not fall below σ_m. A large floor gives curves that are too flat, a medium "
        "one finds the sine, a smaller one overshoots between the points; at the smallest KRR "
        "shrinks to spikes while KGD-D is close to the sine again. Below: 1 − R² against the "
        "floor, averaged over all draws, on training points (dashed) and test points (solid); "
        "bands hold the middle 90 % of the draws, black lines mark the floors drawn on top."
    ),
    "figure2": (
        "How the kernel shift Δk₂ depends on the bandwidth, on standardised samples of 30 rows "
        "from each real data set: the median over the samples (solid) between its quartiles "
        "(dotted). Tiny bandwidths give 1 for every sample and huge ones 0; in between the shift "
        "is several times larger and differs from sample to sample."
    ),
    "figure3": (
        "Five neural networks fitted to the same noisy sine, each with its number of parameters p, "
        "epochs N_e and test R². The first four grow from left to right and train by plain "
        "gradient descent; the gradients of the fifth, a small one, are preconditioned so that its "
        "tangent kernel acts like one whose bandwidth falls. Training ends at a training R² of "
        "0.999 or at the limit on epochs."
    ),
    "figure4": (
        "Error 1 − R² against the smallest bandwidth allowed, for the Gaussian kernel: training "
        "(dashed) and test rows (solid), averaged over the splits of each real data set, with "
        "bands for the middle 90 % of the splits. From left to right both test curves fall, rise "
        "and fall again; past that KRR loses all it had learned, and KGD-D keeps its low error."
    ),
    "figure5": (
        "A line interrupted by a fast sine, learned by KGD-D (left) and by KRR with one "
        "cross-validated bandwidth (right); rows go from little training to much, both sides at "
        "about equal training R². KGD-D picks up the line first and the sine later, and passes "
        "through the points without going astray between them. KRR's bandwidth, which fits the "
        "sine, leaves gaps along the line, and near interpolation its curve swings far beyond the "
        "data."
    ),
    "figure6": (
        "The panels and curves of Figure 1 for four other kernels. With Matérn 3/2, Matérn 5/2 and "
        "the Cauchy kernel the test error of KGD-D comes down twice; with Matérn 1/2, whose fits "
        "are close to straight lines between the points, there is no peak to come down from."
    ),
    "figure7": (
        "The curves of Figure 4 for four other kernels, one per row. Three of them repeat the two "
        "descents of KGD-D; Matérn 1/2, in the first row, has one, and its test error stays low "
        "where that of KRR climbs."
    ),
}
