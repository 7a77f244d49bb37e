"""A population of learners: published facts about real ones, and simulated ones like them.

`population.json` sums up the per-user fits that srs-benchmark publishes for 9,999 users
of anki-revlogs-10k: per model, quantiles of every parameter and the correlation of the parameters'
normal scores, along with the number of evaluated reviews and the share of successes. `draw` draws
a learner's parameters from that (a Gaussian copula), `draw_character` a whole learner with habits
and one of several kinds of memory, and `population_learner` simulates them. Networks are
pretrained on such learners, see `tools.pretraining.train`.

The file contains no user's own numbers, and they cannot be recovered from it.
"""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from srs_eval.data.errors import InputError
from srs_eval.data.reviews import REVIEW, FloatArray
from tools.pretraining.memories import ActR, Dash, Fsrs4Dot5, HalfLife
from tools.simulated.character import Character, Habits, make_single_deck
from tools.simulated.learner import SimulatedLearner, simulate_learner
from tools.simulated.memory import DEFAULT_PARAMETERS, SPREAD, Fsrs6, Memory

FILE = Path(__file__).with_name("population.json")
SOURCE = (
    "open-spaced-repetition/srs-benchmark, published results (folder result/), snapshot of "
    "18 January 2025, commit 399354168d2924898b49babdc6104a33948c76b0 of 1DWalker/srs-benchmark"
)
MODELS = {"FSRS-5": 19, "FSRS-4.5": 17, "HLR": 3, "DASH": 9}  # number of parameters
LEAST_REVIEWS = 1000  # fits to fewer are mostly noise
LEVELS = (
    0.005, 0.01, 0.02, 0.035, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5,
    0.6, 0.7, 0.8, 0.85, 0.9, 0.925, 0.95, 0.965, 0.98, 0.99, 0.995,
)  # fmt: skip


# Published results


@dataclass(frozen=True)
class ParameterDraw:
    """One learner's parameters for one model, drawn at random."""

    parameters: FloatArray
    size: float  # evaluated reviews
    success: float  # share of reviews that were recalled


@dataclass(frozen=True, eq=False)
class _Copula:
    levels: FloatArray
    quantiles: FloatArray  # (k + 2, levels), of the parameters, size and success
    root: FloatArray  # (k + 2, k + 2) Cholesky factor of the correlation


def summarize_results(folder: str | Path) -> dict[str, Any]:
    """Summarize a folder of srs-benchmark's published results as the content of population.json.

    Reads `AVG.jsonl.gz` and one file for each of `MODELS`; numbers have 4 significant digits,
    correlations 3 decimals. Users with fewer than 1,000 evaluated reviews are left out. Raises
    InputError if a file is missing or is not such a file.
    """
    folder = Path(folder)
    success = {
        user: success_rate(line["metrics"]["LogLoss"])
        for user, line in _read_lines(folder, "AVG").items()
    }
    models = {}
    users = 0
    for model, count in MODELS.items():
        rows = []
        for user, line in _read_lines(folder, model).items():
            parameters = line["parameters"]
            if isinstance(parameters, Mapping):  # by partition; there is only one
                (parameters,) = parameters.values()
            if len(parameters) == count and line["size"] >= LEAST_REVIEWS and user in success:
                rows.append([*parameters, line["size"], success[user]])
        table = np.array(rows, np.float64)
        users = max(users, len(table))
        models[model] = {
            "users": len(table),
            "quantiles": [
                [_round_digits(value) for value in np.quantile(column, LEVELS)]
                for column in table.T
            ],
            "correlation": np.round(_correlate_normal_scores(table), 3).tolist(),
        }
    return {
        "source": SOURCE,
        "note": "Per model: quantiles of each parameter, then of the number of evaluated "
        "reviews and of the share of successes, at the levels given; correlation of their normal "
        "scores. "
        f"Users with at least {LEAST_REVIEWS:,} evaluated reviews.",
        "users": users,
        "levels": list(LEVELS),
        "models": models,
    }


def format_summary(summary: Mapping[str, Any]) -> str:
    """Format population.json with one line for each row of numbers."""

    def format_rows(table: list[list[float]]) -> str:
        return "[\n" + ",\n".join(f"        {json.dumps(row)}" for row in table) + "\n      ]"

    entries = [
        f"  {json.dumps(key)}: {json.dumps(summary[key])}" for key in summary if key != "models"
    ]
    models = [
        f'    "{model}": {{\n      "users": {fits["users"]},\n'
        f'      "quantiles": {format_rows(fits["quantiles"])},\n'
        f'      "correlation": {format_rows(fits["correlation"])}\n    }}'
        for model, fits in summary["models"].items()
    ]
    entries.append('  "models": {\n' + ",\n".join(models) + "\n  }")
    return "{\n" + ",\n".join(entries) + "\n}\n"


def success_rate(log_loss: float) -> float:
    """Return the share of successes p >= 0.5 at which always predicting p has this log loss.

    Solves -p ln p - (1 - p) ln(1 - p) = log_loss by bisection; 0.5 above ln 2, where a
    constant prediction was worse than none.
    """
    low = 0.5
    high = 1.0
    for _ in range(60):
        p = (low + high) / 2
        entropy = -p * math.log(p) - (1 - p) * math.log1p(-p) if p < 1 else 0.0
        if entropy > log_loss:
            low = p
        else:
            high = p
    return (low + high) / 2


def draw(random: np.random.Generator, model: str) -> ParameterDraw:
    """Draw a learner's parameters for this model, with their size and success rate.

    Gaussian copula: each value is distributed as published between the 0.5 % and the 99.5 %
    quantile, with the published rank correlations. Raises InputError for a model that
    population.json does not contain.
    """
    copula = _load_copula(model)
    scores = copula.root @ random.standard_normal(len(copula.root))
    level = [0.5 * math.erfc(-score / math.sqrt(2)) for score in scores.tolist()]
    values = [
        float(np.interp(u, copula.levels, quantiles))
        for u, quantiles in zip(level, copula.quantiles, strict=True)
    ]
    return ParameterDraw(np.array(values[:-2]), values[-2], values[-1])


@cache
def load_summary() -> dict[str, Any]:
    """Load the content of population.json."""
    summary: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return summary


@cache
def _load_copula(model: str) -> _Copula:
    content = load_summary()
    if model not in content["models"]:
        raise InputError(
            f"No published distribution for {model!r}; there are {', '.join(content['models'])}."
        )
    fits = content["models"][model]
    correlation = np.array(fits["correlation"])
    # Rounding may leave the matrix just short of positive definite.
    root = np.array(np.linalg.cholesky(0.999 * correlation + 0.001 * np.eye(len(correlation))))
    return _Copula(np.array(content["levels"]), np.array(fits["quantiles"]), root)


def _read_lines(folder: Path, model: str) -> dict[int, dict[str, Any]]:
    path = folder / f"{model}.jsonl.gz"
    try:
        with gzip.open(path, "rt", encoding="utf-8") as source:
            lines = [json.loads(line) for line in source]
        return {line["user"]: line for line in lines}
    except FileNotFoundError as error:
        raise InputError(f"{folder} holds no {path.name}; give srs-benchmark's results.") from error
    except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{path.name} cannot be read as published results ({type(error).__name__})."
        ) from error


def _correlate_normal_scores(table: FloatArray) -> FloatArray:
    """Return the correlation (k, k) of the columns' normal scores; ties share their mean rank."""
    from scipy.special import ndtri
    from scipy.stats import rankdata

    scores = ndtri((rankdata(table, axis=0) - 0.5) / len(table))
    return np.array(np.corrcoef(scores.T))


def _round_digits(value: float) -> float:
    return float(f"{value:.4g}")


# Simulated learners

Kind = Literal["FSRS-5", "FSRS-6", "FSRS-4.5", "DASH", "HLR", "ACT-R"]
SHARES: Mapping[Kind, float] = {
    "FSRS-6": 0.55,
    "FSRS-5": 0.15,
    "ACT-R": 0.1,
    "FSRS-4.5": 0.1,
    "DASH": 0.05,
    "HLR": 0.05,
}
"""Share of learners with each kind of memory."""

FAILS = 0.7  # target share of failures, relative to the published one

REVIEWS = 2_000, 12_000  # least and most answers of one learner


def choose_kind(number: int) -> Kind:
    """Return the kind of memory of the population's learner with this number (0, 1, ...).

    Any run of consecutive numbers meets the shares as closely as possible.
    """
    kinds = list(SHARES)
    weights = np.array(list(SHARES.values()))
    counts = np.zeros(len(kinds))
    chosen = 0
    for count in range(number % 20 + 1):
        chosen = int(np.argmax(weights * (count + 1) - counts))
        counts[chosen] += 1
    return kinds[chosen]


def population_learner(seed: int, number: int) -> SimulatedLearner:
    """Simulate the learner with this number (0, 1, ...) of the population with this seed.

    The same arguments give the same learner, whichever others are simulated. Learners are drawn
    again if they fail much more or much less often than real ones (outside the 20 % and 98 %
    quantiles) because scheduler and memory do not fit together. (Below 20 % the published share
    says little: a learner who changes over time looks like one who guesses, see `success_rate`.)
    """
    random = np.random.default_rng([seed, number])
    levels = load_summary()["levels"]
    shares = load_summary()["models"]["FSRS-5"]["quantiles"][-1]
    least, most = np.interp([0.2, 0.98], levels, shares)
    while True:
        character, reviews = draw_character(random, choose_kind(number))
        learner = simulate_learner(
            int(random.integers(2**62)), reviews, incidents=False, character=character
        )
        due = learner.entries.kind == REVIEW
        if due.any() and least <= (learner.entries.rating[due] > 1).mean() <= most:
            return learner


def draw_character(random: np.random.Generator, kind: Kind) -> tuple[Character, int]:
    """Draw a learner's memory and habits, and the number of their answers."""
    memory, drawn, parameters = _draw_memory(random, kind)
    reviews = int(np.clip(0.35 * drawn.size, *REVIEWS))
    # The published share counts a learner who changes over time as one who guesses (see
    # `success_rate`): learners aim higher, and cards stick better.
    aim = 1 - FAILS * (1 - drawn.success)
    retention = float(np.clip(aim + random.normal(0, 0.02), 0.75, 0.97))
    # Learners who have optimised use parameters near their memory's, others the defaults.
    stored = np.array(DEFAULT_PARAMETERS)
    if parameters is not None and random.random() < 0.5:
        stored = np.clip(
            parameters * np.exp(0.15 * SPREAD * random.standard_normal(21)), 1e-4, None
        )
    two_buttons = random.random() < 0.15
    first = random.dirichlet(np.array([1.6, 1.2, 2.8, 0.7]))
    if two_buttons:
        first = np.array([first[0], 0.0, 1 - first[0], 0.0])
    habits = Habits(
        first=first,
        hard=0.0 if two_buttons else float(random.beta(1.3, 9)),
        easy=0.0 if two_buttons else float(random.beta(0.7, 8)),
        forgets=True,
        skip=float(random.beta(1.2, 2.0)),
        stop=float(math.exp(random.uniform(math.log(0.01), math.log(0.3)))),
        seconds=float(np.exp(random.normal(2.0, 0.45))),
        hour=float(random.uniform(4.0, 16.0)),
        daily_limit=int(random.choice([60, 120, 200, 300, 500])),
        hard_when_unsure=float(random.uniform(0, 1)),
        slowing=float(random.choice([0.0, random.uniform(0.4, 1.8)], p=[0.1, 0.9])),
        time_spread=float(random.uniform(0.45, 1.0)),
        card_time=float(random.uniform(0.0, 0.4)),
        weak_time=float(random.uniform(0.0, 0.55)),
        buttons_tell=float(random.uniform(0.0, 2.5)),
        first_tells=float(random.uniform(0.0, 0.8)),
        timed=bool(random.random() < 0.9),
        slip=float(random.uniform(0, 0.02)),
        long_pause=float(math.exp(random.uniform(math.log(0.004), math.log(0.04)))),
        pause_days=int(random.choice([20, 60, 250, 700], p=[0.3, 0.3, 0.25, 0.15])),
        new_share=float(random.uniform(0.1, 1.0)),
        new_per_day=max(1, round(math.exp(random.uniform(math.log(3), math.log(60))))),
        form=float(math.exp(random.normal(math.log(0.5), 0.6))),
        form_lasts=float(random.uniform(-0.1, 0.95)),
    )
    learning = ((1.0, 10.0), (10.0,), (1.0, 10.0, 30.0), (15.0,), (1.0, 10.0, 1440.0))
    relearning = ((10.0,), (1.0, 10.0), (20.0,))
    decks, presets, shares = make_single_deck(
        tuple(np.round(stored, 4).tolist()),
        retention,
        learning[int(random.choice(5, p=[0.5, 0.15, 0.15, 0.1, 0.1]))],
        relearning[int(random.choice(3, p=[0.6, 0.2, 0.2]))],
    )
    scheduler: Literal["fsrs", "sm2"] = "fsrs" if random.random() < 0.4 else "sm2"
    character = Character(
        memory=memory,
        habits=habits,
        scheduler=scheduler,
        decks=decks,
        presets=presets,
        shares=shares,
        strength=float(math.exp(random.normal(1.2, 0.5))),
        strength_lasts=float(random.uniform(0.0, 0.7)),
        spread=(float(random.uniform(0.3, 1.2)), float(random.uniform(0.3, 1.8))),
        topic=int(random.choice([10, 30, 100])),
        topic_spread=(float(random.uniform(0.0, 0.8)), float(random.uniform(0.0, 0.8))),
    )
    return character, reviews


def _draw_memory(
    random: np.random.Generator, kind: Kind
) -> tuple[Memory, ParameterDraw, NDArray[np.float64] | None]:
    """Draw a memory; return it with its draw and FSRS-6 parameters near it, if there are any."""
    if kind in ("FSRS-5", "FSRS-6"):
        drawn = draw(random, "FSRS-5")
        # FSRS-5 is FSRS-6 without the last but one parameter and with a decay of 0.5.
        last_parameters = (0.0, 0.5)
        if kind == "FSRS-6":
            last_parameters = (float(random.uniform(0.0, 0.2)), float(random.uniform(0.08, 0.3)))
        w = np.array([*drawn.parameters, *last_parameters])
        return Fsrs6(w[:, None]), drawn, w
    if kind == "FSRS-4.5":
        drawn = draw(random, "FSRS-4.5")
        return Fsrs4Dot5(drawn.parameters), drawn, None
    if kind == "DASH":
        drawn = draw(random, "DASH")
        return Dash(drawn.parameters), drawn, None
    if kind == "HLR":
        drawn = draw(random, "HLR")
        return HalfLife(drawn.parameters), drawn, None
    # There are no published fits of ACT-R: around the constants of Pavlik and Anderson (2005).
    drawn = draw(random, "FSRS-5")
    return ActR.around_literature(random), drawn, None
