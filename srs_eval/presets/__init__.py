"""Should I change anything? Questions about settings, answered from one's own reviews."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from srs_eval import __version__
from srs_eval.comparison import EQUIVALENT
from srs_eval.errors import InputError
from srs_eval.presets.answers import Answer, Table
from srs_eval.presets.candidates import Learner, refuse_without_presets
from srs_eval.presets.hard import am_i_misusing_hard
from srs_eval.presets.health import is_fsrs_right_for_me
from srs_eval.presets.noise import which_numbers_are_noise
from srs_eval.presets.often import how_often
from srs_eval.presets.parameters import are_my_parameters_good
from srs_eval.presets.predictions import losses_of, read_predictions
from srs_eval.presets.retention import do_i_remember_enough
from srs_eval.presets.split import split_or_merge
from srs_eval.presets.stored import as_anki_runs

if TYPE_CHECKING:
    from srs_eval.context import Context
    from srs_eval.reviews import ReviewLog

QUESTIONS = ("parameters", "split", "often", "health", "hard", "noise", "retention")


def compare(
    log: ReviewLog,
    *,
    questions: Iterable[str] = QUESTIONS,
    parameters: Mapping[str, Sequence[float]] | None = None,
    predictions: Path | None = None,
    equivalence: float = EQUIVALENT,
    context: Context | None = None,
) -> list[Answer]:
    """Answers to questions about a learner's presets, from the reviews that Anki would take.

    `log` may be narrowed to some decks or presets first. `parameters` are lists of one's own,
    by name, 17, 19 or 21 values each; `predictions` a file with others' predictions
    (`srs_eval.presets.predictions`). Differences in log loss within `equivalence` count as
    none. Raises NotEnoughData for too few reviews and InputError for an unknown question and for
    a log without presets or with rows that Anki's rule did not choose.
    """
    refuse_without_presets(log)
    wanted = list(questions)
    for question in wanted:
        if question not in QUESTIONS:
            raise InputError(
                f'There is no question "{question}": choose among {", ".join(QUESTIONS)}.'
            )
    lines = {name: as_anki_runs(values) for name, values in (parameters or {}).items()}
    learner = Learner.of(log, context)
    groups = list(learner.groups)
    given = {
        model: losses_of(learner, model, found)
        for model, found in (read_predictions(predictions) if predictions else {}).items()
    }
    answers: list[Answer] = []
    if "parameters" in wanted:
        answers += are_my_parameters_good(learner, groups, lines, given, equivalence)
    if "split" in wanted:
        answers += split_or_merge(learner, groups, equivalence)
    if "often" in wanted:
        answers += how_often(learner, groups, equivalence)
    if "health" in wanted:
        answers += is_fsrs_right_for_me(learner, groups, equivalence)
    if "hard" in wanted:
        answers += am_i_misusing_hard(learner, groups, equivalence)
    if "noise" in wanted:
        answers += which_numbers_are_noise(learner, groups, equivalence)
    if "retention" in wanted:
        answers += do_i_remember_enough(learner, groups, equivalence)
    return answers


def document(answers: Sequence[Answer]) -> dict[str, Any]:
    """Answers as JSON has them (layout: docs/formats.md)."""
    return {
        "layout": 1,
        "srs_eval": __version__,
        "rows": "anki",
        "answers": [answer.document() for answer in answers],
    }


__all__ = ("QUESTIONS", "Answer", "Table", "compare", "document")
