"""How a TableEncoder is stored: its settings and what it learned, as arrays and names."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from bandfall.encoding import FittedEncoding, Schema, TableEncoder
from bandfall.encoding.cycles import PERIODS, Cycles
from bandfall.encoding.fitted import CategoryEncoding, Scaling
from bandfall.encoding.missing import MissingValues
from bandfall.encoding.objects import level
from bandfall.encoding.onehot import OneHot
from bandfall.encoding.quantiles import Quantiles
from bandfall.encoding.ranks import Ranks
from bandfall.encoding.robust import Robust
from bandfall.encoding.standard import Standard
from bandfall.encoding.steps import Steps
from bandfall.encoding.table import KINDS, Reading
from bandfall.encoding.target_mean import TargetMean
from bandfall.encoding.text import CLOCK, DATE_STYLES, NUMBER_STYLES
from bandfall.persistence.checks import ShapeChecker, check_instance, check_names, check_real
from bandfall.persistence.codec import Component, register
from bandfall.persistence.paths import field_values

_SCALINGS: dict[str, type] = {
    "standard": Standard,
    "quantile": Quantiles,
    "rank": Ranks,
    "steps": Steps,
    "robust": Robust,
}
_STYLES = {"number": NUMBER_STYLES, "datetime": DATE_STYLES, "duration": (CLOCK,)}
_NUMERIC = ("number", "datetime", "duration")
_READING = ("kind", "style", "dropped")
_FIELDS = {
    *("numbers", "categories", "n_steps", "suspicious", "names", "readings", "low", "high"),
    *("dtype", "numeric", "boolean", "fill", "marked", "scaling", "cycles", "groups", "used"),
}


def to_state(encoder: TableEncoder) -> dict[str, Any]:
    """Storable values of a fitted encoder."""
    fitted = encoder.fitted
    if fitted is None:
        raise ValueError("a TableEncoder that has learned nothing cannot be stored")
    schema = fitted.schema
    return {
        "numbers": encoder.numbers,
        "categories": encoder.categories,
        "n_steps": int(encoder.n_steps),
        "suspicious": encoder.suspicious,
        "names": schema.names,
        "readings": {
            field: [getattr(reading, field) for reading in schema.readings] for field in _READING
        },
        "low": schema.low,
        "high": schema.high,
        "dtype": fitted.dtype,
        "numeric": fitted.numeric,
        "boolean": fitted.boolean,
        "fill": fitted.missing.fill,
        "marked": fitted.missing.marked,
        "scaling": field_values(fitted.scaling),
        "cycles": [
            {"position": one.position, "periods": list(one.periods)} for one in fitted.cycles
        ],
        "groups": [{**field_values(one), "levels": list(one.levels)} for one in fitted.categories],
        "used": fitted.used,
    }


def _field_names(cls: Any) -> set[str]:
    return {field.name for field in fields(cls)}


def from_state(state: dict[str, Any]) -> TableEncoder:
    """The encoder of a state, or ValueError or TypeError: it may come from anyone."""
    check_names("TableEncoder", state, _FIELDS, _FIELDS)
    check_instance("n_steps", state["n_steps"], int)
    for name in ("numbers", "categories"):
        check_instance(name, state[name], str)
    readings = _readings(state["readings"])
    _check_columns(state, readings)
    n_numeric, n_marked = len(state["numeric"]), len(state["marked"])
    shapes = ShapeChecker(p=n_numeric + len(state["boolean"]))
    shapes("fill", state["fill"], "p")
    scaling = _scaling(state["numbers"], state["scaling"], n_numeric + n_marked)
    cycles = [_cycles(one) for one in _list("cycles", state["cycles"])]
    groups = [_group(one) for one in _list("groups", state["groups"])]
    _check_parts(state, readings, cycles, groups)
    width = len(scaling.columns) + len(state["boolean"])
    width += sum(2 * len(one.periods) for one in cycles) + sum(one.width for one in groups)
    used = state["used"]
    check_instance("used", used, np.ndarray)
    if used.dtype != bool or used.shape != (width,):
        raise ValueError("used does not fit its columns")
    levels: list[tuple[str | None, ...]] = [()] * len(readings)
    for one in groups:
        levels[one.position] = one.levels
    fitted = FittedEncoding(
        Schema(state["names"], readings, state["low"], state["high"], levels),
        state["dtype"],
        state["numeric"],
        state["boolean"],
        MissingValues(state["fill"], state["marked"]),
        scaling,
        cycles,
        groups,
        used,
    )
    settings = (state["numbers"], state["categories"], state["n_steps"])
    return TableEncoder(*settings, fitted, state["suspicious"])


def _readings(state: Any) -> list[Reading]:
    check_instance("readings", state, dict)
    check_names("readings", state, set(_READING), set(_READING))
    columns = [_list(f"readings.{field}", state[field], str) for field in _READING]
    readings = [Reading(*values) for values in zip(*columns, strict=True)]
    if not readings:
        raise ValueError("it has no columns")
    for one in readings:
        if one.kind not in KINDS or one.style not in ("", *_STYLES.get(one.kind, ())):
            raise ValueError(f"a column of kind {one.kind!r} and style {one.style!r} is unknown")
    return readings


def _check_columns(state: dict[str, Any], readings: list[Reading]) -> None:
    """Names, ranges and positions of the input columns."""
    check_instance("dtype", state["dtype"], np.dtype)
    if state["names"] is not None:
        names = _list("names", state["names"], str)
        if len(names) != len(readings) or len(set(names)) < len(names):
            raise ValueError("names do not fit its columns")
    shapes = ShapeChecker(d=len(readings))
    for name in ("low", "high"):
        shapes(name, state[name], "d", allowed="any")
        if np.isinf(state[name]).any():
            raise ValueError(f"{name} must be finite or missing")
    for j in _list("suspicious", state["suspicious"], int):
        check_real("suspicious", j, 0, len(readings) - 1)
    _check_positions("numeric", state["numeric"], readings, _NUMERIC)
    _check_positions("boolean", state["boolean"], readings, ("boolean",))
    n_marks = len(state["numeric"]) + len(state["boolean"])
    _check_integers("marked", state["marked"], n_marks)
    if np.any(np.diff(state["marked"]) <= 0):
        raise ValueError("marked must rise")


def _check_integers(name: str, values: Any, end: int) -> None:
    check_instance(name, values, np.ndarray)
    if values.dtype.kind != "i" or values.ndim != 1:
        raise ValueError(f"{name} must hold integers")
    if np.any((values < 0) | (values >= end)):
        raise ValueError(f"{name} points outside its columns")


def _check_positions(name: str, values: Any, readings: list[Reading], kinds: tuple) -> None:
    _check_integers(name, values, len(readings))
    if len(np.unique(values)) < len(values):
        raise ValueError(f"{name} names a column twice")
    if any(readings[j].kind not in kinds or readings[j].dropped for j in values):
        raise ValueError(f"{name} names columns of another kind")


def _scaling(name: str, state: Any, n_columns: int) -> Scaling:
    if name not in _SCALINGS:
        raise ValueError(f"numbers={name!r} is unknown")
    check_instance("scaling", state, dict)
    names = _field_names(_SCALINGS[name])
    check_names("scaling", state, names, names)
    shapes = ShapeChecker(p=n_columns)
    if name == "quantile":
        shapes("knots", state["knots"], "q p")
        if len(state["knots"]) < 1 or np.any(np.diff(state["knots"], axis=0) < 0):
            raise ValueError("knots must rise")
    elif name == "rank":
        shapes("knots", state["knots"], "q p")
        shapes("heights", state["heights"], "q p")
        if len(state["knots"]) < 2 or any(
            np.any(np.diff(one, axis=0) < 0) for one in state.values()
        ):
            raise ValueError("knots and heights must rise")
    elif name == "steps":
        _check_integers("columns", state["columns"], n_columns)
        shapes = ShapeChecker(w=len(state["columns"]))
        for field in ("low", "gap", "weight"):
            shapes(field, state[field], "w")
        if np.any(np.diff(state["columns"]) < 0) or np.any(state["gap"] <= 0):
            raise ValueError("steps must rise")
    else:
        shapes("centre", state["centre"], "p")
        shapes("scale", state["scale"], "p")
        if np.any(state["scale"] <= 0):
            raise ValueError("a scale is not positive")
    return _SCALINGS[name](**state)


def _cycles(state: Any) -> Cycles:
    check_instance("a cycle", state, dict)
    check_names("a cycle", state, {"position", "periods"}, {"position", "periods"})
    check_instance("position", state["position"], int)
    periods = _list("periods", state["periods"], str)
    if [one for one in PERIODS if one in periods] != periods:
        raise ValueError(f"periods {periods!r} are unknown")
    return Cycles(state["position"], tuple(periods))


def _group(state: Any) -> CategoryEncoding:
    """A category's encoding: mean targets where there are means, else one column a level."""
    check_instance("a category", state, dict)
    kind: type = TargetMean if "means" in state else OneHot
    names = _field_names(kind)
    check_names("a category", state, names, names)
    check_instance("position", state["position"], int)
    levels = _list("levels", state["levels"], str, type(None))
    if not levels or "" in levels or len(set(levels)) < len(levels):
        raise ValueError("levels must differ, and none be empty")
    if kind is TargetMean:
        ShapeChecker(n=len(levels))("means", state["means"], "n k")
        return TargetMean(state["position"], tuple(levels), state["means"])
    _check_integers("codes", state["codes"], len(levels))
    if len(state["codes"]) != len(levels):
        raise ValueError("codes do not fit its levels")
    check_instance("unknown", state["unknown"], int)
    check_real("unknown", state["unknown"], -1, int(state["codes"].max()))
    return OneHot(state["position"], tuple(levels), state["codes"], state["unknown"])


def _check_parts(
    state: dict[str, Any],
    readings: list[Reading],
    cycles: list[Cycles],
    groups: list[CategoryEncoding],
) -> None:
    """Cycles belong to dates, categories to categories, each at most once."""
    numeric = set(state["numeric"].tolist())
    dates = np.array([one.position for one in cycles], dtype=int)
    _check_positions("cycles", dates, readings, ("datetime",))
    if not numeric.issuperset(dates.tolist()):
        raise ValueError("cycles names columns that are no numbers")
    positions = np.array([one.position for one in groups], dtype=int)
    _check_positions("groups", positions, readings, ("category",))
    taken = {*numeric, *state["boolean"].tolist(), *positions.tolist()}
    if taken != {j for j, one in enumerate(readings) if not one.dropped}:
        raise ValueError("some columns are not encoded")


def _list(name: str, value: Any, *types: type) -> list:
    """A list, of items of these types where any are given."""
    check_instance(name, value, list)
    for item in value if types else ():
        check_instance(name, item, *types)
    return value


_FRONT_FIELDS = {
    *("transform_name", "dtype", "numeric", "other", "medians", "marked", "centre", "scale"),
    *("quantiles", "encoders", "used", "sources"),
}


def from_front_state(state: dict[str, Any]) -> TableEncoder:
    """The encoder that gives the columns of a "FeatureFront", which older model files hold."""
    check_names("FeatureFront", state, _FRONT_FIELDS, _FRONT_FIELDS)
    numeric, other = (_list(name, state[name], int) for name in ("numeric", "other"))
    if sorted([*numeric, *other]) != list(range(len(numeric) + len(other))):
        raise ValueError("its columns do not fit together")
    kinds = ["category" if j in set(other) else "number" for j in range(len(numeric) + len(other))]
    if state["quantiles"] is None:
        scaling = {"centre": state["centre"], "scale": state["scale"]}
    else:
        scaling = {"knots": state["quantiles"]}
    encoders = _list("encoders", state["encoders"])
    return from_state(
        {
            "numbers": "standard" if state["quantiles"] is None else "quantile",
            "categories": "onehot",
            "n_steps": 12,
            "suspicious": [],
            "names": None,
            "readings": {
                "kind": kinds,
                "style": [""] * len(kinds),
                "dropped": [""] * len(kinds),
            },
            **dict.fromkeys(("low", "high"), np.full(len(kinds), np.nan)),
            "dtype": state["dtype"],
            "numeric": np.array(numeric, dtype=np.int64),
            "boolean": np.zeros(0, dtype=np.int64),
            "fill": state["medians"],
            "marked": state["marked"],
            "scaling": scaling,
            "cycles": [],
            "groups": [_front_group(*pair) for pair in zip(other, encoders, strict=True)],
            "used": state["used"],
        }
    )


def _front_group(position: int, state: Any) -> dict[str, Any]:
    check_instance("an encoder", state, dict)
    check_names("an encoder", state, {"keys", "codes", "unknown"}, {"keys", "codes", "unknown"})
    keys = _list("keys", state["keys"], str, bool, int, float, type(None))
    codes = _list("codes", state["codes"], int)
    found: dict[str | None, int] = {}
    for key, code in zip(keys, codes, strict=True):
        found.setdefault(level(key), code)
    return {
        "position": position,
        "levels": list(found),
        "codes": np.array(list(found.values()), dtype=np.int64),
        "unknown": state["unknown"],
    }


register(Component(TableEncoder, to_state, from_state))
