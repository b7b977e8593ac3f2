"""Small models and ways to damage their files, for the tests of model files."""

import contextlib
import copy
import json
from dataclasses import replace

import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler

from bandfall import (
    BandfallRegressor,
    KernelDescentRegressor,
    KernelFlowCV,
    KernelFlowRegressor,
    KernelRidgeCV,
    KernelRidgeMML,
    KernelRidgeRegressor,
    PaperMLPRegressor,
)
from bandfall._files import container
from bandfall._models.metric import scaled
from bandfall.tables import TableEncoder


def table(n=24, d=3, outputs=None, dtype=np.float64, seed=0):
    """Rows and targets with some structure."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, d)).astype(dtype)
    y = np.sin(2 * X[:, 0]) + X[:, -1] ** 2
    return X, y.astype(dtype) if outputs is None else np.outer(y, np.arange(1.0, outputs + 1))


def estimators():
    """One of every storable kind, not fitted."""
    return {
        "bandfall": BandfallRegressor(kernels=("gaussian",), max_rounds=1),
        "descent": KernelDescentRegressor(),
        "descent-euler": KernelDescentRegressor("matern32", solver="euler", max_time=2.0),
        "descent-floor": KernelDescentRegressor("cauchy", min_bandwidth=0.5, max_time=5.0),
        "descent-validated": KernelDescentRegressor(validation_fraction=0.3, random_state=0),
        "mlp": PaperMLPRegressor(hidden_size=3, max_epochs=20),
        "ridge": KernelRidgeRegressor("matern12", bandwidth=2.0, penalty=0.1),
        "ridge-infinite": KernelRidgeRegressor(bandwidth=np.inf),
        "flow": KernelFlowRegressor("matern52", bandwidth=0.0, time=np.inf),
        "ridge-cv": KernelRidgeCV(bandwidths=[0.1, 1.0], penalties=[0.1, 1.0], cv=3),
        "flow-cv": KernelFlowCV(bandwidths=np.array([0.1, 1.0]), times=[np.inf, 1.0], cv=3),
        "ridge-mml": KernelRidgeMML(n_starts=1),
        "pipeline": make_pipeline(StandardScaler(), KernelDescentRegressor()),
        "pipeline-of-scalers": make_pipeline(
            MinMaxScaler(),
            StandardScaler(with_mean=False),
            RobustScaler(with_scaling=False),
            MaxAbsScaler(),
            KernelRidgeRegressor(),
        ),
    }


def averaged(model, X, encodings, seed=0):
    """The model as an average over these encodings, each with a metric, whichever had won."""
    random = np.random.default_rng(seed)
    member = model.members_[0]
    dtype = member.path.X.dtype
    encoders = {name: TableEncoder(name) for name in encodings}
    members = []
    for number, (name, encoder) in enumerate(encoders.items()):
        Z = encoder.fit_transform(X, dtype=dtype, warn=False)
        root = random.normal(size=Z.shape[1]) if number == 0 else np.eye(Z.shape[1]) + 0.1
        members.append(
            replace(
                member,
                candidate=replace(member.candidate, encoding=name),
                root=root,
                path=member.path.replace(X=scaled(Z, root)),
                weight=1.0 / len(encodings),
            )
        )
    model.average_ = replace(model.average_, members=tuple(members), encoders=encoders)
    return model


def taken_apart(data):
    """Document, array entries and raw data of a model file."""
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    document = json.loads(header.pop("__metadata__")["bandfall"])
    return document, header, data[8 + length :]


def put_together(document, entries, raw, *, repair=True):
    """A file from parts; with checksums made to fit, as an attacker would."""
    document = copy.deepcopy(document)
    if repair:
        document.pop("sha256", None)
        if isinstance(document.get("arrays"), dict):
            document["arrays"] = {
                name: _checksum(raw, entry, document["arrays"].get(name))
                for name, entry in entries.items()
            }
        with contextlib.suppress(ValueError, RecursionError):  # NaN, infinity or deep nesting
            document["sha256"] = container._sha256(container._canonical(document))
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    header = json.dumps({"__metadata__": {"bandfall": text}, **entries}).encode()
    return len(header).to_bytes(8, "little") + header + raw


def _checksum(raw, entry, old):
    try:
        begin, end = entry["data_offsets"]
        return container._sha256(raw[begin:end])
    except (TypeError, KeyError, ValueError):
        return old
