"""Check the published distributions, draws from them, and the simulated population."""

from __future__ import annotations

import gzip
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from srs_eval.data.errors import InputError
from srs_eval.data.protocol import Protocol
from srs_eval.data.rows import select_rows
from srs_eval.data.trials import prepare_trials
from tests.conftest import shared_or_skip
from tools.pretraining import population
from tools.pretraining.likeness import compute_likeness, estimate_shift
from tools.pretraining.memories import ActR, Dash, Fsrs4Dot5, HalfLife
from tools.simulated import simulate_learner
from tools.simulated.memory import Fsrs6, Moment, Traits

# Nothing of this is in the wheel; the learners that are, are looked at in tests/data.
pytestmark = pytest.mark.slow

# What is published


def test_population_file_equals_the_published_results() -> None:
    summary = population.summarize_results(shared_or_skip("published"))
    assert population.FILE.read_text(encoding="utf-8") == population.format_summary(summary)


def test_population_file_names_its_source_and_fits_the_models() -> None:
    content = population.load_summary()
    assert "srs-benchmark" in content["source"]
    for model, count in population.MODELS.items():
        distribution = content["models"][model]
        assert distribution["users"] > 9000
        assert np.shape(distribution["quantiles"]) == (count + 2, len(population.LEVELS))
        assert (np.diff(distribution["quantiles"], axis=1) >= 0).all()
        correlation = np.array(distribution["correlation"])
        assert correlation.shape == (count + 2, count + 2)
        np.testing.assert_array_equal(correlation, correlation.T)
        assert (np.diag(correlation) == 1).all()


def test_published_sizes_and_success_are_plausible() -> None:
    quantiles = population.load_summary()["models"]["FSRS-5"]["quantiles"]
    median = population.LEVELS.index(0.5)
    assert 5_000 < quantiles[-2][median] < 50_000
    assert 0.8 < quantiles[-1][median] < 0.95


@pytest.mark.parametrize("p", [0.5, 0.7, 0.9, 0.999])
def test_success_rate_inverts_the_entropy(p: float) -> None:
    entropy = -p * math.log(p) - (1 - p) * math.log(1 - p)
    assert population.success_rate(entropy) == pytest.approx(p, abs=1e-6)


def test_success_rate_beyond_the_ends() -> None:
    assert population.success_rate(0.9) == pytest.approx(0.5)
    assert population.success_rate(0.0) == pytest.approx(1.0)


@pytest.mark.parametrize("model", population.MODELS)
def test_draws_are_distributed_and_correlated_as_published(model: str) -> None:
    from scipy.stats import spearmanr

    random = np.random.default_rng(0)
    drawn = [population.draw(random, model) for _ in range(3000)]
    table = np.array([[*draw.parameters, draw.size, draw.success] for draw in drawn])
    published = population.load_summary()["models"][model]
    quantiles = np.array(published["quantiles"])
    assert (table >= quantiles[:, :1].T).all()
    assert (table <= quantiles[:, -1:].T).all()
    # The share below a published quantile is its level, but for ties at a bound.
    for level in (0.2, 0.5, 0.8):
        at = quantiles[:, population.LEVELS.index(level)]
        below = (table < at).mean(axis=0)
        up_to = (table <= at).mean(axis=0)
        assert (below < level + 0.04).all()
        assert (up_to > level - 0.04).all()
    # Spearman's rho of a normal copula is 6/pi asin(r/2); ties make it a little smaller.
    rho = spearmanr(table).statistic
    expected = 6 / np.pi * np.arcsin(np.array(published["correlation"]) / 2)
    assert np.abs(rho - expected).max() < 0.09


def test_same_seed_same_draw() -> None:
    first, second = (population.draw(np.random.default_rng(4), "DASH") for _ in range(2))
    np.testing.assert_array_equal(first.parameters, second.parameters)
    assert (first.size, first.success) == (second.size, second.success)


def test_no_distribution_for_an_unknown_model() -> None:
    with pytest.raises(InputError, match="SM-99"):
        population.draw(np.random.default_rng(0), "SM-99")


def test_summary_refuses_what_are_no_results(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"AVG\.jsonl\.gz"):
        population.summarize_results(tmp_path)
    (tmp_path / "AVG.jsonl.gz").write_bytes(b"no gzip")
    with pytest.raises(InputError, match="cannot be read"):
        population.summarize_results(tmp_path)
    with gzip.open(tmp_path / "AVG.jsonl.gz", "wt") as file:
        file.write(json.dumps({"users": []}))
    with pytest.raises(InputError, match="KeyError"):
        population.summarize_results(tmp_path)


# Memories


def traits(cards: int) -> Traits:
    return Traits(np.zeros(cards, np.int64), np.ones(cards), np.zeros(cards))


def moment(time: float, days: float, cards: int) -> Moment:
    whole_days = np.floor(days)
    return Moment(
        np.full(cards, time),
        np.full(cards, whole_days),
        np.full(cards, days if whole_days == 0 else whole_days),
    )


FSRS4DOT5 = np.array(
    [0.4872, 1.4003, 3.7145, 13.8206, 5.1618, 1.2298, 0.8975, 0.031, 1.6474, 0.1367, 1.0461,
     2.1072, 0.0793, 0.3246, 1.587, 0.2272, 2.8755]
)  # fmt: skip
MEMORIES = {
    "FSRS-6": lambda: Fsrs6(np.array(population.DEFAULT_PARAMETERS)[:, None]),
    "FSRS-4.5": lambda: Fsrs4Dot5(FSRS4DOT5),
    "HLR": lambda: HalfLife(np.array([1.5, -0.5, 2.0])),
    "DASH": lambda: Dash(np.array([0.2, 0.6, 0.13, 0.6, -0.15, 0.57, 0.09, 0.48, 0.79])),
    "ACT-R": lambda: ActR(0.177, 0.217, 0.255, -0.7, 0.025, 0.1),
}


@pytest.mark.parametrize("kind", MEMORIES)
def test_memories_forget_with_time_and_grow_with_success(kind: str) -> None:
    memory = MEMORIES[kind]()
    memory.begin(traits(4))
    cards = np.arange(3)
    assert not memory.seen(np.arange(4)).any()
    memory.learn(cards, np.full(3, 3), moment(0.5, 0, 3))
    assert memory.seen(np.arange(4)).tolist() == [True] * 3 + [False]
    soon, later = (memory.recall(cards, moment(0.5 + day, day, 3)) for day in (1, 60))
    assert ((soon > 0) & (soon < 1)).all()
    assert (later < soon).all()
    memory.learn(cards, np.array([1, 3, 3]), moment(4.5, 4, 3))
    after = memory.recall(cards, moment(14.5, 10, 3))
    assert after[0] < after[1] == after[2]
    assert memory.difficulty(cards)[0] >= memory.difficulty(cards)[1]


def test_memories_follow_their_formulas() -> None:
    """Compute recall by hand: Good, then Good after 3 days, asked after 10 more."""
    cards = np.zeros(1, np.int64)
    memories = {name: make() for name, make in MEMORIES.items()}
    for memory in memories.values():
        memory.begin(traits(1))
        memory.learn(cards, np.array([3]), moment(0.0, 0, 1))
        memory.learn(cards, np.array([3]), moment(3.0, 3, 1))
    recall = {
        name: float(memory.recall(cards, moment(13.0, 10, 1))[0])
        for name, memory in memories.items()
    }
    w = FSRS4DOT5
    r = (1 + 19 / 81 * 3 / w[2]) ** -0.5
    gain = math.exp(w[8]) * (11 - w[4]) * w[2] ** -w[9] * (math.exp(w[10] * (1 - r)) - 1)
    s = w[2] * (1 + gain)
    assert recall["FSRS-4.5"] == pytest.approx((1 + 19 / 81 * 10 / s) ** -0.5)
    half_life = 2 ** (1.5 * math.sqrt(2) + 2.0)
    assert recall["HLR"] == pytest.approx(2 ** (-10 / half_life))
    # 10 and 13 days ago: both in 30 days and for ever
    z = (-0.15 + 0.57 + 0.09 + 0.48) * math.log(3) + 0.79
    assert recall["DASH"] == pytest.approx(1 / (1 + math.exp(-z)))
    scale = 86_400 * 0.025
    second = 0.217 * (3 * scale) ** -0.177 + 0.177  # m when it was laid: ln age^-d
    m = math.log((13 * scale) ** -0.177 + (10 * scale) ** -second)
    assert recall["ACT-R"] == pytest.approx(1 / (1 + math.exp((-0.7 - m) / 0.255)))


def test_traces_grow_with_the_number_of_reviews() -> None:
    memory = MEMORIES["ACT-R"]()
    memory.begin(traits(2))
    for day in range(40):
        memory.learn(np.zeros(1, np.int64), np.array([3]), moment(day, min(day, 1), 1))
    assert memory.past.count.tolist() == [40, 0]
    np.testing.assert_array_equal(memory.past.of(np.zeros(1, np.int64))[1][0], np.arange(40))


# Learners


def test_kinds_of_memory_have_their_shares() -> None:
    kinds = [population.choose_kind(number) for number in range(120)]
    for kind, share in population.SHARES.items():
        assert kinds.count(kind) == round(share * 120)
    assert sum(population.SHARES.values()) == pytest.approx(1)


def test_population_learner_depends_on_its_number_alone() -> None:
    first, again, next_learner = (population.population_learner(7, number) for number in (2, 2, 3))
    assert first.log().fingerprint() == again.log().fingerprint()
    assert first.log().fingerprint() != next_learner.log().fingerprint()


@pytest.mark.parametrize("number", [0, 1, 3, 5, 8, 12])  # one of each kind
def test_answers_follow_the_memory(number: int) -> None:
    learner = population.population_learner(3, number)
    assert population.REVIEWS[0] <= len(learner.entries) <= population.REVIEWS[1]
    assert (np.diff(learner.entries.time_ms) > 0).all()
    is_recall = ~np.isnan(learner.recall)
    p = learner.recall[is_recall]
    y = learner.entries.rating[is_recall] > 1
    assert (p > 0).all()
    assert (p <= 1).all()
    assert abs(p.mean() - y.mean()) < 4 * math.sqrt((p * (1 - p)).sum()) / len(p)
    rows = select_rows(learner.log()).rows
    assert (rows.elapsed_days > 0).sum() > 200


def test_answer_times_depend_on_recall_if_a_learner_slows_down() -> None:
    random = np.random.default_rng(1)
    character, _ = population.draw_character(random, "FSRS-6")
    correlation = []
    for slowing in (0.0, 1.2):
        habits = replace(character.habits, slowing=slowing, weak_time=0.0, timed=True)
        changed = replace(character, habits=habits)
        learner = simulate_learner(1, 3000, incidents=False, character=changed)
        is_recall = ~np.isnan(learner.recall)
        seconds = np.log(learner.entries.duration_ms[is_recall])
        correlation.append(np.corrcoef(learner.recall[is_recall], seconds)[0, 1])
    assert abs(correlation[0]) < 0.1
    assert correlation[1] < -0.2


def test_buttons_tell_of_strength() -> None:
    """Check that recall before Easy is higher than before Hard if buttons depend on strength."""
    character, _ = population.draw_character(np.random.default_rng(1), "FSRS-6")
    gaps = []
    for strength in (0.0, 2.0):
        habits = replace(character.habits, hard=0.2, easy=0.2, hard_when_unsure=0.0)
        changed = replace(character, habits=replace(habits, buttons_tell=strength))
        learner = simulate_learner(1, 3000, incidents=False, character=changed)
        is_recall = ~np.isnan(learner.recall)
        recall = learner.recall[is_recall]
        rating = learner.entries.rating[is_recall]
        gaps.append(recall[rating == 4].mean() - recall[rating == 2].mean())
    assert gaps[1] > gaps[0] + 0.03


def test_first_buttons_tell_of_strength() -> None:
    """Check that Easy at first sight means a stronger card, also for a half-life model."""
    character, _ = population.draw_character(np.random.default_rng(2), "HLR")
    gaps = []
    for strength in (0.0, 0.9):
        first = np.array([0.0, 0.0, 0.5, 0.5])
        habits = replace(character.habits, first=first, first_tells=strength, easy=0.0)
        changed = replace(character, habits=habits, spread=(0.8, 0.3))
        learner = simulate_learner(3, 3000, incidents=False, character=changed)
        cards, begin, card = np.unique(
            learner.entries.card_id, return_index=True, return_inverse=True
        )
        assert len(cards) > 100
        easy = learner.entries.rating[begin][card] == 4
        is_recall = ~np.isnan(learner.recall)
        gaps.append(
            learner.recall[is_recall & easy].mean() - learner.recall[is_recall & ~easy].mean()
        )
    assert abs(gaps[0]) < 0.03
    assert gaps[1] > gaps[0] + 0.05


def test_some_programs_keep_no_answer_times() -> None:
    character, _ = population.draw_character(np.random.default_rng(1), "FSRS-6")
    changed = replace(character, habits=replace(character.habits, timed=False))
    learner = simulate_learner(1, 300, incidents=False, character=changed)
    assert not learner.entries.duration_ms.any()


@pytest.mark.parametrize("kind", ["FSRS-6", "FSRS-4.5"])
def test_lasting_strength_raises_later_gains(kind: str) -> None:
    """Check that a card four times as strong gains twice as much later if half of it lasts."""
    gained = []
    for lasting in (0.0, 0.5):
        memory = MEMORIES[kind]()
        memory.begin(replace(traits(2), strength=np.array([1.0, 4.0]), lasting=lasting))
        memory.learn(np.arange(2), np.full(2, 3), moment(0.5, 0, 2))
        memory.stability[:] = before = 4.0  # as if they had begun alike
        memory.learn(np.arange(2), np.full(2, 3), moment(4.5, 4, 2))
        gained.append(memory.stability - before)
    assert gained[0][1] == pytest.approx(gained[0][0])
    assert gained[1] == pytest.approx([gained[0][0], 2 * gained[0][0]])


# Likeness to real people


@pytest.mark.parametrize(("sd", "lasts"), [(0.0, 0.0), (0.6, 0.0), (0.9, 0.7)])
def test_shifts_of_days_are_found(sd: float, lasts: float) -> None:
    """Draw answers with a shift of the logit for each day, an AR(1), and estimate it."""
    random = np.random.default_rng(5)
    days = 1500
    reviews_a_day = 20
    effect = np.zeros(days)
    for day in range(1, days):
        news = sd * math.sqrt(1 - lasts**2) * random.standard_normal()
        effect[day] = lasts * effect[day - 1] + news
    day = np.repeat(np.arange(days), reviews_a_day)
    z = random.normal(1.5, 0.5, days * reviews_a_day)
    y = random.random(days * reviews_a_day) < 1 / (1 + np.exp(-z - effect[day]))
    p = 1 / (1 + np.exp(-z))
    deviation, correlation = estimate_shift(day, y - p, p * (1 - p))
    # To first order: strong shifts are found a little too small.
    assert deviation == pytest.approx(sd, abs=0.12)
    if sd:
        assert correlation == pytest.approx(lasts, abs=0.1)


def test_good_and_bad_days_are_simulated() -> None:
    """Check that recall varies between days with the form of the day, and with that alone."""
    random = np.random.default_rng(1)
    character, _ = population.draw_character(random, "FSRS-6")
    departures = []
    for form in (0.0, 1.0):
        habits = replace(
            character.habits, form=form, form_lasts=0.5, slip=0.0, long_pause=0.0, skip=0.0
        )
        changed = replace(character, habits=habits)
        learner = simulate_learner(1, 3000, incidents=False, character=changed)
        is_recall = ~np.isnan(learner.recall)
        day = learner.entries.time_ms[is_recall] // 86_400_000
        y = (learner.entries.rating[is_recall] > 1).astype(float)
        p = np.full(len(y), y.mean())
        departures.append(estimate_shift(day, y - p, p * (1 - p))[0])
    assert departures[1] > departures[0] + 0.3


def test_cards_of_a_topic_belong_together() -> None:
    """Check that answers show what cards that were begun together have in common."""
    character, _ = population.draw_character(np.random.default_rng(2), "HLR")
    likenesses = []
    for topic in (0, 20):
        changed = replace(character, topic=topic, topic_spread=(2.0, 2.0), spread=(0.1, 0.1))
        log = simulate_learner(3, 2500, incidents=False, character=changed).log()
        trials = prepare_trials(log, select_rows(log).rows, Protocol(short=True))
        evaluated = len(trials.test_index)
        share = trials.y[trials.test_index].mean()
        likenesses.append(compute_likeness(log, trials, np.full(evaluated, share)))
        assert likenesses[-1].evaluated == evaluated
        assert likenesses[-1].success == share
    assert likenesses[1].begun_together > likenesses[0].begun_together + 0.2
