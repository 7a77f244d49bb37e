"""Check which date is named for Anki's option "Ignore cards reviewed before"."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from srs_eval.advice import findings as f
from srs_eval.advice import ignore_before, shown
from srs_eval.advice.candidates import Learner, explain_too_few, find_future_dates
from srs_eval.advice.checks import run_checks
from srs_eval.advice.findings import get_evidence
from srs_eval.advice.ignore_before import assess_ignore_dates
from srs_eval.advice.sentences import format_day
from srs_eval.advice.shown.habits import describe_check
from srs_eval.data.days import find_midnight_s
from srs_eval.data.errors import NotEnoughData
from srs_eval.data.reviews import FloatArray, IntArray, ReviewLog
from srs_eval.data.trials import Fold
from srs_eval.stats.intervals import Interval

DAY_S = 86_400.0
NEW_YEAR_2024_S = find_midnight_s("2024-01-01")


@pytest.fixture(scope="module")
def one_preset(log: ReviewLog) -> ReviewLog:
    decks = {key: replace(deck, preset_id=100) for key, deck in log.decks.items()}
    return replace(log, decks=decks)


@pytest.fixture(scope="module")
def learner(one_preset: ReviewLog) -> Learner:
    return Learner.of(one_preset)


def choose(days_before: int, days_after: int, current: str | None = None) -> list[str]:
    """Choose dates for a card a day around the New Year of 2024, each with five reviews."""
    started_s = NEW_YEAR_2024_S + DAY_S * np.repeat(np.arange(-days_before, days_after), 5)
    return ignore_before._choose_dates(started_s, started_s + DAY_S, current)


def find_middle_date(learner: Learner) -> str:
    """Return a date before which half of the cards were learned."""
    started_s = np.sort(ignore_before._find_learning_starts(learner))
    middle = started_s[len(started_s) // 3]
    return str(np.datetime64(int(middle), "s").astype("datetime64[D]"))


def set_date(log: ReviewLog, day: str) -> ReviewLog:
    presets = {key: replace(preset, ignore_before=day) for key, preset in log.presets.items()}
    return replace(log, presets=presets)


def fake_losses(
    monkeypatch: pytest.MonkeyPatch, dates: Sequence[str], extra: Sequence[float]
) -> None:
    """Give each date a constant difference in log loss, with some noise."""
    by_date = dict(zip(dates, extra, strict=True))

    def evaluate(
        learner: Learner, index: IntArray, held_out: IntArray, day: str | None, _: FloatArray
    ) -> FloatArray:
        noise = np.random.default_rng(0).normal(0.0, 0.001, len(held_out))
        return np.full(len(held_out), 0.3) + (0.0 if day is None else by_date[day] + noise)

    monkeypatch.setattr(ignore_before, "_evaluate", evaluate)
    monkeypatch.setattr(ignore_before, "_choose_dates", lambda *_: list(dates))


def test_choose_dates_of_several_years_takes_their_beginnings() -> None:
    assert choose(800, 600) == ["2022-01-01", "2023-01-01", "2024-01-01", "2025-01-01"]


def test_choose_dates_of_less_than_two_years_takes_quarters() -> None:
    assert choose(120, 170) == ["2023-10-01", "2024-01-01"]


def test_choose_dates_leaves_enough_reviews() -> None:
    assert choose(120, 70) == ["2023-10-01"]  # 350 reviews are of 2024


def test_choose_dates_has_at_most_four_and_the_current_one() -> None:
    assert len(choose(3_000, 600)) == 4
    assert choose(800, 600, "2023-05-06")[2] == "2023-05-06"


def test_assess_ignore_dates_trains_on_cards_learned_since(
    learner: Learner, monkeypatch: pytest.MonkeyPatch
) -> None:
    day = find_middle_date(learner)
    monkeypatch.setattr(ignore_before, "_choose_dates", lambda *_: [day])
    folds: list[Fold] = []

    def predict(self: Learner, candidate: str, given: Sequence[Fold]) -> FloatArray:
        folds.extend(given)
        return np.full(sum(len(fold.test) for fold in given), 0.9)

    monkeypatch.setattr(Learner, "predict", predict)
    index = learner.positions(100)
    started_s = ignore_before._find_learning_starts(learner)
    held_out = index[-900:]
    for date in (None, day):
        ignore_before._evaluate(learner, index, held_out, date, started_s)
    whole, reduced = folds[:3], folds[3:]
    for with_all, without_old in zip(whole, reduced, strict=True):
        assert np.array_equal(with_all.test, without_old.test)
        is_left = started_s[with_all.train] >= find_midnight_s(day)
        assert 0 < is_left.sum() < len(is_left)
        assert np.array_equal(without_old.train, with_all.train[is_left])


def test_assess_ignore_dates_names_the_better_date(
    learner: Learner, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_losses(monkeypatch, ["2020-01-01", "2021-01-01"], [0.01, -0.01])
    finding = next(assess_ignore_dates(learner, list(learner.groups)))
    evidence = f.get_evidence(finding, f.IgnoreBefore)
    assert (evidence.conclusion, evidence.best) == ("date", "2021-01-01")
    assert finding.gain == pytest.approx(0.01, abs=1e-3)
    assert shown.line([finding]) == "set it to 1 Jan 2021"
    assert "1 Jan 2021" in shown.sentences(finding)[0]
    (table,) = shown.tables(finding)
    assert [row[0] for row in table.rows] == ["2020-01-01", "2021-01-01"]


def test_assess_ignore_dates_without_a_better_date_is_empty(
    learner: Learner, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_losses(monkeypatch, ["2020-01-01", "2021-01-01"], [0.01, 0.0])
    finding = next(assess_ignore_dates(learner, list(learner.groups)))
    assert finding.conclusion == "empty"
    assert shown.line([finding]) == "leave it empty"


@pytest.mark.parametrize(
    ("extra", "conclusion"), [(0.01, "empty"), (0.0, "no matter"), (-0.01, "date")]
)
def test_assess_ignore_dates_judges_the_current_date(
    one_preset: ReviewLog,
    learner: Learner,
    monkeypatch: pytest.MonkeyPatch,
    extra: float,
    conclusion: str,
) -> None:
    day = find_middle_date(learner)
    fake_losses(monkeypatch, [day], [extra])
    with_date = Learner.of(set_date(one_preset, day))
    assert len(with_date.trials) < len(learner.trials)
    finding = next(assess_ignore_dates(with_date, list(with_date.groups)))
    evidence = f.get_evidence(finding, f.IgnoreBefore)
    assert (evidence.conclusion, evidence.current) == (conclusion, day)
    # It is judged on reviews that the date itself would leave out.
    without = next(assess_ignore_dates(learner, list(with_date.groups)))
    assert finding.reviews == without.reviews
    assert format_day(day) in shown.sentences(finding)[0]


def test_assess_ignore_dates_takes_a_date_before_all_reviews_as_none(one_preset: ReviewLog) -> None:
    """Check Anki's own way to write no date, 1970-01-01."""
    dated = Learner.of(set_date(one_preset, "1970-01-01"))
    finding = next(assess_ignore_dates(dated, list(dated.groups)))
    assert f.get_evidence(finding, f.IgnoreBefore).current is None


def test_date_after_all_cards_is_named(log: ReviewLog) -> None:
    first = min(log.presets)
    log = replace(
        log,
        presets=log.presets | {first: replace(log.presets[first], ignore_before="2999-01-01")},
    )
    learner = Learner.of(log)
    finding, *others = assess_ignore_dates(learner, learner.groups)
    assert finding.subject == log.presets[first].name
    assert len(others) == len(log.presets) - 1
    assert shown.line([finding]) == "empty it, because 1 Jan 2999 leaves out every card"
    assert "1 Jan 2999: you began all your cards before" in shown.sentences(finding)[0]
    (check,) = [
        check
        for check in get_evidence(run_checks(log, learner), f.Checks).checks
        if check.name == "ignored cards"
    ]
    setting = "“Ignore cards reviewed before”"
    assert describe_check(check) == f"{setting} in “{finding.subject}” leaves out every card"


def test_date_after_all_cards_of_the_only_preset_is_the_reason(one_preset: ReviewLog) -> None:
    log = set_date(one_preset, "2999-01-01")
    with pytest.raises(NotEnoughData) as error:
        Learner.of(log)
    assert "“Ignore cards reviewed before” is 2999-01-01" in explain_too_few(log, error.value)


def test_date_of_a_small_preset_is_not_the_reason(log: ReviewLog) -> None:
    counts = dict.fromkeys(log.presets, 0)
    for preset in log.preset_of(log.deck_of(log.reviews.card_id)).tolist():
        counts[preset] = counts.get(preset, 0) + 1
    smallest = min(log.presets, key=lambda key: counts[key])
    dated = replace(log.presets[smallest], ignore_before="2999-01-01")
    log = replace(log, presets=log.presets | {smallest: dated})
    assert find_future_dates(log) == {dated.name: "2999-01-01"}
    assert explain_too_few(log, NotEnoughData("few reviews")) == "few reviews"


def test_date_of_a_preset_without_reviews_is_not_named(log: ReviewLog) -> None:
    unused = replace(log.presets[min(log.presets)], id=999, name="Unused")
    unused = replace(unused, ignore_before="2999-01-01")
    assert find_future_dates(replace(log, presets=log.presets | {999: unused})) == {}


def test_missing_days_are_told_as_the_reviews_until_then() -> None:
    # 3,000 reviews, of which the last 1,000 are of 5 days: 4,000 of them make 20 days.
    assert ignore_before._count_missing_data(3_000, 1_000, 5) == f.MissingData(9_000)
    assert ignore_before._count_missing_data(3_000, 1_000, 20) == f.MissingData()
    assert ignore_before._count_missing_data(1_500, 750, 30) == f.MissingData(500)
    # 2,000 reviews, of which the last 1,000 are of 25 days; of 1,600 in 16 days a half is enough.
    assert ignore_before._count_missing_data(2_000, 1_000, 25) == f.MissingData()
    assert ignore_before._count_missing_data(1_600, 800, 16) == f.MissingData(400)
    assert ignore_before._count_missing_data(1, 0, 0) == f.MissingData(1_999, 20)


def test_assess_ignore_dates_of_few_reviews_cannot_tell(learner: Learner) -> None:
    few = replace(
        learner, trials=replace(learner.trials, partition=np.arange(len(learner.trials)) % 9)
    )
    finding = next(assess_ignore_dates(few, [0]))
    assert finding.conclusion == f.CANT_TELL
    assert finding.missing is not None
    assert finding.missing.reviews


@pytest.mark.parametrize(
    ("current", "answer"),
    [
        (None, "leave it empty, though 1 Jan 2021 may be better"),
        ("2021-01-01", "keep 1 Jan 2021"),
        ("2020-01-01", "1 Jan 2021 may be better than 1 Jan 2020"),
    ],
)
def test_date_that_is_ahead_by_chance_may_be_better(current: str | None, answer: str) -> None:
    dates = [
        f.DateCandidate(
            day, 1_000, Interval(0.3, 0.01), Interval(difference, 0.02), "can't tell yet"
        )
        for day, difference in (("2020-01-01", 0.001), ("2021-01-01", -0.004))
    ]
    conclusion, best = ignore_before._conclude(dates, current, 0.002)
    assert conclusion == "maybe"
    assert best is not None
    evidence = f.IgnoreBefore(conclusion, tuple(dates), current, best.date)
    finding = f.Finding("ignore", "Default", reviews=1_200, evidence=evidence)
    assert shown.line([finding]) == answer
    assert "1 Jan 2021" in shown.sentences(finding)[0]


def test_line_of_several_presets_has_no_numbers_of_reviews() -> None:
    findings = [
        f.Finding("ignore", "Words", evidence=f.IgnoreBefore("empty")),
        *(
            f.Finding(
                "ignore", name, missing=f.MissingData(count), evidence=f.IgnoreBefore("can't tell")
            )
            for name, count in (("Maps", 338), ("Facts", 1_130))
        ),
    ]
    assert shown.line(findings) == (
        "leave it empty: Words; can't tell yet (too few reviews): Maps and Facts"
    )
    assert "338 more reviews" in shown.line(findings[1:2])
