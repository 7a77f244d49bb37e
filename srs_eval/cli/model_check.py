"""`srs-eval models check`: what is wrong with a model, one sentence for each finding."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from srs_eval.cli.output import FINE, SOME_FAILED
from srs_eval.data.errors import InputError

if TYPE_CHECKING:
    from srs_eval.engine.conformance import Finding
    from srs_eval.models import Model

_SENTENCES = {
    "fails": "it fails: {what}",
    "no probability": (
        "{what}. Look for a division by 0, the logarithm of 0, or a step that is too long"
    ),
    "certain": (
        "it predicts exactly {found:g}. Nobody is that certain: clamp what predict returns, as in "
        "np.clip(p, 0.0001, 0.9999)"
    ),
    "not trained": "it was not trained on 300 reviews: {what}. Look at what fit raises",
    "own outcome": (
        "its prediction of review {review} changes with the outcome of this review. Look for y or "
        "the trial's own rating in predict, and for sums that include the review itself"
    ),
    "later outcome": (
        "its prediction of review {review} changes with outcomes of later reviews. Look for y in "
        "predict, and for sums and means over all trials"
    ),
    "fit sees test": (
        "its prediction of review {review} changes with outcomes after the training part. Look for "
        "rows that fit takes from outside train"
    ),
    "learns": (
        "its prediction of review {review} changes with answers to other cards since the training. "
        "A model that learns while it is evaluated defines online instead of fit and predict"
    ),
    "order": (
        "it predicts {found:.4f} for review {review} when reviews are asked for in another order "
        "or in two parts, and {expected:.4f} otherwise. Look for what predict computes over the "
        "whole of index"
    ),
    "repeats": (
        "it predicts {found:.4f} for review {review} when it is trained a second time, and "
        "{expected:.4f} the first time. Look for variables outside the functions that keep "
        "something, and seed what is random with context.user"
    ),
    "workers": (
        "it predicts {found:.4f} for review {review} in another process, and {expected:.4f} in "
        "this one. Look for what is kept in variables, and for hash() or the order of a set"
    ),
    "writes": "it writes to arrays that it is given. Work on copies, as in trials.delta_t.copy()",
    "few reviews": (
        "with {found:g} reviews to train on it fails: {what}. Let fit raise NotEnoughData there"
    ),
    "one outcome": "it fails where all reviews have the grade {found:g}: {what}",
    "hyperparameter": (
        "the hyperparameter {what} does nothing: another value leaves every prediction as it was. "
        "Look whether fit reads it from the context"
    ),
    "default": (
        "a training that is told the default of {what} ends elsewhere. The default that the "
        "hyperparameter declares is not the one that fit uses"
    ),
    "gradient": (
        "the gradient that {what} is given is wrong: for parameter {parameter} it is {found:.4g}, "
        "and differences of the loss give {expected:.4g}"
    ),
    "idle parameter": (
        "training leaves parameter {parameter} at its default, although moving it by a tenth "
        "lowers the training loss by {found:.4f}. Its gradient may be missing"
    ),
    "not converged": (
        "training stops early: moving parameter {parameter} by a tenth lowers the training loss by "
        "{found:.4f} more. Look at its gradient, the learning rate and the number of epochs"
    ),
    "worse than average": (
        "after training its log loss on the training reviews is {found:.4f}, and the average of "
        "these reviews has {expected:.4f}. It has not converged, or its formula cannot fit them"
    ),
}


def sentence(finding: Finding) -> str:
    """What is wrong, and where to look."""
    words = _SENTENCES[finding.kind].format_map(vars(finding))
    return f"{finding.configuration}: {words}."


def check_models(words: Sequence[str]) -> int:
    """Checks models by name, or those of a file; the exit code. Raises InputError."""
    from srs_eval.engine.conformance import findings
    from srs_eval.report.console import say, show

    if not words:
        raise InputError("Name a model or a file: srs-eval models check my_model.py.")
    models = list({model.name: model for word in words for model in _meant(word)}.values())
    names = ", ".join(model.name for model in models)
    say(f"Checking {names} on simulated learners ...")
    wrong = False
    for finding in findings(models):
        wrong = True
        show(sentence(finding))
    if not wrong:
        show(f"Nothing wrong was found with {names}.")
    return SOME_FAILED if wrong else FINE


def _meant(word: str) -> list[Model]:
    from srs_eval.models import load_model_file
    from srs_eval.models.configurations import resolve

    if word.endswith(".py") or "/" in word:
        return list(load_model_file(Path(word)))
    return [configuration.model for configuration in resolve(word)]
