"""What model files hold of a BandfallRegressor, and the checks a loaded one must pass."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bandfall.descent import Path
from bandfall.encoding import TableEncoder
from bandfall.estimators._bandfall import BandfallRegressor
from bandfall.estimators._storage import COMMON, UNSTORED, check_common
from bandfall.kernels import KERNELS
from bandfall.persistence import Component, ShapeChecker, estimator_component, register
from bandfall.persistence.checks import check_instance, check_names, check_real
from bandfall.persistence.encodings import from_front_state, to_state
from bandfall.persistence.paths import dataclass_component
from bandfall.selection.candidates import Candidate
from bandfall.selection.members import Member

_ROUNDING = 1e-6  # of the sum of weights
_FITTED = {
    **dict.fromkeys(("members_", "encoders_", "feature_importances_", "best_score_"), True),
    **dict.fromkeys(("held_out_rows_", "held_out_predictions_", "selection_"), True),
    **dict.fromkeys(("_y_offset", "_y_scale"), True),
    "given_up_": False,
}
# What files hold that were written when a model was one path.
_FITTED_ALONE = {
    **dict.fromkeys(("path_", "_front", "metric_", "_max_r2", "feature_importances_"), True),
    **dict.fromkeys(("best_score_", "best_params_", "selection_"), True),
    **dict.fromkeys(("_dtype", "_y_ndim", "n_features_in_"), True),
    "feature_names_in_": False,
}


def _check_candidate(candidate: Candidate) -> None:
    check_instance("encoding", candidate.encoding, str)
    check_instance("n_rounds", candidate.n_rounds, int)
    check_real("n_rounds", candidate.n_rounds, 0)
    if candidate.kernel not in KERNELS:
        raise ValueError(f"kernel={candidate.kernel!r} is unknown")
    check_real("min_speed", candidate.min_speed, 0.0)


def _check_member(member: Member) -> None:
    check_instance("candidate", member.candidate, Candidate)
    check_instance("path", member.path, Path)
    check_real("max_r2", member.max_r2, 0.0, 1.0)
    check_real("weight", member.weight, 0.0, 1.0)
    shapes = ShapeChecker(d=member.path.X.shape[1])
    shapes("root", member.root, "d" if np.ndim(member.root) == 1 else "d d")
    if member.path.kernel.name != member.candidate.kernel:
        raise ValueError("its path has another kernel than its candidate")


def _check_bandfall(model: BandfallRegressor) -> None:
    check_instance("members_", model.members_, list)
    check_instance("encoders_", model.encoders_, dict)
    if not model.members_:
        raise ValueError("it has no members")
    for encoder in model.encoders_.values():
        _check_encoder(model, encoder)
    for member in model.members_:
        check_instance("a member", member, Member)
        _check_columns(member, model.encoders_)
    if abs(math.fsum(member.weight for member in model.members_) - 1.0) > _ROUNDING:
        raise ValueError("the weights of its members do not sum to one")
    if {member.candidate.encoding for member in model.members_} != set(model.encoders_):
        raise ValueError("encoders_ do not fit its members")
    _check_target(model)
    _check_evidence(model)


def _check_encoder(model: BandfallRegressor, encoder: Any) -> None:
    check_instance("an encoder", encoder, TableEncoder)
    if encoder.schema.width != model.n_features_in_:
        raise ValueError("an encoder does not fit n_features_in_")
    names = getattr(model, "feature_names_in_", None)
    if encoder.schema.names is not None and (
        names is None or encoder.schema.names != names.tolist()
    ):
        raise ValueError("an encoder does not fit feature_names_in_")


def _check_columns(member: Member, encoders: dict[str, TableEncoder]) -> None:
    encoder = encoders.get(member.candidate.encoding)
    if encoder is None:
        raise ValueError(f"a member has no encoder named {member.candidate.encoding!r}")
    if encoder.width != member.path.X.shape[1]:
        raise ValueError("the columns of an encoder do not fit the path of a member")


def _check_target(model: BandfallRegressor) -> None:
    shapes = ShapeChecker()
    shapes("_y_offset", model._y_offset, "k")
    shapes("_y_scale", model._y_scale, "k")
    if np.any(model._y_scale <= 0):
        raise ValueError("_y_scale must be positive")
    for member in model.members_:
        shapes("the residual of a member", member.path.residual, "n k")
        del shapes.sizes["n"]  # members may rest on different rows
    check_common(model, model.n_features_in_, shapes.sizes["k"])


def _check_evidence(model: BandfallRegressor) -> None:
    rows, predictions = model.held_out_rows_, model.held_out_predictions_
    check_instance("held_out_rows_", rows, np.ndarray)
    if rows.dtype.kind != "i" or rows.ndim != 1:
        raise ValueError("held_out_rows_ must hold integers")
    shapes = ShapeChecker(m=len(rows), k=len(model._y_scale), d=model.n_features_in_)
    wanted = "m" if model._y_ndim == 1 else "m k"
    shapes("held_out_predictions_", predictions, wanted, allowed="any")
    shapes("feature_importances_", model.feature_importances_, "d", allowed="any")
    check_instance("best_score_", model.best_score_, int, float)
    given_up = getattr(model, "given_up_", [])
    check_instance("given_up_", given_up, list)
    for what in given_up:
        check_instance("a part of given_up_", what, str)
    check_instance("selection_", model.selection_, dict)
    for name, column in model.selection_.items():
        check_instance(f"selection_[{name!r}]", column, np.ndarray)
        if column.ndim != 1:
            raise ValueError(f"selection_[{name!r}] must be a column")
    if len({len(column) for column in model.selection_.values()}) > 1:
        raise ValueError("the columns of selection_ differ in length")


def _one_member(fitted: dict[str, Any]) -> dict[str, Any]:
    """Fitted attributes as they are now, from those of a model that was one path."""
    required = {name for name, always in _FITTED_ALONE.items() if always}
    check_names("BandfallRegressor", fitted, set(_FITTED_ALONE), required)
    path, encoder, chosen = fitted["path_"], fitted["_front"], fitted["best_params_"]
    check_instance("path_", path, Path)
    check_instance("_front", encoder, TableEncoder)
    for name in ("best_params_", "selection_"):
        check_instance(name, fitted[name], dict)
    k = path.residual.shape[1]
    candidate = Candidate(
        encoder.numbers, chosen.get("n_rounds"), path.kernel.name, chosen.get("min_speed")
    )
    member = Member(candidate, fitted["_max_r2"], fitted["metric_"], path, 1.0)
    _check_candidate(candidate)
    _check_member(member)
    gone = {"path_", "_front", "metric_", "_max_r2", "best_params_"}
    return {
        **{name: value for name, value in fitted.items() if name not in gone},
        "members_": [member],
        "encoders_": {encoder.numbers: encoder},
        "_y_offset": np.zeros(k),
        "_y_scale": np.ones(k),
        "held_out_rows_": np.zeros(0, dtype=int),
        "held_out_predictions_": np.zeros(0 if fitted["_y_ndim"] == 1 else (0, k)),
        "selection_": {
            "encoding" if name == "transform" else name: column
            for name, column in fitted["selection_"].items()
        },
    }


def _component() -> Component:
    now = estimator_component(
        BandfallRegressor, {**COMMON, **_FITTED}, _check_bandfall, unstored=UNSTORED
    )

    def from_state(state: dict[str, Any]) -> Any:
        fitted = state.get("fitted")
        if isinstance(fitted, dict) and "_front" in fitted:
            state = {**state, "fitted": _one_member(fitted)}
        return now.from_state(state)

    return Component(BandfallRegressor, now.to_state, from_state)


register(Component(TableEncoder, to_state, from_front_state), "FeatureFront")
register(dataclass_component(Candidate, _check_candidate))
register(dataclass_component(Member, _check_member))
register(_component())
