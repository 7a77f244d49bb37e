"""Adapter of check_vectors.py to py-fsrs: pip install fsrs, for training "fsrs[optimizer]".

Its optimizer trains by a rule of its own; set TRAIN to True to see how far its parameters are off.
"""

from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from itertools import pairwise

from fsrs import Card, Optimizer, Rating, ReviewLog, Scheduler

NAME = f"py-fsrs {version('fsrs')}"
MODELS = ("FSRS-6",)
WHOLE_DAYS = True
TRAIN = False
START = datetime(2024, 1, 1, 12, tzinfo=UTC)


def review_card(parameters, reviews, desired_retention=0.9):
    """Yield the card after each review; without steps, every interval comes from FSRS."""
    scheduler = Scheduler(
        parameters=parameters,
        desired_retention=desired_retention,
        learning_steps=(),
        relearning_steps=(),
        enable_fuzzing=False,
    )
    card = Card()
    time = START
    for rating, days in reviews:
        time += timedelta(days=days)
        card, _ = scheduler.review_card(card, Rating(rating), time)
        yield card


def compute_states(model, parameters, reviews):
    """Return stability and difficulty after each review."""
    return [(card.stability, card.difficulty) for card in review_card(parameters, reviews)]


def compute_intervals(model, parameters, reviews, desired_retention):
    """Return the interval in whole days after each review."""
    cards = review_card(parameters, reviews, desired_retention)
    return [(card.due - card.last_review).days for card in cards]


def count_days(model, times, time_zone, day_begins_at_hour):
    """Return the days as the scheduler counts them, which knows neither time zone nor hour."""
    moments = [datetime.fromisoformat(time) for time in times]
    days = [(later - earlier).days for earlier, later in pairwise(moments)]
    return [0, *days]


def train_by_optimizer(model, reviews):
    """Return the parameters that the optimizer finds."""
    times = {}
    logs = []
    for card, rating, days in reviews:
        times[card] = times.get(card, START) + timedelta(days=days)
        logs.append(ReviewLog(card, Rating(rating), times[card], None))
    return Optimizer(logs).compute_optimal_parameters()


if TRAIN:
    train = train_by_optimizer
