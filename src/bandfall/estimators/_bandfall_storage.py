"""What model files hold of self-tuning estimators, and the checks a loaded one must pass."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bandfall.checks import check_instance, check_names, check_real
from bandfall.descent import Path
from bandfall.encoding import TableEncoder
from bandfall.estimators._bandfall import BandfallRegressor
from bandfall.estimators._classifier import BandfallClassifier
from bandfall.estimators._self_tuning import SelfTuning
from bandfall.estimators._storage import COMMON, UNSTORED, check_common
from bandfall.kernels import Kernel
from bandfall.novelty import novelty_scale
from bandfall.persistence import Component, ShapeChecker, estimator_component, register
from bandfall.persistence.encodings import from_front_state, to_state
from bandfall.persistence.paths import dataclass_component
from bandfall.selection.candidates import Candidate
from bandfall.selection.classes import CLIP, SOFTMAX, Link
from bandfall.selection.members import Member

_ROUNDING = 1e-6  # of the sum of weights
# Of both estimators, of the regressor and of the classifier.
_SEARCHED = {
    **dict.fromkeys(("members_", "encoders_", "feature_importances_", "best_score_"), True),
    **dict.fromkeys(("held_out_rows_", "selection_", "_novelty_scale", "_n_rows"), True),
    **dict.fromkeys(("given_up_", "_used_rows"), False),
}
_FITTED = {
    **_SEARCHED,
    **dict.fromkeys(("held_out_predictions_", "held_out_residuals_", "interval_"), True),
    **dict.fromkeys(("_scores", "_held_out_weights", "_y_offset", "_y_scale"), True),
}
_CLASSIFIED = {
    **_SEARCHED,
    **dict.fromkeys(("classes_", "prior_", "link_", "held_out_probabilities_", "_dtype"), True),
}
_INTERVAL = {"method", "bandwidth", "gain", "n_rows"}
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
    check_instance("kernel", candidate.kernel, Kernel)
    check_real("min_speed", candidate.min_speed, 0.0)
    check_real("penalty", candidate.penalty, 0.0)


def _check_member(member: Member) -> None:
    check_instance("candidate", member.candidate, Candidate)
    check_instance("path", member.path, Path)
    check_real("max_r2", member.max_r2, 0.0, 1.0)
    check_real("weight", member.weight, 0.0, 1.0)
    shapes = ShapeChecker(d=member.path.X.shape[1])
    shapes("root", member.root, "d" if np.ndim(member.root) == 1 else "d d")
    if member.path.kernel != member.candidate.kernel:
        raise ValueError("its path has another kernel than its candidate")


def _check_bandfall(model: BandfallRegressor) -> None:
    _check_searched(model)
    _check_target(model)
    _check_interval(model)


def _check_classifier(model: BandfallClassifier) -> None:
    _check_searched(model)
    check_instance("_dtype", model._dtype, np.dtype)
    check_instance("link_", model.link_, Link)
    check_instance("classes_", model.classes_, np.ndarray)
    if model.classes_.ndim != 1 or not len(model.classes_) or model.classes_.dtype.kind == "c":
        raise ValueError("classes_ must be a list of classes")
    if len(np.unique(model.classes_)) != len(model.classes_):
        raise ValueError("classes_ must differ")
    shapes = ShapeChecker(c=len(model.classes_), m=len(model.held_out_rows_))
    shapes("prior_", model.prior_, "c")
    shapes("held_out_probabilities_", model.held_out_probabilities_, "m c")
    if np.any(model.prior_ < 0) or abs(model.prior_.sum() - 1.0) > _ROUNDING:
        raise ValueError("prior_ must be shares of one")
    _check_outputs(model, 1 if shapes.sizes["c"] == 2 else shapes.sizes["c"])


def _check_link(link: Link) -> None:
    if link.kind not in (CLIP, SOFTMAX):
        raise ValueError(f"kind={link.kind!r} is unknown")
    check_real("parameter", link.parameter, 1e-9, 1e9)
    check_real("stray", link.stray, 0.0, 1.0)


def _check_searched(model: SelfTuning) -> None:
    check_instance("members_", model.members_, list)
    check_instance("encoders_", model.encoders_, dict)
    if not model.members_:
        raise ValueError("it has no members")
    for encoder in model.encoders_.values():
        _check_encoder(model, encoder)
    if len({str(encoder.schema.names) for encoder in model.encoders_.values()}) > 1:
        raise ValueError("the names of columns differ between encoders")
    for member in model.members_:
        check_instance("a member", member, Member)
        _check_columns(member, model.encoders_)
    if abs(math.fsum(member.weight for member in model.members_) - 1.0) > _ROUNDING:
        raise ValueError("the weights of its members do not sum to one")
    if {member.candidate.encoding for member in model.members_} != set(model.encoders_):
        raise ValueError("encoders_ do not fit its members")
    _check_evidence(model)


def _check_encoder(model: SelfTuning, encoder: Any) -> None:
    check_instance("an encoder", encoder, TableEncoder)
    if encoder.schema.width != model.n_features_in_:
        raise ValueError("an encoder does not fit n_features_in_")
    names = getattr(model, "feature_names_in_", None)  # None if column names were no strings
    known = encoder.schema.names
    if names is not None and known is not None and known != names.tolist():
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
    _check_outputs(model, shapes.sizes["k"])
    check_common(model, model.n_features_in_, shapes.sizes["k"])


def _check_outputs(model: SelfTuning, n_outputs: int) -> None:
    for member in model.members_:  # which may rest on different rows
        ShapeChecker(k=n_outputs)("the residual of a member", member.path.residual, "n k")


def _check_interval(model: BandfallRegressor) -> None:
    shapes = ShapeChecker(m=len(model.held_out_rows_), k=len(model._y_scale))
    wanted = "m" if model._y_ndim == 1 else "m k"
    shapes("held_out_predictions_", model.held_out_predictions_, wanted, allowed="any")
    shapes("held_out_residuals_", model.held_out_residuals_, wanted)
    shapes("_scores", model._scores, "m k")
    shapes("_held_out_weights", model._held_out_weights, "m")
    if np.any(model._held_out_weights <= 0):
        raise ValueError("_held_out_weights must be positive")
    facts = model.interval_
    check_instance("interval_", facts, dict)
    check_names("interval_", facts, _INTERVAL, _INTERVAL)
    if facts["method"] not in ("constant", "prediction", "metric"):
        raise ValueError(f"interval_ has an unknown method {facts['method']!r}")
    check_real("bandwidth", facts["bandwidth"], 0.0, 1e300)
    if facts["method"] != "constant" and not (facts["bandwidth"] > 0 and len(model._scores)):
        raise ValueError("interval_ smooths without rows or a bandwidth")
    if facts["method"] == "metric" and not model._all_rows:
        raise ValueError("interval_ smooths over rows that are not there")
    check_real("gain", facts["gain"], -1e300, 1.0)
    check_instance("n_rows", facts["n_rows"], int)
    check_real("n_rows", facts["n_rows"], 0, len(model.held_out_rows_))


def _check_evidence(model: SelfTuning) -> None:
    rows = model.held_out_rows_
    check_instance("held_out_rows_", rows, np.ndarray)
    if rows.dtype.kind != "i" or rows.ndim != 1:
        raise ValueError("held_out_rows_ must hold integers")
    check_instance("_n_rows", model._n_rows, int)
    used = model._used_rows
    if used is not None:
        check_instance("_used_rows", used, np.ndarray)
        if used.dtype.kind != "i" or used.shape != (model._n_rows,) or np.any(np.diff(used) <= 0):
            raise ValueError("_used_rows must hold the numbers of the rows that count, in order")
    known = (rows >= 0) & (rows < model._n_rows) if used is None else np.isin(rows, used)
    if not np.all(known):
        raise ValueError("held_out_rows_ points outside the training rows")
    check_real("_novelty_scale", model._novelty_scale, 1e-300, 1e300)
    shapes = ShapeChecker(d=model.n_features_in_)
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
        encoder.numbers, chosen.get("n_rounds"), path.kernel, chosen.get("min_speed")
    )
    member = Member(candidate, fitted["_max_r2"], fitted["metric_"], path, 1.0)
    _check_candidate(candidate)
    _check_member(member)
    nothing = np.zeros(0 if fitted["_y_ndim"] == 1 else (0, k))
    gone = {"path_", "_front", "metric_", "_max_r2", "best_params_"}
    return {
        **{name: value for name, value in fitted.items() if name not in gone},
        "members_": [member],
        "encoders_": {encoder.numbers: encoder},
        "_y_offset": np.zeros(k),
        "_y_scale": np.ones(k),
        "held_out_rows_": np.zeros(0, dtype=int),
        "held_out_predictions_": nothing,
        "held_out_residuals_": nothing,
        "interval_": {"method": "constant", "bandwidth": 0.0, "gain": 0.0, "n_rows": 0},
        "_scores": np.zeros((0, k)),
        "_held_out_weights": np.zeros(0),
        "_n_rows": len(path.X),
        "_novelty_scale": novelty_scale(path.X),
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


def _classifier_component() -> Component:
    now = estimator_component(
        BandfallClassifier,
        _CLASSIFIED,
        _check_classifier,
        unstored=UNSTORED,
        todays_parameters=_with_class_weight,
    )

    def to_state(model: BandfallClassifier) -> dict[str, Any]:
        state = now.to_state(model)
        weights = model.class_weight
        if isinstance(weights, dict):  # files hold dicts with keys of text alone
            pairs = [[label, weight] for label, weight in weights.items()]
            state["parameters"] = {**state["parameters"], "class_weight": pairs}
        return state

    return Component(BandfallClassifier, to_state, now.from_state)


def _with_class_weight(parameters: dict[str, Any]) -> dict[str, Any]:
    weights = parameters.get("class_weight")
    if not isinstance(weights, list):
        return parameters
    return {**parameters, "class_weight": dict(weights)}


register(Component(TableEncoder, to_state, from_front_state), "FeatureFront")
register(dataclass_component(Candidate, _check_candidate))
register(dataclass_component(Member, _check_member))
register(_component())
register(dataclass_component(Link, _check_link))
register(_classifier_component())
