"""Figures over users: means, intervals, effects, averages."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from srs_eval import metrics
from srs_eval.stats.users import (
    _metrics_by_group,
    adjust_by_holm,
    compute_bca_interval,
    compute_confidence_set,
    compute_superiority,
    mean_intervals,
    resample_means,
    t_effects,
    wilcoxon_effects,
)
from tests.conftest import REPOSITORY

# Figures over users


def test_a_user_without_a_figure_is_left_out_with_their_weight() -> None:
    values = np.array([[0.2, math.nan], [0.4, 0.6], [0.9, 0.8]])
    weights = np.array([10.0, 30.0, 60.0])
    (intervals,) = mean_intervals(values, weights[:, None], resamples=200)
    means = [0.68, (0.6 * 30 + 0.8 * 60) / 90]
    np.testing.assert_allclose([interval.estimate for interval in intervals], means)
    # Only users with a figure are drawn, so the interval equals the one without the others.
    (alone,) = mean_intervals(values[1:, 1:], weights[1:, None], resamples=200)
    assert intervals[1] == alone[0]


@pytest.mark.parametrize("seed", range(3))
def test_bca_interval_equals_scipys(seed: int) -> None:
    from scipy.stats import bootstrap

    random = np.random.default_rng(seed)
    weights = random.lognormal(0, 1.5, 60)
    values = random.gamma(2, 0.2, 60)
    drawn = resample_means(values[:, None], weights[:, None], resamples=20_000)[0, :, 0]
    ours = compute_bca_interval(values, weights, drawn)
    expected = bootstrap(
        (values, weights),
        lambda v, w, axis: (v * w).sum(axis) / w.sum(axis),
        paired=True,
        confidence_level=0.99,
        n_resamples=20_000,
        rng=np.random.default_rng(1),
    ).confidence_interval
    width = expected.high - expected.low
    assert ours.low == pytest.approx(expected.low, abs=0.04 * width)
    assert ours.high == pytest.approx(expected.high, abs=0.04 * width)


def test_intervals_that_do_not_exist_or_have_no_width() -> None:
    weight = np.ones((1, 1))
    ((alone,),) = mean_intervals(weight * 0.3, weight, resamples=50)
    assert alone.estimate == 0.3
    assert math.isnan(alone.half_width)
    same = np.full((20, 1), 0.25)
    ((narrow,),) = mean_intervals(same, np.arange(1.0, 21.0)[:, None], resamples=50)
    assert narrow.half_width == 0
    ((nobody,),) = mean_intervals(same * math.nan, np.ones((20, 1)), resamples=50)
    assert math.isnan(nobody.estimate)


def test_resamples_are_shared_by_columns() -> None:
    random = np.random.default_rng(0)
    values = random.random((40, 1))
    drawn = resample_means(np.hstack([values, values + 0.1]), np.ones((40, 1)), resamples=300)
    np.testing.assert_allclose(drawn[0, :, 1] - drawn[0, :, 0], 0.1)


def test_effects_equal_scipys() -> None:
    from scipy import stats

    random = np.random.default_rng(3)
    losses = random.gamma(2, 0.2, (80, 3)).round(2)  # with ties and equal pairs
    r_values, wilcoxon_p = wilcoxon_effects(losses)
    d_values, t_test_p = t_effects(losses)
    for row, column in ((0, 1), (2, 0)):
        x = losses[:, row]
        y = losses[:, column]
        expected = stats.wilcoxon(x, y, correction=False, method="approx")
        assert wilcoxon_p[row, column] == pytest.approx(expected.pvalue)
        ranks = stats.rankdata(np.abs(y - x)[x != y])
        excess = ranks[(y > x)[x != y]].sum() - ranks.sum() / 2  # scipy's z has no sign
        r = math.copysign(expected.zstatistic, excess) / math.sqrt((x != y).sum())
        assert r_values[row, column] == pytest.approx(r)
        t = stats.ttest_rel(x, y)
        assert t_test_p[row, column] == pytest.approx(t.pvalue)
        d = (x - y).mean() / (x - y).std(ddof=1)
        assert d_values[row, column] == pytest.approx(-d)
    better = np.column_stack([losses[:, 0], losses[:, 0] + 0.1 + losses[:, 1]])
    for effects in (wilcoxon_effects, t_effects):
        assert effects(better)[0][0, 1] > 0.8
        assert effects(better[:, ::-1])[0][0, 1] < -0.8


@given(st.integers(2, 5), st.integers(1, 12), st.randoms(use_true_random=False))
def test_pairs_mirror_each_other(models: int, users: int, random: Any) -> None:
    drawn = [random.choice((0.1, 0.2, 0.3)) for _ in range(users * models)]
    losses = np.array(drawn).reshape(users, models)
    share = compute_superiority(losses)
    off = ~np.eye(models, dtype=bool)
    np.testing.assert_allclose((share + share.T)[off], 1)
    np.testing.assert_allclose(compute_superiority(losses * 7)[off], share[off])
    effect = wilcoxon_effects(losses)[0]
    np.testing.assert_allclose(effect[off], -effect.T[off])
    assert (np.abs(effect[off]) <= 1 + 1e-12).all()


def test_holms_p_values_are_of_all_pairs() -> None:
    p_values = np.array([[np.nan, 0.01, 0.04], [0.01, np.nan, 0.03], [0.04, 0.03, np.nan]])
    expected = [[np.nan, 0.03, 0.06], [0.03, np.nan, 0.06], [0.06, 0.06, np.nan]]
    np.testing.assert_allclose(adjust_by_holm(p_values), expected)


def test_the_confidence_set_holds_equals_and_drops_the_worse() -> None:
    random = np.random.default_rng(1)
    trials_with_both = 0
    for trial in range(20):
        level = random.gamma(3, 0.1, (400, 1))
        losses = level + random.normal(0, 0.02, (400, 4)) + np.array([0, 0, 0.03, 0.001])
        drawn = resample_means(losses, np.ones((400, 1)), resamples=999, seed=trial)[0]
        p_values = compute_confidence_set(losses.mean(0), drawn)
        assert p_values.max() == 1
        assert p_values[2] < 0.01
        trials_with_both += int((p_values[:2] >= 0.05).all())
    assert trials_with_both >= 17  # two equal best: each trial keeps both in about 95 %
    same = np.repeat(losses[:, :1], 3, axis=1)
    drawn = resample_means(same, np.ones((400, 1)), resamples=99)[0]
    np.testing.assert_array_equal(compute_confidence_set(same.mean(0), drawn), 1)


# Averaging


def test_metrics_by_group_equal_those_of_each_group() -> None:
    random = np.random.default_rng(5)
    y = (random.random(600) < 0.8).astype(float)
    p = random.random(600).round(1)
    group = random.integers(0, 40, 600)
    group = np.unique(group, return_inverse=True)[1]
    figures = _metrics_by_group(y, p, group)
    for number in range(group.max() + 1):
        of = group == number
        assert figures["LogLoss"][number] == pytest.approx(metrics.log_loss(y[of], p[of]))
        assert figures["RMSE"][number] == pytest.approx(np.sqrt(np.mean((y[of] - p[of]) ** 2)))
        auc = metrics.auc(y[of], p[of])
        assert figures["AUC"][number] == pytest.approx(
            math.nan if auc is None else auc, nan_ok=True
        )


def test_example_of_averages_in_the_docs_prints_its_output(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Run the example of docs/metrics.md and compare its output."""
    text = (REPOSITORY / "docs" / "metrics.md").read_text(encoding="utf-8").split("## Averages")[1]
    program, printed = re.findall(r"^```(?:python)?\n(.*?)^```", text, re.M | re.S)[:2]
    names: dict[str, Any] = {}
    exec(compile(program, "metrics.md", "exec"), names)
    assert capsys.readouterr().out == printed
    first = names["found"][0]
    assert first.groups == {"global": 1100, "user": 11}
    assert "deck" not in first.means
