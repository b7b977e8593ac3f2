"""Names of data sets and kernels in the paper."""

DATASETS = {
    "cpu": "CPU Run Time",
    "power": "Power Consumption",
    "superconductors": "Superconductors",
    "uk_temperature": "U.K. Temperature",
}
KERNELS = {
    "gaussian": "Gaussian",
    "matern12": "ν = 1/2 (Laplace)",
    "matern32": "ν = 3/2",
    "matern52": "ν = 5/2",
    "cauchy": "Cauchy",
}
