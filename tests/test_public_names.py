"""Names of the package: imported when first used, and the same as documented."""

import ast
import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

import bandfall


def run(statement):
    path = os.pathsep.join(sys.path)
    subprocess.run(
        [sys.executable, "-c", statement], check=True, env={**os.environ, "PYTHONPATH": path}
    )


@pytest.mark.parametrize("name", bandfall.__all__)
def test_every_name_is_there(name):
    assert getattr(bandfall, name) is not None
    assert name in dir(bandfall)


def test_type_checkers_see_the_same_names():
    tree = ast.parse(Path(bandfall.__file__).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {
        alias.name: node.module
        for node in block.body
        for alias in node.names
        if isinstance(node, ast.ImportFrom)
    }
    assert {*seen, "__version__"} == set(bandfall.__all__)
    for name, module in seen.items():
        assert getattr(importlib.import_module(module), name) is getattr(bandfall, name)


@pytest.mark.slow
def test_rooms_are_imported_when_used():
    run("import bandfall; bandfall.plotting.__all__; bandfall.tables.read_table")


def test_unknown_names():
    with pytest.raises(AttributeError, match="has no attribute 'Regressor'"):
        bandfall.Regressor
    with pytest.raises(ImportError, match="cannot import name 'fit'"):
        from bandfall import fit  # noqa: F401


@pytest.mark.slow
def test_a_model_file_can_be_loaded_first(tmp_path):
    """`load_model` alone registers the classes that a file may hold."""
    model = bandfall.KernelRidgeRegressor().fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 4.0])
    bandfall.save_model(model, tmp_path / "m.bandfall")
    run(f"from bandfall import load_model; load_model({str(tmp_path / 'm.bandfall')!r})")


FEW_ROWS = """
import sys
import numpy as np
from bandfall import BandfallRegressor

X = np.linspace(0.0, 1.0, 80)[:, None]
BandfallRegressor(kernels=("gaussian",), max_rounds=0).fit(X, X[:, 0] ** 2).predict(X)
sys.exit(bool({"torch", "numba", "safetensors"} & set(sys.modules)))
"""
NO_DRIVER = """
import sys
from bandfall._products import device, resolve_backend

device.has_driver = lambda: False
assert resolve_backend("auto", n_rows=100_000) == resolve_backend(None)
sys.exit("torch" in sys.modules)
"""


@pytest.mark.slow
@pytest.mark.parametrize("statement", [FEW_ROWS, NO_DRIVER], ids=["few rows", "no driver"])
def test_what_is_not_needed_is_not_imported(statement):
    run(statement)
