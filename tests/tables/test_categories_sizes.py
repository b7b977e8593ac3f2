"""Mean targets of levels that are as frequent."""

import numpy as np
import pytest

from bandfall.tables._categories import TargetMeanAndSize
from bandfall.tables._table import categories


def test_rare_levels_share_a_mean():
    """Targets that depend on the frequency of a level alone."""
    names = [f"rare{i}" for i in range(200)] + ["often"] * 200
    y = np.array([1.0] * 200 + [0.0] * 200)[:, None]
    encoding, encoded = TargetMeanAndSize.learn(0, categories(names, declared=True), y)
    assert encoding.suffixes == ["mean", "size"]
    # Deviations of the mean in standard deviations: 1 and −1.
    np.testing.assert_allclose(encoded[:200, 1], 1.0, atol=0.2)
    np.testing.assert_allclose(encoded[200:, 1], -1.0, atol=0.2)
    new = categories(["never seen", "often"], declared=True)
    rows, unseen = encoding.transform(new)
    assert unseen.tolist() == [0]
    np.testing.assert_allclose(rows[:, 1], [1.0, -1.0], atol=0.05)
    assert rows[0, 0] == 0.0


def test_sizes_count_the_other_rows():
    """⌊log₂(1 + c)⌋ of c other rows, for training rows and new ones alike."""
    names = ["a"] * 8 + ["b"] * 3 + ["c"]
    encoding, _ = TargetMeanAndSize.learn(0, categories(names), np.arange(12.0)[:, None])
    assert dict(zip(encoding.levels, encoding.sizes.tolist(), strict=True)) == {
        "a": 3,
        "b": 2,
        "c": 1,
    }
    # Training rows of a, b and c have 7, 2 and 0 others: classes 3, 1 and 0.
    assert encoding.by_size[2] == 0.0
    assert encoding.by_size[[0, 1, 3]].all()


def test_fields_that_do_not_fit_are_refused():
    names = ["a"] * 8 + ["b"] * 3
    one, _ = TargetMeanAndSize.learn(0, categories(names), np.arange(11.0)[:, None])
    with pytest.raises(ValueError, match="sizes"):
        TargetMeanAndSize(0, one.levels, one.means, one.sizes[:1], one.by_size)
    with pytest.raises(ValueError, match="sizes"):
        TargetMeanAndSize(0, one.levels, one.means, one.sizes + 9, one.by_size)
