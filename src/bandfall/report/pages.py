"""Reports from Python: a page about a fitted model, to be saved or shown in a notebook."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import is_classifier

from bandfall.estimators._reading import last_step, story_of
from bandfall.persistence.atomic import write_atomically
from bandfall.report.class_findings import ClassFindings, study_classes
from bandfall.report.class_page import render_class_page
from bandfall.report.findings import Findings, Rows, study
from bandfall.report.page import render_page

NOTEBOOK_HEIGHT = 900


@dataclass(frozen=True)
class Report:
    """A page about a model; a notebook shows it.

    Attributes
    ----------
    html : str
        The whole page, which loads nothing.
    findings : Findings or ClassFindings
        The numbers behind it.
    """

    html: str
    findings: Findings | ClassFindings

    def save(self, file: str | Path) -> None:
        """Write the page, whole or not at all."""
        write_atomically(Path(file), self.html.encode())

    def __repr__(self) -> str:
        found = self.findings
        rows = "held-out" if found.held_out else "training"
        if isinstance(found, ClassFindings):
            measure, score = "log-loss", found.scores.log_loss
        else:
            measure, score = "R²", found.r2
        shown = "not defined" if np.isnan(score) else f"{score:.4f}"
        return f"<Report: {measure} {shown} on {len(found.scored.y):,} {rows} rows>"

    def _repr_html_(self) -> str:
        return (
            f'<iframe srcdoc="{escape(self.html)}" title="bandfall report" '
            f'style="width: 100%; height: {NOTEBOOK_HEIGHT}px; border: 0"></iframe>'
        )


def report_on(
    estimator: Any,
    X: Any,
    y: Any,
    file: str | Path | None = None,
    *,
    X_test: Any = None,
    y_test: Any = None,
    target: str = "y",
    seed: int = 0,
) -> Report:
    """A page about a fitted estimator or pipeline with one target, of numbers or classes.

    Parameters
    ----------
    estimator : fitted estimator or pipeline
    X, y : array-like or frame
        The rows it was trained on.
    file : path, optional
        Where to write the page.
    X_test, y_test : array-like or frame, optional
        Rows it has not seen, to score it on.
    target : str
        What the target is called.
    seed : int
        Of samples and shuffles.

    Returns
    -------
    Report
    """
    if (X_test is None) != (y_test is None):
        raise ValueError("give both X_test and y_test, or neither")
    last = last_step(estimator)
    classes = is_classifier(last)
    train = _rows(X, y, classes)
    test = None if X_test is None else _rows(X_test, y_test, classes)
    names = [str(name) for name in train.X.columns]
    if not hasattr(X, "columns"):
        names = [f"feature {j + 1}" for j in range(len(names))]
    parameters = ", ".join(f"{k}={v!r}" for k, v in last.get_params(deep=False).items())
    facts: dict[str, Any] = {
        "target": target,
        "source": "rows given in Python",
        "details": {"estimator": type(last).__name__, "parameters": parameters},
        "selection": story_of(estimator).selection,
    }
    if classes:
        found = study_classes(estimator, train, test, names, seed=seed)
        report = Report(render_class_page(found, **facts), found)
    else:
        findings = study(estimator, train, test, names, seed=seed)
        report = Report(render_page(findings, **facts), findings)
    if file is not None:
        report.save(file)
    return report


def _rows(X: Any, y: Any, classes: bool) -> Rows:
    if hasattr(X, "to_pandas"):  # polars and its like
        X = X.to_pandas()
    table = X if isinstance(X, pd.DataFrame) else pd.DataFrame(np.asarray(X))
    target = np.asarray(y) if classes else np.asarray(y, dtype=float)
    if target.ndim == 2 and target.shape[1] == 1:
        target = target[:, 0]
    if target.ndim != 1 or len(target) != len(table):
        raise ValueError(
            f"a report is about one target, one value a row; got y of shape {target.shape} for "
            f"{len(table)} rows"
        )
    return Rows(table.reset_index(drop=True), target)
