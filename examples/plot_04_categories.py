"""
Categories, gaps and all
========================

A table as it comes: numbers, words, and holes. `BandfallRegressor` takes it as it is.
"""

import numpy as np
import pandas as pd

from bandfall import BandfallRegressor

# %%
# Rents, made up: they rise with area, fall with distance, and each town has its level. A tenth of
# the areas are unknown.

rng = np.random.default_rng(0)
n = 360
towns = np.array(["Lund", "Kiel", "Graz", "Bern"])
table = pd.DataFrame(
    {
        "area": rng.uniform(20, 120, n),
        "distance": rng.gamma(2.0, 3.0, n),
        "town": rng.choice(towns, n),
        "balcony": rng.choice(["yes", "no"], n),
    }
)
level = table["town"].map({"Lund": 300, "Kiel": 200, "Graz": 250, "Bern": 700})
rent = level + 9 * table["area"] - 60 * np.sqrt(table["distance"]) + rng.normal(0, 20, n)
table.loc[rng.random(n) < 0.1, "area"] = np.nan
table.head()

# %%
# Missing numbers become the median, and a column of their own says that they were missing. Words
# become one column for each category.

train, test = table[:240], table[240:]
model = BandfallRegressor(kernels=("gaussian",), max_rounds=2).fit(train, rent[:240])
print(f"test R² {model.score(test, rent[240:]):.3f}")

# %%
# What holes cost: the same rows, scored apart.

holes = test["area"].isna()
error = (model.predict(test) - rent[240:]).abs()
print(f"mean error {error[~holes].mean():.0f}, where the area is missing {error[holes].mean():.0f}")

# %%
# A town that training never saw is not an error. It gets the prediction of a place about which
# nothing is known.

new = pd.DataFrame({"area": [60.0], "distance": [3.0], "town": ["Oslo"], "balcony": ["no"]})
print(model.predict(new).round())
