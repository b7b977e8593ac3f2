"""
Categories, dates and gaps
==========================

A table as it comes: numbers, words, dates and holes. `BandfallRegressor` takes it as it is.
"""

import warnings

import numpy as np
import pandas as pd

from bandfall import BandfallRegressor

# %%
# Rents, made up: they rise with area and over the years, fall with distance, and each town has
# its level. A tenth of the areas are unknown.

rng = np.random.default_rng(0)
n = 360
towns = np.array(["Lund", "Kiel", "Graz", "Bern"])
table = pd.DataFrame(
    {
        "area": rng.uniform(20, 120, n),
        "distance": rng.gamma(2.0, 3.0, n),
        "town": rng.choice(towns, n),
        "since": np.datetime64("2019-01-01") + rng.integers(0, 5 * 365, n).astype("timedelta64[D]"),
    }
)
level = table["town"].map({"Lund": 300, "Kiel": 200, "Graz": 250, "Bern": 700})
years = (table["since"] - table["since"].min()).dt.days / 365
rent = level + 9 * table["area"] - 60 * np.sqrt(table["distance"]) + 40 * years
rent += rng.normal(0, 20, n)
table.loc[rng.random(n) < 0.1, "area"] = np.nan
table.head()

# %%
# Missing numbers become the median, and a column of their own says that they were missing. Words
# become one column for each category, dates a number and, where the data span them, the time of
# year and the day of the week.

train, test = table[:240], table[240:]
model = BandfallRegressor(kernels=("gaussian",), max_rounds=2).fit(train, rent[:240])
print(f"test R² {model.score(test, rent[240:]):.3f}")

# %%
# What holes cost: the same rows, scored apart.

holes = test["area"].isna()
error = (model.predict(test) - rent[240:]).abs()
print(f"mean error {error[~holes].mean():.0f}, where the area is missing {error[holes].mean():.0f}")

# %%
# A town that training never saw is no error. The model says so, and predicts as for a place about
# which nothing is known.

new = table[:1].assign(area=60.0, distance=3.0, town="Oslo")
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    print(model.predict(new).round())
print([str(warning.message) for warning in caught])
