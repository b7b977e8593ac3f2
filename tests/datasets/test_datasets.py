"""Loaders: where files are found, what is refused, and what the four real sets look like."""

import dataclasses
import gzip
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from bandfall.datasets import load_cpu, load_power, load_superconductors, load_uk_temperature
from bandfall.datasets._files import read_array, values_checksum, weighted_means
from bandfall.datasets._real import _load, load_table, whereabouts
from bandfall.datasets._sources import CPU, POWER, SOURCES, SUPERCONDUCTORS, UK_TEMPERATURE
from shared_files import data_directory
from toy_source import CONTENT, HEADER, TABLE, TOY, as_csv, encrypted, packed_as, zipped

LOADERS = {
    "cpu": load_cpu,
    "power": load_power,
    "superconductors": load_superconductors,
    "uk_temperature": load_uk_temperature,
}


@pytest.fixture(autouse=True)
def private_places(tmp_path, monkeypatch):
    """Neither the user's data directory nor the user's cache takes part."""
    real_data = data_directory_or_none()
    monkeypatch.delenv("BANDFALL_DATA", raising=False)
    monkeypatch.setattr("pooch.os_cache", lambda name: tmp_path / "cache" / name)
    return real_data


def data_directory_or_none():
    try:
        return data_directory()
    except pytest.skip.Exception:
        return None


@pytest.fixture
def real_data(private_places):
    if private_places is None:
        pytest.skip("needs the real data: name their directory with BANDFALL_DATA")
    return private_places


# Reading and checking


@given(
    table=hnp.arrays(
        float, st.tuples(st.integers(1, 6), st.just(3)), elements=st.floats(-1e300, 1e300)
    ),
    end=st.sampled_from(["\n", "\r\n"]),
)
def test_any_finite_table_comes_back_exactly(table, end, tmp_path_factory):
    source = dataclasses.replace(TOY, rows=len(table), values_sha256=values_checksum(table))
    path = tmp_path_factory.mktemp("toy") / "toy.csv"
    path.write_bytes(as_csv(table, end=end))
    np.testing.assert_array_equal(read_array(path, source), table)


@pytest.mark.parametrize("filename", ["toy.csv", "toy.csv.gz", "toy.zip"])
def test_every_packing_gives_the_same_table(tmp_path, filename):
    source = dataclasses.replace(
        TOY, archive_url="http://localhost/toy.zip", archive_member="inner.csv"
    )
    packed = {".csv": CONTENT, ".gz": gzip.compress(CONTENT), ".zip": zipped(CONTENT)}
    path = tmp_path / filename
    path.write_bytes(packed[path.suffix])
    np.testing.assert_array_equal(load_table(source, data_home=tmp_path), TABLE)


def test_the_same_numbers_printed_another_way_are_accepted(tmp_path):
    text = CONTENT.decode().replace("3e-07", "0.0000003").replace(HEADER, '"when","a","b","goal"')
    path = tmp_path / "toy.csv"
    path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    np.testing.assert_array_equal(read_array(path, TOY), TABLE)


def changed(row=0, column=0, by=1e-9):
    table = TABLE.copy()
    table[row, column] += by
    return as_csv(table)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "header differs from when, a, b, goal"),
        (b"\xff\xfe\x00binary", "can't decode"),
        (HEADER.encode() + b"\n", "does not have 3 rows"),
        (as_csv(TABLE, header="when,a,b"), "header differs"),
        (as_csv(TABLE, header="when,a,c,goal"), "header differs"),
        (as_csv(TABLE[:2]), "does not have 3 rows of 4 fields"),
        (CONTENT[:-12], "rows of 4 fields"),
        (CONTENT.replace(b"8.0", b"eight"), "could not convert"),
        (CONTENT.replace(b"8.0", b"nan"), "checksum differs"),
        (CONTENT.replace(b"8.0", b""), "could not convert"),
        (CONTENT.replace(b"8.0", b"8.0,1.0"), "rows of 4 fields"),
        (changed(), "checksum differs"),
        (as_csv(TABLE[::-1]), "checksum differs"),
    ],
)
def test_wrong_files_are_named_and_refused(tmp_path, content, complaint):
    path = tmp_path / "toy.csv"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=complaint) as caught:
        read_array(path, TOY)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("filename", "content", "complaint"),
    [
        ("toy.csv.gz", gzip.compress(CONTENT)[:-9], "cannot be unpacked"),
        ("toy.csv.gz", b"not gzip", "cannot be unpacked"),
        ("toy.zip", zipped(CONTENT)[:-30], "cannot be unpacked"),
        ("toy.zip", zipped(CONTENT, member="other.csv"), "cannot be unpacked .*inner.csv"),
        ("toy.zip", encrypted(zipped(CONTENT)), "cannot be unpacked .*encrypted"),
        ("toy.zip", packed_as(zipped(CONTENT), 99), "cannot be unpacked .*compression"),
    ],
    ids=[  # gzip writes the time
        *("cut gzip", "not gzip", "cut zip", "another member", "encrypted", "unknown method"),
    ],
)
def test_damaged_archives_are_refused(tmp_path, filename, content, complaint):
    source = dataclasses.replace(TOY, archive_member="inner.csv")
    path = tmp_path / filename
    path.write_bytes(content)
    with pytest.raises(ValueError, match=complaint):
        read_array(path, source)


@given(position=st.tuples(st.integers(0, 2), st.integers(0, 2)), size=st.floats(1e-6, 1e3))
def test_a_fingerprint_tells_rounding_from_other_values(position, size, tmp_path_factory):
    source = dataclasses.replace(TOY, values_sha256="", fingerprint=tuple(weighted_means(TABLE)))
    path = tmp_path_factory.mktemp("toy") / "toy.csv"
    path.write_bytes(as_csv(TABLE * (1 + 1e-12)))
    read_array(path, source)
    other = TABLE.copy()
    other[position] += size * np.abs(TABLE[:, position[1]]).max()
    path.write_bytes(as_csv(other))
    with pytest.raises(ValueError, match="not the published ones"):
        read_array(path, source)


def test_a_fingerprint_notices_moved_rows(tmp_path):
    source = dataclasses.replace(TOY, values_sha256="", fingerprint=tuple(weighted_means(TABLE)))
    path = tmp_path / "toy.csv"
    path.write_bytes(as_csv(TABLE[[1, 0, 2]]))
    with pytest.raises(ValueError, match="column 'a' are not the published ones"):
        read_array(path, source)


# Where files are found


def test_directories_are_searched_in_order(tmp_path, monkeypatch):
    places = {name: tmp_path / name for name in ("given", "environment", "cache/bandfall")}
    for place in places.values():
        place.mkdir(parents=True)
    monkeypatch.setenv("BANDFALL_DATA", str(places["environment"]))
    good, bad = CONTENT, b"bad"
    # The first file found decides, so a bad one earlier in the path is refused, not skipped.
    (places["cache/bandfall"] / "toy.csv").write_bytes(good)
    assert load_table(TOY, data_home=places["given"]).shape == (3, 3)
    (places["environment"] / "toy.csv").write_bytes(bad)
    with pytest.raises(ValueError, match="environment"):
        load_table(TOY, data_home=places["given"])
    (places["given"] / "toy.csv.gz").write_bytes(gzip.compress(good))
    assert load_table(TOY, data_home=str(places["given"])).shape == (3, 3)


@pytest.mark.parametrize("loader", LOADERS.values())
def test_a_missing_directory_is_one_clear_line(loader, tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match=r"data_home names .*nowhere.*not a directory"):
        loader(data_home=tmp_path / "nowhere")
    monkeypatch.setenv("BANDFALL_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(FileNotFoundError, match=r"BANDFALL_DATA names .*nowhere"):
        loader()


@pytest.mark.parametrize("key", SOURCES)
def test_a_missing_file_says_what_to_put_where(key, tmp_path, monkeypatch):
    source = SOURCES[key]
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    nowhere = source.archive_url and "http://127.0.0.1:9/" + source.archive
    source = dataclasses.replace(source, archive_url=nowhere)
    with pytest.raises(OSError, match=r"were not found|could not be downloaded") as caught:
        load_table(source, tmp_path)
    message = str(caught.value)
    for part in (
        *source.filenames,
        source.columns[0],
        str(source.rows),
        source.home,
        "data_home=",
        "BANDFALL_DATA",
    ):
        assert part in message
    assert "\n" not in message


def test_sets_without_a_readable_file_are_never_downloaded(tmp_path):
    for loader in (load_cpu, load_uk_temperature):
        with pytest.raises(FileNotFoundError, match="Its home is"):
            loader(data_home=tmp_path)


def test_missing_pooch_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(ImportError, match="pip install pooch"):
        load_power()
    (tmp_path / "toy.csv").write_bytes(CONTENT)
    assert load_table(TOY, data_home=tmp_path).shape == (3, 3)


def test_bunch_and_tuple_agree(tmp_path):
    (tmp_path / "toy.csv").write_bytes(CONTENT)
    bunch = _load(TOY, tmp_path, return_X_y=False)
    np.testing.assert_array_equal(bunch.data, TABLE[:, :2])
    np.testing.assert_array_equal(bunch.target, TABLE[:, 2])
    assert (bunch.feature_names, bunch.target_names) == (["a", "b"], ["goal"])
    assert TOY.home in bunch.DESCR
    X, y = _load(TOY, tmp_path, return_X_y=True)
    np.testing.assert_array_equal(X, bunch.data)
    np.testing.assert_array_equal(y, bunch.target)


# The real sets


@pytest.mark.parametrize(
    ("key", "shape", "smallest", "largest", "features"),
    [
        ("cpu", (8192, 21), 0.0, 99.0, ("1", "21")),
        (
            "power",
            (52416, 7),
            5935.17407,
            47598.32636,
            ("Temperature", "Zone 2  Power Consumption"),
        ),
        ("superconductors", (21263, 81), 0.00021, 185.0, ("number_of_elements", "wtd_std_Valence")),
        ("uk_temperature", (45568, 4), -5.5, 26.0, ("yday", "h")),
    ],
)
def test_real_sets(real_data, key, shape, smallest, largest, features):
    bunch = LOADERS[key](data_home=real_data)
    assert bunch.data.shape == shape
    assert bunch.target.shape == shape[:1]
    assert (bunch.target.min(), bunch.target.max()) == (smallest, largest)
    assert (bunch.feature_names[0], bunch.feature_names[-1]) == features
    assert len(bunch.feature_names) == shape[1]


def test_a_reprinted_superconductor_file_is_accepted_and_a_changed_one_refused(real_data, tmp_path):
    table = read_array(real_data / "superconduct.csv.gz", SUPERCONDUCTORS)
    header = ",".join(SUPERCONDUCTORS.columns)
    path = tmp_path / "superconduct.csv"
    np.savetxt(path, table, fmt="%.11g", delimiter=",", header=header, comments="")
    np.testing.assert_allclose(read_array(path, SUPERCONDUCTORS), table, rtol=1e-10)
    table[10_000, 5] += 1.0
    np.savetxt(path, table, fmt="%.11g", delimiter=",", header=header, comments="")
    with pytest.raises(ValueError, match=SUPERCONDUCTORS.columns[5]):
        read_array(path, SUPERCONDUCTORS)


def test_sources_are_consistent():
    shapes = [(CPU, 21), (POWER, 7), (SUPERCONDUCTORS, 81), (UK_TEMPERATURE, 4)]
    for source, features in shapes:
        assert len(source.feature_names) == features
        assert len(set(source.columns)) == len(source.columns)
        assert source.fingerprint is None or len(source.fingerprint) == len(source.value_columns)
        assert (source.archive_url is None) == (source.archive_member is None)


def test_where_a_set_is_or_how_to_get_it(tmp_path):
    assert whereabouts(CPU, tmp_path).startswith("missing: put compactiv.csv.gz or compactiv.csv")
    assert whereabouts(POWER, tmp_path) == f"downloaded when needed from {POWER.archive_url}"
    (tmp_path / "power.csv").touch()
    assert whereabouts(POWER, tmp_path) == str(tmp_path / "power.csv")
