"""The report: all sections on one page, which can be saved or shown in a notebook."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pandas as pd

from bandfall._drawing import POLICY, read_resource, whole_page
from bandfall._estimators.view import story_of
from bandfall._files.atomic import write_atomically
from bandfall._typing import ArrayLike, Estimator, TableLike
from bandfall.report._columns import LabelledRows
from bandfall.report._errors import error_sections, interval_section
from bandfall.report._features import data_section, importance_section, slice_section
from bandfall.report._findings import Findings, study
from bandfall.report._layout import section
from bandfall.report._score import (
    RivalScore,
    path_section,
    result_cards,
    score_section,
    trial_section,
)

_PACKAGE = "bandfall.report"


def render_page(
    findings: Findings,
    *,
    target: str,
    source: str,
    details: Mapping[str, str] = MappingProxyType({}),
    rivals: Sequence[RivalScore] = (),
    model_name: str = "bandfall",
) -> str:
    """The report as HTML; `rivals` include the model itself, under `model_name`."""
    slices, film = slice_section(findings, target)
    facts = {**findings.model.details, **details}
    lines = "".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in facts.items() if v)
    sections = [
        score_section(findings, rivals, model_name),
        path_section(findings),
        slices,
        importance_section(findings),
        interval_section(findings, target),
        *error_sections(findings, target),
        data_section(findings, target),
        trial_section(findings),
        section("model", "The model", "", f"<dl>{lines}</dl>"),
    ]
    return model_page(findings, target, source, "report", sections, data=film)


def model_page(
    findings: Findings,
    target: str,
    source: str,
    kind: str,
    sections: list[str],
    *,
    data: str,
    policy: str = POLICY,
    style: str = "",
    script: str = "",
) -> str:
    """A page about a model: main numbers, links to its sections, tips, sortable tables, film."""
    names = re.findall(r'^<section id="([\w-]+)"', "\n".join(sections), re.MULTILINE)
    links = (f'<a href="#{name}">{name.replace("-", " ").capitalize()}</a>' for name in names)
    title, n_classes = f"Predicting {target}", len(findings.target.classes)
    classes = f"{n_classes} classes, " if n_classes else ""
    return whole_page(
        f"{title}: bandfall {kind}",
        f'<header><h1>{escape(title)}</h1><div class="dim">{classes}from '
        f"{len(findings.features)} features of <code>{escape(source)}</code></div>"
        f'{result_cards(findings)}<nav aria-label="sections">{"".join(links)}</nav></header>'
        f'<main>{"".join(sections)}</main><div id="tip" hidden></div>{data}',
        style=read_resource(_PACKAGE, "page.css") + style,
        script=read_resource(_PACKAGE, "page.js") + script,
        policy=policy,
    )


@dataclass(frozen=True)
class Report:
    """A page about a model, displayed in notebooks: `html`, which needs no network."""

    html: str
    findings: Findings  # the numbers behind it

    def save(self, file: str | Path) -> None:
        """Write the page atomically."""
        write_atomically(Path(file), self.html.encode())

    def __repr__(self) -> str:
        target, loss = self.findings.target, self.findings.loss
        words = f"{target.measure} not defined" if np.isnan(loss) else target.words(loss)
        n_rows = len(np.unique(self.findings.row_numbers))
        return f"<Report: {words} on {n_rows:,} {self.findings.rows_name}>"

    def _repr_html_(self) -> str:
        return (
            f'<iframe srcdoc="{escape(self.html)}" title="bandfall report" '
            'style="width: 100%; height: 900px; border: 0"></iframe>'
        )


def report_on(
    estimator: Estimator,
    file: str | Path | None = None,
    X: TableLike = None,
    y: ArrayLike | None = None,
    *,
    X_test: TableLike = None,
    y_test: ArrayLike | None = None,
    target: str = "y",
    seed: int = 0,
) -> Report:
    """Make one HTML page about a fitted model: score, path, slices, features, errors.

    Parameters
    ----------
    estimator : fitted estimator or pipeline with one target
    file : path, optional
        Where to write the page, which needs no network.
    X, y : array-like or frame, optional
        The training rows, which a model does not keep.
    X_test, y_test : array-like or frame, optional
        Unseen rows to score the model on. Without them, a model that tunes itself is scored on
        the training rows that its search held out.
    target : str
        Name of the target.
    seed : int
        Seed for samples and shuffles.

    Returns
    -------
    Report
    """
    if file is not None and not isinstance(file, str | os.PathLike):
        raise TypeError(
            f"report(file, X, y) takes the file first; got {type(file).__name__} instead of a path"
        )
    if (X_test is None) != (y_test is None):
        raise ValueError("give both X_test and y_test, or neither")
    if X is None or y is None:
        raise ValueError(
            "models do not keep the rows that they were trained on: give both X and y, as in "
            "report(file, X, y)"
        )
    classes = bool(story_of(estimator).target.classes)
    train = _rows(X, y, classes)
    test = None if X_test is None else _rows(X_test, y_test, classes)
    findings = study(estimator, train, test, seed=seed)
    page = render_page(findings, target=target, source="rows given in Python")
    report = Report(page, findings)
    if file is not None:
        report.save(file)
    return report


def _rows(X: TableLike, y: ArrayLike | None, classes: bool) -> LabelledRows:
    if hasattr(X, "to_pandas"):  # polars, pyarrow, …
        frame = X.to_pandas()
    else:
        frame = pd.DataFrame(X if isinstance(X, pd.DataFrame | dict) else np.asarray(X))
    target = np.asarray(y) if classes else np.asarray(y, dtype=float)
    if target.ndim == 2 and target.shape[1] == 1:
        target = target[:, 0]
    if target.ndim != 1 or len(target) != len(frame):
        raise ValueError(
            f"a report is about one target, with one value per row; got y of shape {target.shape} "
            f"for {len(frame)} rows"
        )
    return LabelledRows(frame, target)
