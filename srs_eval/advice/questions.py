"""Should I change anything? Questions about settings, answered from one's own reviews."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from srs_eval.advice.answers import Answer, Table
from srs_eval.advice.candidates import WHOLE, Learner, knows_presets, refuse_without_presets
from srs_eval.advice.hard import am_i_misusing_hard
from srs_eval.advice.health import is_fsrs_right_for_me
from srs_eval.advice.noise import which_numbers_are_noise
from srs_eval.advice.often import how_often
from srs_eval.advice.parameters import are_my_parameters_good, what_is_left_out
from srs_eval.advice.predictions import held_out_of, read_predictions
from srs_eval.advice.predictors import brought_along, which_predicts_best
from srs_eval.advice.retention import do_i_remember_enough
from srs_eval.advice.split import split_or_merge
from srs_eval.advice.steps import which_steps
from srs_eval.data.errors import InputError
from srs_eval.data.paths import VERSION
from srs_eval.models.own_parameters import as_anki_runs
from srs_eval.stats.intervals import EQUIVALENT

if TYPE_CHECKING:
    from srs_eval.data.reviews import FloatArray, ReviewLog
    from srs_eval.training.context import Context

_OTHERS: Mapping[str, Callable[[Learner, Sequence[int], float], Iterator[Answer]]] = {
    "split": split_or_merge,
    "often": how_often,
    "health": is_fsrs_right_for_me,
    "hard": am_i_misusing_hard,
    "steps": which_steps,
    "noise": which_numbers_are_noise,
    "retention": do_i_remember_enough,
}
QUESTIONS = ("parameters", *_OTHERS)
MODELS = "models"  # the question that can be asked where presets are not known


def answering(
    log: ReviewLog,
    *,
    questions: Iterable[str] | None = None,
    parameters: Mapping[str, Sequence[float]] | None = None,
    predictions: Path | None = None,
    equivalence: float = EQUIVALENT,
    context: Context | None = None,
) -> Iterator[Answer]:
    """Answers to questions about a learner's presets, from the reviews that Anki would take.

    Without `questions` all of QUESTIONS; of a log without presets, or with rows that Anki's
    rule did not choose, only MODELS can be answered, on the benchmark's rows. Each answer comes
    as soon as it is known: question by question in the order of QUESTIONS, preset by preset,
    those with the most reviews first. Before them each preset is named whose stored parameters
    Anki does not run, an answer to "parameters" whatever is asked of presets: it is left out of all
    of them. Closing the iterator ends the work between two answers;
    `context.tick` is called more often and may raise Cancelled.

    `log` may be narrowed to some decks or presets first. `parameters` are lists of one's own,
    by name, 17, 19 or 21 values each; `predictions` a file with others' predictions
    (`srs_eval.advice.predictions`). Differences in log loss within `equivalence` count as
    none. Raises, before the first answer, NotEnoughData for too few reviews and InputError for
    an unknown question and for one that needs presets where there are none.
    """
    every = (*QUESTIONS, MODELS)
    wanted = set(questions_for(log) if questions is None else questions)
    for question in sorted(wanted.difference(every)):
        raise InputError(f'There is no question "{question}": choose among {", ".join(every)}.')
    if wanted - {MODELS}:
        refuse_without_presets(log)
    lines = {name: as_anki_runs(values) for name, values in (parameters or {}).items()}
    files = read_predictions(predictions) if predictions else {}

    def others(learner: Learner) -> dict[str, FloatArray]:
        return brought_along(learner) | {
            model: held_out_of(learner, model, found) for model, found in files.items()
        }

    if MODELS in wanted:
        whole = Learner.of(log, context, WHOLE)
        beside = others(whole)
    if wanted - {MODELS}:
        learner = Learner.of(log, context)
        given = others(learner)

    def answers() -> Iterator[Answer]:
        if MODELS in wanted:
            yield which_predicts_best(whole, lines, beside, equivalence)
        if not wanted - {MODELS}:
            return
        yield from what_is_left_out(log)
        groups = list(learner.groups)
        if "parameters" in wanted:
            yield from are_my_parameters_good(learner, groups, lines, given, equivalence)
        for question, answered in _OTHERS.items():
            if question in wanted:
                yield from answered(learner, groups, equivalence)

    return answers()


def questions_for(log: ReviewLog) -> tuple[str, ...]:
    """What is answered unless a person asks for something else."""
    return QUESTIONS if knows_presets(log) else (MODELS,)


def compare(log: ReviewLog, **options: Any) -> list[Answer]:
    """All that `answering` has to say; the options and what it raises are its."""
    return list(answering(log, **options))


def document(answers: Sequence[Answer]) -> dict[str, Any]:
    """Answers as JSON has them (layout: docs/formats.md)."""
    return {
        "layout": 1,
        "srs_eval": VERSION,
        "rows": "benchmark" if all(each.question == MODELS for each in answers) else "anki",
        "answers": [answer.document() for answer in answers],
    }


__all__ = (
    "MODELS",
    "QUESTIONS",
    "Answer",
    "Table",
    "answering",
    "compare",
    "document",
    "questions_for",
)
