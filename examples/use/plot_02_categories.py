"""
Categories, dates and gaps
==========================

Real tables contain numbers, words, dates and missing values. `BandfallRegressor` takes them as they
are.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from bandfall import BandfallRegressor

# %%
# These rents are made up. They rise with the area and over the years, fall with the distance, and
# each town has its own level. A tenth of the areas are unknown.

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
# Missing numbers are replaced by the median, and an extra column marks them. Words become one
# column per category. Dates become a number and, if the data cover enough time, the time of year
# and the day of the week.

train, test = table[:240], table[240:]
model = BandfallRegressor(kernels=("gaussian",), max_rounds=2).fit(train, rent[:240])
print(f"test R² {model.score(test, rent[240:]):.3f}")

# %%
# The picture shows the test rows by town. Rows without an area are crosses.

fig, ax = plt.subplots(figsize=(5.5, 4), layout="constrained")
predictions = model.predict(test)
for town in towns:
    for gap, marker in ((False, "o"), (True, "x")):
        rows = ((test["town"] == town) & (test["area"].isna() == gap)).to_numpy()
        color = f"C{list(towns).index(town)}"
        label = None if gap else town
        ax.scatter(predictions[rows], rent[240:][rows], marker=marker, color=color, label=label)
ax.axline((1000, 1000), slope=1, color="gray", lw=1)
ax.set(xlabel="predicted rent", ylabel="rent")
ax.legend()

# %%
# What do missing values cost? Compare the errors of rows with and without an area.

holes = test["area"].isna()
error = (model.predict(test) - rent[240:]).abs()
print(f"mean error {error[~holes].mean():.0f}, where the area is missing {error[holes].mean():.0f}")

# %%
# A town that was not in the training data is no problem. The model warns, and predicts as for a
# place about which nothing is known.

new = table[:1].assign(area=60.0, distance=3.0, town="Oslo")
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    print(model.predict(new).round())
print([str(warning.message) for warning in caught])
