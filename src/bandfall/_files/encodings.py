"""Storage of a TableEncoder: settings and learned encodings, as arrays and names.

Encodings check their fields in `__post_init__`; this module only converts them.
"""

from __future__ import annotations

from dataclasses import fields

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
from bandfall.tables._dates import Cycles
from bandfall.tables._numbers import MissingValues
from bandfall.tables._pairs import PairMean
from bandfall.tables._table import Reading

_READING = ("kind", "style", "dropped")
_FIELDS = {
    *("numbers", "categories", "n_steps", "suspicious", "names", "readings", "low", "high"),
    *("dtype", "fill", "marked", "scaling", "cycles", "groups", "order"),
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
        "fill": fitted.missing.fill,
        "marked": fitted.missing.marked,
        "scaling": field_values(fitted.scaling),
        "cycles": [
            {"position": one.position, "periods": list(one.periods)} for one in fitted.cycles
        ],
        "groups": [{**field_values(one), "levels": list(one.levels)} for one in fitted.categories],
        "order": fitted.order,
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
        MissingValues(state["fill"], state["marked"]),
        _scaling(state["numbers"], state["scaling"]),
        [_cycles(one) for one in _list("cycles", state["cycles"])],
        groups,
        state["order"],
        [_pair(one) for one in _list("pairs", state.get("pairs", []))],
    )
    settings = (state["numbers"], state["categories"], state["n_steps"])
    return TableEncoder(*settings, fitted, state["suspicious"])


def _readings(state: State) -> list[Reading]:
    check_instance("readings", state, dict)
    check_names("readings", state, {*_READING, "missing"}, {*_READING, "missing"})
    columns = [_list(f"readings.{field}", state[field], str) for field in _READING]
    words = [tuple(_list("readings.missing", one)) for one in state["missing"]]
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
    check_instance("a pair", state, dict)
    return make_dataclass(PairMean, state)


def _list(name: str, value: Unchecked, *types: type) -> list:
    """A list, whose items have one of these types if any are given."""
    items = check_instance(name, value, list)
    for item in items if types else ():
        check_instance(name, item, *types)
    return items


register(Component(TableEncoder, to_state, from_state))
