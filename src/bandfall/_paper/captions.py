"""Captions of the figures in the report, in our own words."""

CAPTIONS = {
    "figure1": (
        "Top: KGD-D and KRR on one draw of 20 noisy points from a sine, if the bandwidth may not "
        "fall below σ_m. A large floor gives curves that are too flat, a medium one finds the "
        "sine, and a smaller one overshoots between the points. At the smallest floor KRR "
        "shrinks to spikes, while KGD-D is close to the sine again. Bottom: 1 − R² against the "
        "floor, averaged over all draws, on training points (dashed) and test points (solid). "
        "Bands contain the middle 90 % of the draws; black lines mark the floors of the top row."
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
        "gradient descent. The gradients of the fifth, a small one, are preconditioned so that its "
        "tangent kernel acts like one whose bandwidth falls. Training ends at a training R² of "
        "0.999 or at the limit on epochs."
    ),
    "figure4": (
        "Error 1 − R² against the smallest bandwidth allowed, for the Gaussian kernel: training "
        "(dashed) and test rows (solid), averaged over the splits of each real data set, with "
        "bands for the middle 90 % of the splits. From left to right both test curves fall, rise "
        "and fall again. After that, KRR loses all it had learned, and KGD-D keeps its low error."
    ),
    "figure5": (
        "A line interrupted by a fast sine, learned by KGD-D (left) and by KRR with one "
        "cross-validated bandwidth (right). From top to bottom, training proceeds, with about "
        "equal training R² on both sides. KGD-D learns the line first and the sine later, and "
        "passes through the points without straying between them. KRR's bandwidth, which fits the "
        "sine, leaves gaps along the line, and near interpolation its curve swings far beyond the "
        "data."
    ),
    "figure6": (
        "The panels and curves of Figure 1 for four other kernels. With Matérn 3/2, Matérn 5/2 and "
        "the Cauchy kernel the test error of KGD-D falls twice. With Matérn 1/2, whose fits are "
        "close to straight lines between the points, there is no peak."
    ),
    "figure7": (
        "The curves of Figure 4 for four other kernels, one per row. Three of them repeat the two "
        "descents of KGD-D. Matérn 1/2, in the first row, has one, and its test error stays low "
        "where that of KRR rises."
    ),
}
