"""Adapter of check_vectors.py to fsrs-rs-python: pip install fsrs-rs-python."""

from importlib.metadata import version

from fsrs_rs_python import FSRS, FSRSItem, FSRSReview, TrainingConfig

NAME = f"fsrs-rs-python {version('fsrs-rs-python')}"
MODELS = ("FSRS-6",)


def make_item(reviews):
    """Return the item of a card's reviews, each a rating with the days before it."""
    return FSRSItem([FSRSReview(rating, int(days)) for rating, days in reviews])


def compute_states(model, parameters, reviews):
    """Return stability and difficulty after each review."""
    states = FSRS(parameters).historical_memory_states(make_item(reviews))
    return [(state.stability, state.difficulty) for state in states]


def compute_intervals(model, parameters, reviews, desired_retention):
    """Return the interval in days after each review."""
    fsrs = FSRS(parameters)
    intervals = []
    for stability, _ in compute_states(model, parameters, reviews):
        intervals.append(fsrs.next_interval(stability, desired_retention, 3))
    return intervals


def train(model, reviews):
    """Return the parameters that the optimizer finds, which it is asked for as Anki asks."""
    histories = {}
    items = []
    cards = []
    for card, rating, days in reviews:
        history = histories.setdefault(card, [])
        history.append((rating, days))
        if days > 0:
            items.append(make_item(history))
            cards.append(card)
    settings = TrainingConfig(num_epochs=8)  # Anki's
    return FSRS([]).compute_parameters(
        items, card_ids=cards, num_relearning_steps=1, training_config=settings
    )
