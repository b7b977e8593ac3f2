"""Read the cells of Tables 2, 4, 5 and 6 off the paper's LaTeX source.

Independent of the package: `published.json` was made from this reading, and the tests repeat it
wherever the source is at hand.
"""

import re

TABLE_KERNELS = {
    "tab:dec_100": (2, ("gaussian",)),
    "tab:dec_100_ext": (4, ("gaussian",)),
    "tab:dec_0.5": (5, ("matern12", "matern32")),
    "tab:dec_2.5": (6, ("matern52", "cauchy")),
}
DATASETS = {
    "CPU Run Time": "cpu",
    "Power Consumption": "power",
    "Superconductors": "superconductors",
    "U.K.\\ Temperature": "uk_temperature",
}
_DATASET = re.compile(r"\\multirow\{\d+\}\{\*\}\{(.+)\}$")
_SUMMARY = re.compile(r"^\$(-?[\d.]+),\\ \((-?[\d.]+), (-?[\d.]+)\)\$$")
_BOLD = re.compile(r"^\$\\bm\{(.+)\}\$$")


def read_tables(tex):
    """One dict per cell, with the fields of `published.json`, in the paper's order."""
    cells = []
    for block in re.findall(r"\\begin\{table\}(.*?)\\end\{table\}", tex, flags=re.S):
        label = re.search(r"\\label\{(.+?)\}", block).group(1)
        if label in TABLE_KERNELS:
            cells += _read_table(block, *TABLE_KERNELS[label])
    return cells


def _read_table(block, table, kernels):
    cells, dataset = [], None
    body = block.split(r"\midrule")[1].split(r"\bottomrule")[0]
    for line in (line.strip() for line in body.splitlines()):
        if match := _DATASET.match(line):
            dataset = DATASETS[match.group(1)]
        elif line.startswith("&"):
            name, *fields = (field.strip() for field in line.rstrip("\\").split("&")[1:])
            cells += _read_row(table, dataset, name, fields, kernels)
    return cells


def _read_row(table, dataset, name, fields, kernels):
    method, _, speed = name.partition(", ")
    # Table 4 has no p-values: one field per kernel instead of two.
    per_kernel = len(fields) // len(kernels)
    for position, kernel in enumerate(kernels):
        summary, *p_field = fields[position * per_kernel : (position + 1) * per_kernel]
        median, lower, upper = map(float, _SUMMARY.match(summary).groups())
        p_value, significant = _read_p_value(*p_field) if p_field else (None, False)
        yield {
            "table": table,
            "dataset": dataset,
            "method": method,
            "min_speed": float(speed) if speed else None,
            "kernel": None if method == "MLP" else kernel,
            "median": median,
            "lower": lower,
            "upper": upper,
            "p_value": p_value,
            "significant": significant,
        }


def _read_p_value(field):
    if field == "$-$":
        return None, False
    bold = _BOLD.match(field)
    number = bold.group(1) if bold else field.strip("$")
    return float(number.replace(r"\text{-}", "-").strip()), bool(bold)
