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

_CHANGES = "its prediction of review {review} changes with"
_TWICE = "it predicts {expected:.4f} for review {review}, and {found:.4f}"
_SENTENCES = {
    "fails": "it fails: {what}",
    "no probability": "{what}. Look for a division by 0, ln 0, or training steps that are too long",
    "certain": "it predicts exactly {found:g}. Use np.clip(p, 0.0001, 0.9999) in predict",
    "not trained": "it was not trained on 300 reviews: {what}. Look at what fit raises",
    "own outcome": f"{_CHANGES} the outcome of this review. Look for y in predict, and for sums "
    "that include the review itself",
    "later outcome": f"{_CHANGES} outcomes of later reviews. Look for y in predict, and for means "
    "over all trials",
    "fit sees test": f"{_CHANGES} outcomes after the training part. Look for rows in fit that are "
    "not in train",
    "learns": f"{_CHANGES} answers to other cards since the training. A model that learns while it "
    "is evaluated defines online instead of fit and predict",
    "order": f"{_TWICE} if reviews come in another order or in two parts. Look for what predict "
    "computes over all of index",
    "repeats": f"{_TWICE} if it is trained again. Look for variables outside the functions, and "
    "seed what is random with context.user",
    "workers": f"{_TWICE} in another process. Look for variables that keep something, for hash() "
    "and for the order of a set",
    "writes": "it writes to arrays that it is given. Work on copies, as in trials.delta_t.copy()",
    "few reviews": "it fails with {found:g} reviews: {what}. Let fit raise NotEnoughData there",
    "one outcome": "it fails if all reviews have the grade {found:g}: {what}",
    "hyperparameter": "the hyperparameter {what} does nothing: another value changes no "
    "prediction. Look whether fit reads it from the context",
    "default": "fit does not use the default that the hyperparameter {what} declares",
    "gradient": "the gradient that {what} gets is wrong: for w[{parameter}] it is "
    "{found:.4g}, and differences of the loss give {expected:.4g}",
    "idle parameter": "training leaves w[{parameter}] at its default, although changing it "
    "by a tenth lowers the training loss by {found:.4f}. Its gradient may be missing",
    "not converged": "training stops early: changing w[{parameter}] by a tenth lowers the "
    "training loss by {found:.4f}. Look at gradient, learning rate and number of epochs",
    "worse than average": "its log loss on the training reviews is {found:.4f} after training, and "
    "their average has {expected:.4f}. It has not converged, or the formula cannot fit them",
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
