"""Check an implementation of FSRS-6 or FSRS-7 against reference vectors.

    srs-eval models vectors FSRS-6 > vectors.json
    python check_vectors.py vectors.json my_adapter.py

This file needs Python 3.11 and nothing else. An adapter is a Python file with NAME, MODELS and some
of these functions; what it leaves out is not checked. `model` is "FSRS-6" or "FSRS-7". `reviews`
are those of one card, a list of (rating, days since the review before); the first one has 0 days.
Days are whole numbers for FSRS-6 and fractions for FSRS-7.

    NAME = "my-fsrs 1.0"
    MODELS = ("FSRS-6",)
    WHOLE_DAYS = True      # intervals are rounded to whole days, and lie between 1 and 36,500

    def compute_states(model, parameters, reviews):
        "Return the state after each review, with the values that the vectors name."

    def compute_intervals(model, parameters, reviews, desired_retention):
        "Return the interval in days after each review, without fuzz."

    def count_days(model, times, time_zone, day_begins_at_hour):
        "Return the days from review to review of one card, 0 for the first; times are UTC."

    def train(model, reviews):
        "Return the parameters trained on reviews, a list of (card, rating, days) in order of time."

The exit code is 0 if all cases agree, 1 if one differs, 2 if there is nothing to check.
"""

import argparse
import importlib.util
import json
import math
import sys

SHOWN = 5  # cases that are listed without --all
SMALLEST = 1e-6  # absolute differences up to this size never count
MOST_DAYS = 36500


def load_adapter(path):
    """Import the adapter from its file."""
    spec = importlib.util.spec_from_file_location("adapter", path)
    if spec is None:
        sys.exit(f"{path} is no Python file.")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# Each check yields (place, expected value, computed value, allowed difference).


def check_states(adapter, vectors, case):
    """Compare each value of each state."""
    tolerance = vectors["tolerance"]["states"]
    states = adapter.compute_states(vectors["model"], case["parameters"], case["reviews"])
    pairs = zip(case["states"], states, strict=True)
    for review, (expected, computed) in enumerate(pairs, start=1):
        for name, value, other in zip(vectors["state"], expected, computed, strict=True):
            yield f"{name} after review {review}", value, other, tolerance * abs(value)


def check_intervals(adapter, vectors, case):
    """Compare each interval at each desired retention."""
    tolerance = vectors["tolerance"]["intervals"]
    is_whole = getattr(adapter, "WHOLE_DAYS", False)
    for column, retention in enumerate(vectors["desired_retentions"]):
        intervals = adapter.compute_intervals(
            vectors["model"], case["parameters"], case["reviews"], retention
        )
        pairs = zip(case["intervals"], intervals, strict=True)
        for review, (expected, computed) in enumerate(pairs, start=1):
            value = expected[column]
            allowed = tolerance * value
            if is_whole:
                value = min(max(value, 1), MOST_DAYS)
                allowed += 0.5
            yield f"interval at {retention} after review {review}", value, computed, allowed


def check_days(adapter, vectors, case):
    """Compare the days between reviews."""
    days = adapter.count_days(
        vectors["model"], case["times"], case["time_zone"], case["day_begins_at_hour"]
    )
    pairs = zip(case["reviews"], days, strict=True)
    for review, ((_, value), computed) in enumerate(pairs, start=1):
        yield f"days before review {review}", value, computed, 0.0


def check_training(adapter, vectors, case):
    """Compare each trained parameter."""
    tolerance = vectors["tolerance"]["parameters"]
    trained = adapter.train(vectors["model"], case["cards_ratings_days"])
    pairs = zip(case["trained_parameters"], trained, strict=True)
    for number, (value, computed) in enumerate(pairs):
        yield f"w[{number}]", value, computed, tolerance * max(abs(value), 1)


CHECKS = (  # name, function of the adapter, key of the cases to check, the check
    ("states", "compute_states", "states", check_states),
    ("intervals", "compute_intervals", "intervals", check_intervals),
    ("days", "count_days", "times", check_days),
    ("training", "train", "trained_parameters", check_training),
)


def compare_case(check, adapter, vectors, case):
    """Return the largest difference as a share of what is allowed, and the first above it.

    The latter is in words, "" if there is none.
    """
    largest = 0.0
    problem = ""
    try:
        for place, expected, computed, allowed in check(adapter, vectors, case):
            share = abs(computed - expected) / max(allowed, SMALLEST)
            if math.isnan(share):
                share = math.inf
            largest = max(largest, share)
            if share > 1 and not problem:
                problem = f"{place} is {computed:.8g}, not {expected:.8g}"
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
    return largest, problem


def check_vectors(vectors, adapter, shown=SHOWN):
    """Print the outcome of all checks; return the names of the cases that differ, by check."""
    differing = {}
    for name, function, key, check in CHECKS:
        if not hasattr(adapter, function):
            print(f"{name}: not checked, the adapter has no {function}")
            continue
        cases = [case for case in vectors["cases"] if key in case]
        largest = 0.0
        problems = {}
        for case in cases:
            share, problem = compare_case(check, adapter, vectors, case)
            if problem:
                problems[case["name"]] = problem
            else:
                largest = max(largest, share)
        agreeing = len(cases) - len(problems)
        print(f"{name}: {agreeing} of {len(cases)} cases agree, to {largest:.0%} of the tolerance")
        for case_name, problem in list(problems.items())[:shown]:
            print(f"  {case_name}: {problem}")
        if len(problems) > shown:
            print(f"  and {len(problems) - shown} more (--all)")
        differing[name] = list(problems)
    return differing


def main(arguments=None):
    """Check an adapter; return the exit code."""
    parser = argparse.ArgumentParser(
        description="Check an implementation of FSRS-6 or FSRS-7 against reference vectors.",
        epilog="The beginning of this file says what an adapter is.",
    )
    parser.add_argument("vectors", help="what `srs-eval models vectors` printed")
    parser.add_argument("adapter", help="a Python file that calls the implementation")
    parser.add_argument("--all", action="store_true", help="list every case that differs")
    options = parser.parse_args(arguments)
    with open(options.vectors, encoding="utf-8") as file:
        vectors = json.load(file)
    adapter = load_adapter(options.adapter)
    if vectors["model"] not in adapter.MODELS:
        print(f"{adapter.NAME} does not implement {vectors['model']}: nothing to check.")
        return 2
    print(f"{adapter.NAME}, {vectors['model']}")
    shown = sys.maxsize if options.all else SHOWN
    differing = check_vectors(vectors, adapter, shown)
    return 1 if any(differing.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
