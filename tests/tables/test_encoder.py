"""Tables of all kinds: what is learned, said, checked and warned of."""

import warnings

import numpy as np
import pandas as pd
import pytest

from bandfall.tables import TableEncoder, prepare_table, read_table
from bandfall.tables import _text as text
from bandfall.tables._encoder import encode_all
from bandfall.tables._numbers import NUMBERS


def fitted(data, **settings):
    encoder = TableEncoder(**settings)
    encoder.fit_transform(data, warn=False)
    return encoder


N = 40
GOOD = {
    "age": np.arange(20.0, 20.0 + N) % 17,
    "sex": ["f", "m", "x", "f"] * (N // 4),
    "member": [True, False] * (N // 2),
    "when": list(np.datetime64("2024-01-01") + np.arange(N)),
}


def good(**changes):
    return {**GOOD, **changes}


class TestSettings:
    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"numbers": "cubes"}, "numbers='cubes' is unknown; allowed: 'standard', 'quantile'"),
            (
                {"categories": "binary"},
                "categories='binary' is unknown; allowed: 'onehot', 'target'",
            ),
            ({"n_steps": 0}, "n_steps=0 must be in"),
            ({"n_steps": True}, "n_steps=True must be in"),
        ],
    )
    def test_unknown_settings(self, settings, message):
        with pytest.raises(ValueError, match=message):
            TableEncoder(**settings)

    def test_nothing_learned(self):
        with pytest.raises(ValueError, match="call fit_transform"):
            TableEncoder().transform(np.eye(2))


class TestWhatIsRead:
    def test_text_that_is_numbers(self):
        data = {"price": ["31,7", "1 234", "-"] * 10, "share": ["12 %", "13 %", "7 %"] * 10}
        encoder = TableEncoder()
        with pytest.warns(UserWarning, match=r"numbers \(decimal comma\), missing: '-' \(10×\)"):
            Z = encoder.fit_transform(data)
        assert encoder.names_out == ["price", "share", "price_missing"]
        assert (
            encoder.describe()[0] == "price: number from text (decimal comma) → 2 columns (missing)"
        )
        assert Z.shape == (30, 3)
        number = encoder.transform({"price": [31.7], "share": [12.0]})
        np.testing.assert_allclose(number, Z[:1], atol=1e-12)
        with pytest.raises(ValueError, match=r"column 'price' .* 'dear' is not a number"):
            encoder.transform({"price": ["dear"], "share": [12.0]})

    @pytest.mark.parametrize("written", ["%Y-%m-%d", "%d.%m.%Y", "%m/%d/%Y"])
    def test_text_that_is_dates(self, written):
        days = pd.date_range("2024-01-01", periods=50, freq="3D")
        encoder = TableEncoder()
        with pytest.warns(UserWarning, match="Column 'day': text read as dates"):
            Z = encoder.fit_transform({"day": days.strftime(written)})
        np.testing.assert_allclose(Z, TableEncoder().fit_transform({"day": days}), atol=1e-9)
        np.testing.assert_allclose(encoder.transform({"day": days}), Z, atol=1e-12)

    def test_text_that_is_times_of_day(self):
        times = [f"{i % 24}:{i % 60:02d}" for i in range(N)]
        encoder = TableEncoder()
        with pytest.warns(UserWarning, match=r"Column 'at': text read as durations \(clock\)"):
            Z = encoder.fit_transform({"at": times})
        assert Z.shape == (N, 1)
        lasts = [np.timedelta64(i % 24 * 60 + i % 60, "m") for i in range(N)]
        np.testing.assert_allclose(encoder.transform({"at": lasts}), Z, atol=1e-12)
        with pytest.raises(ValueError, match=r"column 'at' .* 'noon' is not a time"):
            encoder.transform({"at": ["noon"]})

    def test_ids_are_left_out(self):
        ids = [f"customer {i}" for i in range(N)]
        encoder = TableEncoder()
        with pytest.warns(UserWarning, match=r"left out: column 'id' \(nearly all values differ"):
            encoder.fit_transform(good(id=ids))
        assert 4 not in encoder.sources
        assert "dropped: nearly all values differ" in encoder.describe()[4]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            np.testing.assert_array_equal(
                encoder.transform(GOOD), encoder.transform(good(id=["new"] * N))
            )

    def test_few_different_texts_are_no_ids(self):
        assert (
            fitted({"name": list("abcdefgh"), "x": np.arange(8)})
            .describe()[0]
            .endswith("8 levels → 8 columns")
        )

    def test_dates_in_doubt_are_said(self):
        days = [f"{i % 12 + 1}/{i % 11 + 1}/{2000 + i}" for i in range(N)]
        with pytest.warns(UserWarning, match="dates with day and month in doubt"):
            TableEncoder().fit_transform(good(day=days))

    @pytest.mark.parametrize(
        "values", [np.arange(100), np.arange(100)[::-1], 7 * np.arange(100) + 1000]
    )
    def test_whole_numbers_that_may_be_ids_are_kept_and_named(self, values):
        x = np.random.default_rng(0).normal(size=100)
        encoder = fitted({"row": values, "x": x, "half": x.round(1), "few": np.arange(100) // 2})
        assert encoder.suspicious == [0]
        assert encoder.sources.tolist() == [0, 1, 2, 3]
        assert fitted({"row": [str(value) for value in values], "x": x}).suspicious == [0]

    def test_a_prepared_table_is_read_once(self):
        raw = read_table(good(price=["1,5", "2"] * (N // 2), id=[f"r{i}" for i in range(N)]))
        with pytest.warns(UserWarning, match="text read as|are left out") as caught:
            table = prepare_table(raw)
        assert len(caught) == 2
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert prepare_table(table) is table
            part = table.take(slice(0, 10))
            encoder = TableEncoder("steps")
            Z = encoder.fit_transform(part)
        assert "r1" not in str(encoder.names_out)  # an id, though ten rows could not tell
        np.testing.assert_array_equal(encoder.transform(raw.take(slice(0, 10))), Z)


class TestWhatIsChecked:
    def test_order_and_further_columns_do_not_matter(self):
        encoder = fitted(GOOD)
        other = {name: GOOD[name] for name in reversed(GOOD)}
        np.testing.assert_array_equal(encoder.transform(other), encoder.transform(GOOD))
        more = {"extra": [0] * N, **other}
        np.testing.assert_array_equal(encoder.transform(more), encoder.transform(GOOD))

    def test_missing_columns_are_named(self):
        encoder = fitted(GOOD)
        with pytest.raises(ValueError, match="X lacks the columns 'age', 'when'"):
            encoder.transform({"sex": ["f"], "member": [True]})

    def test_number_of_columns_of_an_array(self):
        encoder = fitted(np.eye(3))
        with pytest.raises(ValueError, match="X has 2 features, but the model was fitted to 3"):
            encoder.transform(np.eye(2))

    def test_arrays_and_frames_by_position(self):
        X = np.random.default_rng(0).normal(size=(N, 2))
        encoder = fitted({"a": X[:, 0], "b": X[:, 1]})
        np.testing.assert_array_equal(
            encoder.transform(X), encoder.transform({"b": X[:, 1], "a": X[:, 0]})
        )

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"age": ["old"] * N}, "column 'age' .* 'old' is not a number"),
            ({"age": GOOD["when"]}, "column 'age' was a number in training and is a datetime now"),
            ({"sex": GOOD["when"]}, "column 'sex' was a category in training and is a datetime"),
            ({"sex": np.arange(N)}, "column 'sex' was a category in training and is a number now"),
            ({"member": np.arange(N)}, "column 'member' was a boolean in training and is a number"),
            ({"member": ["maybe"] * N}, "column 'member' was a boolean in training and is a cat"),
            ({"when": ["soon"] * N}, "column 'when' .* 'soon' is not a date"),
            ({"when": np.arange(N)}, "column 'when' was a datetime in training and is a number"),
            ({"when": ["1/2/2024"] * N}, "column 'when' .* '1/2/2024' is not a date"),
        ],
    )
    def test_other_kinds_are_named(self, changes, message):
        with pytest.raises(ValueError, match=message):
            fitted(GOOD).transform(good(**changes))

    @pytest.mark.parametrize(
        "changes",
        [
            {"age": [str(value) for value in GOOD["age"]]},
            {"age": [f"{value:.1f}".replace(".", ",") for value in GOOD["age"]]},
            {"member": [1.0, 0.0] * (N // 2)},
            {"when": [str(day) for day in GOOD["when"]]},
            {"when": [f"{day:%d.%m.%Y}" for day in pd.to_datetime(GOOD["when"])]},
        ],
        ids=lambda changes: next(iter(changes)),
    )
    def test_the_same_values_in_another_type(self, changes):
        encoder = fitted(GOOD)
        np.testing.assert_allclose(
            encoder.transform(good(**changes)), encoder.transform(GOOD), atol=1e-12
        )

    def test_numbers_that_are_levels(self):
        encoder = fitted(pd.DataFrame({"code": pd.Categorical([1, 2, 5, 1]), "x": [1, 2, 3, 4]}))
        new = {"code": [1, 5], "x": [1, 2]}
        np.testing.assert_array_equal(
            encoder.transform(new), encoder.transform({**new, "code": ["1", "5"]})
        )

    def test_truth_values_that_are_levels_or_numbers(self):
        frame = pd.DataFrame({"flag": pd.Categorical([True, False, True]), "x": [0, 1, 1]})
        encoder = fitted(frame)
        Z = encoder.transform({"flag": [True, False], "x": [False, True]})
        assert Z[:, 1:].tolist() == [[1, 0], [0, 1]]

    @pytest.mark.parametrize("name", GOOD)
    def test_a_column_of_missing_values(self, name):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "categories never seen")
            Z = fitted(GOOD).transform(good(**{name: [None] * N}))
        assert np.isfinite(Z).all()

    def test_levels_never_seen_are_named_once(self):
        encoder = fitted(good(colour=["red", "blue"] * (N // 2)))
        new = good(sex=["q", None, "f", "f"] * 10, colour=[f"c{i}" for i in range(N)])
        with pytest.warns(UserWarning, match="categories never seen in training") as caught:
            encoder.transform(new)
        (warning,) = caught
        message = str(warning.message)
        assert "column 'sex' (missing, 'q')" in message
        assert "column 'colour' ('c0', 'c1', 'c2', 'c3', 'c4' and 35 more)" in message
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            encoder.transform(new, warn=False)

    def test_values_far_outside_are_named_once(self):
        encoder = fitted(GOOD)
        with pytest.warns(
            UserWarning, match=r"far outside .* 'age' \(training: 0 to 16\)"
        ) as caught:
            encoder.transform(good(age=np.full(N, 900.0)))
        assert len(caught) == 1
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            encoder.transform(good(age=np.full(N, 30.0)))  # not so far

    def test_values_far_outside_in_an_array(self):
        encoder = fitted(np.random.default_rng(0).normal(size=(N, 2)))
        with pytest.warns(
            UserWarning, match="far outside the range of the training rows: column 1"
        ):
            encoder.transform(np.array([[0.0, 1e9]]))


class TestWhatIsSaid:
    def test_names_and_sources(self):
        encoder = fitted(good(age=np.where(np.arange(N) % 9, GOOD["age"], np.nan)))
        assert encoder.names_out == [
            *("age", "when", "age_missing", "member", "when_week_sin", "when_week_cos"),
            *("sex_f", "sex_m", "sex_x"),
        ]
        assert encoder.sources.tolist() == [0, 3, 0, 2, 3, 3, 1, 1, 1]
        assert encoder.width == 9
        assert encoder.describe() == [
            "age: number → 2 columns (missing)",
            "sex: 3 levels → 3 columns",
            "member: boolean → 1 column",
            "when: datetime → 3 columns (week)",
        ]

    def test_names_of_steps(self):
        encoder = fitted({"x": np.arange(5.0), "y": [1, 2, 1, 2, 1]}, numbers="steps")
        assert encoder.names_out == ["x_step1", "x_step2", "x_step3", "x_step4", "y_step1"]
        assert fitted({"x": np.arange(50.0)}, numbers="steps", n_steps=3).width == 3

    def test_schema(self):
        schema = fitted(good(constant=[1] * N)).schema
        assert [one.kind for one in schema.readings] == [
            "number",
            "category",
            "boolean",
            "datetime",
            "number",
        ]
        assert schema.levels[1] == ("f", "m", "x")
        assert (schema.low[0], schema.high[0]) == (0, 16)
        assert schema.readings[4].dropped == "constant"

    def test_constant_columns_may_be_missing_later(self):
        encoder = fitted(good(constant=["only"] * N, number=[1] * N))
        assert encoder.describe()[4] == "constant: category, dropped: constant"
        np.testing.assert_array_equal(
            encoder.transform(GOOD), encoder.transform(good(constant=["other"] * N, number=[7] * N))
        )

    def test_jacobian(self):
        jacobian = fitted(GOOD).jacobian(GOOD)
        np.testing.assert_allclose(jacobian[:, 0], 1.0 / np.std(GOOD["age"]))
        assert np.isnan(jacobian[:, 2]).all()  # a boolean
        assert np.isnan(jacobian[:, 5:]).all()  # a category


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dtype_is_kept(dtype):
    encoder = TableEncoder()
    assert encoder.fit_transform(GOOD, dtype=dtype).dtype == dtype
    assert encoder.transform(GOOD).dtype == dtype


def test_a_table_without_anything_to_learn():
    encoder = TableEncoder()
    said = r"column 'a' \(constant\), column 'b' \(constant\); none is left to predict from"
    with pytest.warns(UserWarning, match=said):
        Z = encoder.fit_transform({"a": [1, 1, 1], "b": ["x", "x", "x"]})
    assert Z.shape == (3, 0)
    assert encoder.transform({"a": [2]}).shape == (1, 0)


@pytest.mark.filterwarnings("ignore:columns are left out")
def test_one_row():
    assert TableEncoder("steps").fit_transform(np.array([[1.0, 2.0]])).shape == (1, 0)


def test_several_encoders_read_a_table_once(monkeypatch):
    """Text is parsed once for all of them, and each gives what it gives alone."""
    data = good(price=[f"{i % 30},5" for i in range(N)])
    table = prepare_table(read_table(data), warn=False)
    encoders = {name: TableEncoder(name) for name in NUMBERS}
    for encoder in encoders.values():
        encoder.fit_transform(table)
    expected = {name: encoder.transform(data) for name, encoder in encoders.items()}
    calls = []
    parse = text.read
    monkeypatch.setattr(text, "read", lambda *given: calls.append(1) or parse(*given))
    found = encode_all(encoders, data)
    assert len(calls) == 1
    for name, columns in expected.items():
        np.testing.assert_array_equal(found[name], columns)
    with pytest.warns(UserWarning, match="far outside") as caught:
        encode_all(encoders, good(price=["900,5"] * N))
    assert len(caught) == 1


def test_columns_in_the_order_of_their_contents():
    """Whatever the order of the input columns, the encoded columns are the same, also later."""
    rng = np.random.default_rng(0)
    table = {"a": rng.normal(size=60), "b": rng.normal(size=60), "c": rng.choice(list("xyz"), 60)}
    y = rng.normal(size=60)
    encoders, Z = [], []
    for names in (["a", "b", "c"], ["c", "b", "a"]):
        encoders.append(TableEncoder(categories="target"))
        columns = {name: table[name] for name in names}
        Z.append(encoders[-1].fit_transform(columns, y, by_content=True))
    np.testing.assert_array_equal(*Z)
    np.testing.assert_array_equal(*(encoder.transform(table) for encoder in encoders))
    assert encoders[0].names_out == encoders[1].names_out
    ((columns, encoded, _),) = encoders[0].relearned(*checked(encoders[0], table, y))
    np.testing.assert_allclose(encoded, Z[0][:, columns])


def checked(encoder, table, y):
    """Arguments of `relearned` with which it learns what `fit_transform` learned."""
    rows = encoder.schema.check(read_table(table))
    return rows, y, None, rows
