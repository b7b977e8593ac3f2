"""Storage of a TableEncoder: settings and learned encodings, as arrays and names.

Encodings check their fields in `__post_init__`; this module only converts them.
"""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from bandfall._checks import check_instance, check_names, check_real
from bandfall._files.codec import Component, register
from bandfall._files.paths import field_values, make_dataclass
from bandfall._typing import State, Unchecked
from bandfall.tables import (
    CATEGORIES,
    NUMBERS,
    CategoryEncoding,
    FittedEncoding,
    NumberEncoding,
    Schema,
    TableEncoder,
)
from bandfall.tables._cycles import Cycles
from bandfall.tables._missing import MissingValues
from bandfall.tables._objects import level
from bandfall.tables._pairs import PairMean
from bandfall.tables._table import Reading

_READING = ("kind", "style", "dropped")
_FIELDS = {
    *("numbers", "categories", "n_steps", "suspicious", "names", "readings", "low", "high"),
    *("dtype", "numeric", "boolean", "fill", "marked", "scaling", "cycles", "groups", "used"),
}


def to_state(encoder: TableEncoder) -> State:
    """Storable values of a fitted encoder."""
    fitted = encoder.fitted
    if fitted is None:
        raise ValueError("a TableEncoder that is not fitted cannot be stored")
    schema = fitted.schema
    return {
        "numbers": encoder.numbers,
        "categories": encoder.categories,
        "n_steps": int(encoder.n_steps),
        "suspicious": encoder.suspicious,
        "names": schema.names,
        "readings": {
            **{name: [getattr(one, name) for one in schema.readings] for name in _READING},
            "missing": [list(one.missing) for one in schema.readings],
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
        **({"pairs": [field_values(one) for one in fitted.pairs]} if fitted.pairs else {}),
    }


def from_state(state: State) -> TableEncoder:
    """The encoder of a state from a file; raises ValueError or TypeError if invalid."""
    check_names("TableEncoder", state, {*_FIELDS, "pairs"}, _FIELDS)
    check_instance("n_steps", state["n_steps"], int)
    for name in ("numbers", "categories"):
        check_instance(name, state[name], str)
    readings = _readings(state["readings"])
    for j in _list("suspicious", state["suspicious"], int):
        check_real("suspicious", j, 0, len(readings) - 1)
    groups = [_group(one) for one in _list("groups", state["groups"])]
    levels: list[tuple[str | None, ...]] = [()] * len(readings)
    for one in groups:
        check_real("position", one.position, 0, len(readings) - 1)
        levels[one.position] = one.levels
    fitted = FittedEncoding(
        Schema(state["names"], readings, state["low"], state["high"], levels),
        state["dtype"],
        state["numeric"],
        state["boolean"],
        MissingValues(state["fill"], state["marked"]),
        _scaling(state["numbers"], state["scaling"]),
        [_cycles(one) for one in _list("cycles", state["cycles"])],
        groups,
        state["used"],
        [_pair(one) for one in _list("pairs", state.get("pairs", []))],
    )
    settings = (state["numbers"], state["categories"], state["n_steps"])
    return TableEncoder(*settings, fitted, state["suspicious"])


def _readings(state: State) -> list[Reading]:
    check_instance("readings", state, dict)
    check_names("readings", state, {*_READING, "missing"}, set(_READING))
    columns = [_list(f"readings.{field}", state[field], str) for field in _READING]
    words = _list("readings.missing", state.get("missing", [[]] * len(columns[0])))
    words = [tuple(_list("readings.missing", one)) for one in words]
    return [Reading(*values) for values in zip(*columns, words, strict=True)]


def _scaling(name: str, state: State) -> NumberEncoding:
    if name not in NUMBERS:
        raise ValueError(
            f"numbers={name!r} is not an encoding of this version ({', '.join(NUMBERS)}): fit the "
            "model again"
        )
    check_instance("scaling", state, dict)
    return make_dataclass(NUMBERS[name], state)


def _cycles(state: State) -> Cycles:
    check_instance("a cycle", state, dict)
    return make_dataclass(
        Cycles, {**state, "periods": tuple(_list("periods", state.get("periods")))}
    )


def _group(state: State) -> CategoryEncoding:
    """The encoding of a category, identified by the names of its fields."""
    check_instance("a category", state, dict)
    for cls in CATEGORIES.values():
        if {field.name for field in fields(cls)} == set(state):
            return cls(**{**state, "levels": tuple(_list("levels", state.get("levels")))})
    raise ValueError(f"no encoding of categories has the fields {', '.join(sorted(state))}")


def _pair(state: State) -> PairMean:
    """Mean targets of a pair; older files have a table of all cells and of unknown levels."""
    check_instance("a pair", state, dict)
    means = state.get("means")
    if "cells" not in state and isinstance(means, np.ndarray) and means.ndim == 3:
        known = means[:-1, :-1]
        cells = np.argwhere(known.any(axis=2))
        state = {**state, "cells": cells, "means": known[tuple(cells.T)]}
    return make_dataclass(PairMean, state)


def _list(name: str, value: Unchecked, *types: type) -> list:
    """A list, whose items have one of these types if any are given."""
    items = check_instance(name, value, list)
    for item in items if types else ():
        check_instance(name, item, *types)
    return items


_FRONT_FIELDS = {
    *("transform_name", "dtype", "numeric", "other", "medians", "marked", "centre", "scale"),
    *("quantiles", "encoders", "used", "sources"),
}


def from_front_state(state: State) -> TableEncoder:
    """The encoder equivalent to a "FeatureFront" of older model files."""
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
            "readings": {"kind": kinds, "style": [""] * len(kinds), "dropped": [""] * len(kinds)},
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


def _front_group(position: int, state: State) -> State:
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
