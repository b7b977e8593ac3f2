"""Categories that interact, from fit to file and graph."""

import numpy as np
import pandas as pd
import pytest

from bandfall import BandfallClassifier, BandfallRegressor, load_model, save_model, to_onnx

QUICK = {"kernels": ("gaussian",), "max_rounds": 0}


def table(n=300, seed=0):
    random = np.random.default_rng(seed)
    frame = pd.DataFrame({name: random.choice(list("uvwxyz"), n) for name in "abcd"})
    frame["number"] = random.normal(size=n)
    signs = np.random.default_rng(99).normal(size=(6, 6))
    codes = frame[["a", "b"]].map("uvwxyz".index).to_numpy()
    return frame, signs[codes[:, 0], codes[:, 1]] + 0.1 * frame["number"].to_numpy()


@pytest.mark.parametrize("weighted", [False, True])
def test_pairs_are_tried_and_win(weighted, tmp_path):
    frame, y = table()
    weights = 0.5 + np.random.default_rng(1).random(len(y)) if weighted else None
    model = BandfallRegressor(**QUICK).fit(frame, y, sample_weight=weights)
    assert "pairs" in model.selection_["encoding"]
    assert model.members_[0].candidate.encoding == "pairs"
    new, y_new = table(200, seed=2)
    assert model.score(new, y_new) > 0.85
    save_model(model, tmp_path / "m")
    np.testing.assert_array_equal(load_model(tmp_path / "m").predict(new), model.predict(new))


def test_classes_and_graphs():
    onnxruntime = pytest.importorskip("onnxruntime")
    frame, y = table()
    model = BandfallClassifier(**QUICK).fit(frame, np.digitize(y, [-0.5, 0.5]))
    assert "pairs" in {member.candidate.encoding for member in model.members_}
    new, _ = table(50, seed=3)
    session = onnxruntime.InferenceSession(
        to_onnx(model).SerializeToString(), providers=["CPUExecutionProvider"]
    )
    fed = {name: new[[name]].to_numpy(float if name == "number" else object) for name in new}
    shares = session.run(None, fed)[1]
    np.testing.assert_allclose(shares, model.predict_proba(new), rtol=1e-6, atol=1e-9)


@pytest.mark.filterwarnings("ignore:column .* alone it explains")
def test_without_interaction_nothing_more_is_tried():
    frame, _ = table()
    model = BandfallRegressor(**QUICK).fit(frame, frame["number"].to_numpy() ** 2)
    assert "pairs" not in model.selection_["encoding"]
