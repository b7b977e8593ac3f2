"""show_versions says what a bug report needs."""

import platform

import numpy as np

import bandfall
from bandfall._environment import PACKAGES, package_versions


def test_show_versions_names_everything(capsys):
    bandfall.show_versions()
    shown = capsys.readouterr().out
    assert f"bandfall: {bandfall.__version__}\n" in shown
    assert f"numpy: {np.__version__}\n" in shown
    assert f"python: {platform.python_version()}" in shown
    for package in PACKAGES:
        assert f"{package}: " in shown


def test_absent_packages_are_said_to_be_absent(capsys, monkeypatch):
    monkeypatch.setattr("bandfall._environment.PACKAGES", ("numpy", "no-such-package"))
    bandfall.show_versions()
    assert "no-such-package: not installed\n" in capsys.readouterr().out
    assert list(package_versions(["no-such-package"])) == []
