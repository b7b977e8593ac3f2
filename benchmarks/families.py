"""What every family of the search is worth: one run, then averages with and without each.

    python benchmarks/families.py --data SUITE [--sets NAME ...] [--rows 1000] [--jobs 1]

SUITE holds tables NAME.csv.gz with the target as their last column. Every family (encoding and
kernel) is searched and fitted on its own rows of each set, and its predictions for held-out and
test rows are kept in --out. The table then shows test RMSE of the search's own average, relative to
that over `FAMILIES`, with families left out or added: geometric mean over sets, the mean without
the three best and worst sets, and sets ahead and behind.
"""

import argparse
import pickle
import warnings
from dataclasses import replace
from pathlib import Path

import joblib
import numpy as np

from bandfall import BandfallRegressor
from bandfall._estimators.input import training_table
from bandfall._fitting.members import fit_members
from bandfall._models.metric import scaled
from bandfall._products import HOST
from bandfall._search.averaging import greedy_weights
from bandfall._search.parts import Encoded, Rows, TargetEncoded
from bandfall._search.search import tune
from bandfall._search.settings import Settings
from bandfall._search.splits import rung_splits
from bandfall._targets import Numbers
from bandfall._targets.losses import PowerLoss
from bandfall.kernels import get_kernel
from bandfall.tables import TableEncoder, prepare_table, read_table
from bandfall.tables._numbers import steps_for
from published import read

ENCODINGS = {
    "standard": {},
    "steps": {"numbers": "steps"},
    "quantile": {"numbers": "quantile"},
    "target": {"categories": "target"},
}
KERNELS = (
    *("gaussian", "matern12", "laplace^1.4", "laplace^0.7"),
    *("laplace-1.5", "laplace-1.5^1.4", "laplace-1.25", "laplace-1", "laplace-1^0.7"),
)
DEFAULT = {
    (encoding, kernel) for encoding, names in Settings().families.items() for kernel in names
}


def families_of(path, n_rows):
    """Targets of held-out and test rows, and what each family predicts for them."""
    columns, y = read(path)
    order = np.random.RandomState(0).permutation(len(y))
    test, train = order[: len(y) // 5][:2000], order[len(y) // 5 :][:n_rows]
    model = BandfallRegressor(device=None)
    rows = {name: values[train] for name, values in columns.items()}
    given = training_table(model, Numbers, rows, y[train], None, None)
    new = read_table({name: values[test] for name, values in columns.items()})
    target, codes = given.target.coded(given.values, given.weights, given.dtype)
    weights, table = given.weights, prepare_table(given.table)
    dtype = np.dtype(np.float32 if len(codes) >= 500 else np.float64)
    found = {}
    for name, settings in ENCODINGS.items():
        encoder = TableEncoder(**settings, n_steps=steps_for(len(codes), len(columns)))
        Z = encoder.fit_transform(table, codes, weights, dtype, warn=False, by_content=True)
        view = Encoded(Z)
        if encoder.uses_target:
            view = TargetEncoded(encoder, table, codes, weights, Z)
        elif name == "target":
            continue
        rows = Rows({name: view}, codes, np.arange(len(codes)), weights, HOST)
        for kernel in KERNELS:
            one = _family(rows, name, get_kernel(kernel), encoder.transform(new, warn=False))
            found[name, kernel] = one
    splits = rung_splits(rows, np.random.RandomState(0))[-1]
    held_out = np.concatenate([codes[new] for _, new in splits])
    return held_out, target.outputs(y[test]), found


def _family(rows, encoding, kernel, Z_new):
    """Predictions of one family for held-out rows and for new ones."""
    rows = replace(rows, settings=Settings(n_members=1))
    tuned = tune(rows, kernels=[kernel], random=np.random.RandomState(0), n_jobs=1)
    (member,), _ = fit_members(rows, tuned)
    return tuned.predictions, member.path.evaluate(scaled(Z_new, member.root), backend=HOST)


def rmse(held_out, test, found):
    """Of the average that held-out rows choose."""
    predictions = [one for one, _ in found.values()]
    weights = greedy_weights(predictions, held_out, PowerLoss(), n_members=4)
    average = np.tensordot(weights, np.stack([new for _, new in found.values()]), 1)
    return np.sqrt(np.mean((average - test) ** 2))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sets", nargs="*")
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("out/families"))
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    names = arguments.sets or sorted(path.name[:-7] for path in arguments.data.glob("*.csv.gz"))

    def kept(name):
        file = arguments.out / f"{name}-{arguments.rows}.pickle"
        if not file.exists():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                result = families_of(arguments.data / f"{name}.csv.gz", arguments.rows)
            file.write_bytes(pickle.dumps(result))
        return pickle.loads(file.read_bytes())

    results = joblib.Parallel(arguments.jobs)(joblib.delayed(kept)(name) for name in names)
    rows = [(f"without {one}", lambda f, one=one: f in DEFAULT - {one}) for one in sorted(DEFAULT)]
    others = {(e, k) for e in ENCODINGS for k in KERNELS} - DEFAULT
    rows += [(f"with {one}", lambda f, one=one: f in DEFAULT | {one}) for one in sorted(others)]
    rows += [("all families", lambda f: True)]
    base = [rmse(h, t, {f: p for f, p in found.items() if f in DEFAULT}) for h, t, found in results]
    print(f"{'families':45s} {'RMSE':>7s} {'trimmed':>7s}  ahead/behind")
    for label, allowed in rows:
        logs = [
            np.log(rmse(h, t, {f: p for f, p in found.items() if allowed(f)}) / own)
            for (h, t, found), own in zip(results, base, strict=True)
        ]
        inner = np.sort(logs)[3:-3] if len(logs) > 6 else logs
        ahead, behind = np.sum(np.less(logs, -0.001)), np.sum(np.greater(logs, 0.001))
        figures = f"{np.exp(np.mean(logs)):7.4f} {np.exp(np.mean(inner)):7.4f}"
        print(f"{label:45s} {figures}  {ahead}/{behind}")


if __name__ == "__main__":
    main()
