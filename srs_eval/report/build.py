"""From results to documents: `srs-eval report` on folders, `srs-eval export` on one learner."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from srs_eval.benchmark.leaderboard import Comparison, changes, compare
from srs_eval.benchmark.result_files import ResultFolder, read_folders
from srs_eval.data.errors import InputError, NotEnoughData
from srs_eval.report.comparison import METRICS, SECONDS
from srs_eval.report.dataset import dataset_document
from srs_eval.report.document import Document
from srs_eval.stats.averaging import COLUMNS, MODES, Averages, averages, read_predictions

if TYPE_CHECKING:
    from srs_eval.advice.findings import Finding
    from srs_eval.advice.questions import Asked
    from srs_eval.advice.tables import Table
    from srs_eval.advice.workload.estimate import Workload
    from srs_eval.data.protocol import Protocol
    from srs_eval.data.reviews import ReviewLog
    from srs_eval.engine.run import Run
    from srs_eval.training.context import Context

_CALIBRATION_BINS = 20

_Told = Callable[[int, int, str], None]
"""Is told what a report is at: the number of a question, of how many, and the question."""


def _tell_nobody(number: int, of: int, question: str) -> None:
    """Progress that nobody watches."""


def dataset_report(
    folders: Sequence[Path],
    *,
    metric: str = "LogLoss",
    columns: Sequence[str] = METRICS,
    users: str = "common",
    average: Sequence[str] = ("user",),
    baseline: Path | None = None,
) -> Document:
    """The report on some folders; raises InputError for what they do not hold."""
    found = read_folders(folders)
    files = [file for folder in found for file in folder.files]
    known = dict.fromkeys(name for file in files for name in file.metrics)
    if not known:
        raise InputError(
            f'"{folders[0]}": no line holds a metric; name a folder with results of srs-eval or '
            "srs-benchmark."
        )
    metric = _named("--metric", metric, known)
    shown = [_named("--columns", each.strip(), [*known, SECONDS]) for each in columns]
    modes = [_named("--average", each.strip(), MODES) for each in average]
    before = read_folders([baseline]) if baseline is not None else []
    metrics = [each for each in shown if each != SECONDS]
    comparisons = compare(
        files, metric, metrics=metrics, users="each" if users == "each" else "common"
    )
    return dataset_document(
        found,
        comparisons,
        columns=shown,
        own_users=users == "each",
        baseline=before,
        changes=changes(files, [f for each in before for f in each.files], metric, metrics),
        averages=_averaged(found, comparisons, modes) if modes != ["user"] else (),
    )


def _averaged(
    folders: Sequence[ResultFolder], comparisons: Sequence[Comparison], modes: Sequence[str]
) -> list[list[Averages]]:
    """By comparison: averages of those of its files that have predictions.

    Over the users of whom all of these hold every judged review, and no others.
    """
    homes = {file.path: folder.path for folder in folders for file in folder.files}
    found: list[list[Averages]] = []
    for comparison in comparisons:
        users = comparison.users
        sizes = dict(zip(users.tolist(), comparison.sizes.tolist(), strict=True))
        files = list(comparison.files)
        made: dict[str, tuple[int, Averages]] = {}  # with the number of users that it is over
        # Users only drop out, so that a second turn is needed only where some did.
        while stale := [f for f in files if f.label not in made or made[f.label][0] > len(users)]:
            for file in stale:
                predictions = read_predictions(homes[file.path], file.spelled)
                if predictions is None:
                    files.remove(file)
                    continue
                here = np.array([sizes[user] for user in users.tolist()])
                users = predictions.complete(users, here)
                if not len(users):
                    raise InputError(
                        f'--average: the predictions of {file.label} in "{homes[file.path]}" are '
                        "not of the reviews and users that results and other predictions are of: "
                        "evaluate again with --raw."
                    )
                averaged = averages(
                    file.label, predictions.of(users), modes, is_floor=file.is_floor
                )
                made[file.label] = len(users), averaged
        found.append([made[file.label][1] for file in files])
    if not any(found):
        raise InputError(
            f"--average {','.join(modes)} needs predictions, and there are none in a folder raw "
            f'beside the results of "{folders[0].path}": evaluate with --raw.'
        )
    for mode in modes:
        if not any(mode in each.means for averaged in found for each in averaged):
            raise InputError(
                f"--average {mode}: no predictions in raw tell the {mode}s of reviews; parquet "
                f"files with a column {COLUMNS[mode]} do."
            )
    return found


def learner_report(
    log: ReviewLog,
    run: Run,
    protocol: Protocol,
    *,
    context: Context | None = None,
    narrowed_to: Mapping[str, str | None] | None = None,
    anonymous: bool = False,
    tell: _Told = _tell_nobody,
) -> Document:
    """The report on one learner whose ranking is in `run`; asks the questions, too.

    `tell` hears of each question before it is worked on. `anonymous` leaves out what names the
    file; names of decks and presets are the log's (`srs_eval.data.selection.anonymous`).
    """
    from srs_eval.advice.over_time import dates, months
    from srs_eval.advice.questions import OVER_ALL, Asked, questions_for, tasks_of
    from srs_eval.engine.ranking import own_scheduler
    from srs_eval.report.inspection import inspect_log
    from srs_eval.report.learner import Learner, learner_document
    from srs_eval.stats.calibration_graph import calibration_graph

    asked_of = {each for task in tasks_of(log) for each in task}
    questions = [*(each for each in OVER_ALL if each in asked_of), *questions_for(log)]
    every = [*questions, "day", "workload"]

    def at(question: str) -> None:
        tell(every.index(question) + 1, len(every), question)

    answers = _answers(Asked(log, context, run.equivalence), questions, at)
    at("day")
    state, days = _state(log, protocol, context)
    at("workload")
    costs = _workload(log, context)
    groups = run.groups()
    best = groups[0].best if groups else None
    own = own_scheduler(log)
    shown = [name for name in (own, best and best.configuration.name) if name in run.results()]
    by_name = {each.name: each.words for each in run.configurations}
    name_of = dates(log, protocol)
    return learner_document(
        Learner(
            inspection=inspect_log(log),
            protocol=protocol,
            run=run,
            answers=answers,
            state=state,
            days=days,
            workload=costs,
            calibration={
                by_name[name]: calibration_graph(
                    run.results()[name].y, run.results()[name].p, _CALIBRATION_BINS
                )
                for name in dict.fromkeys(shown)
            },
            months={by_name[name]: months(run.results()[name], name_of) for name in shown[:1]},
            narrowed_to=narrowed_to or {},
            anonymous=anonymous,
            own=own,
            fsrs_is_off=log.receipt.fsrs_enabled is False,
        )
    )


def _answers(
    asked: Asked, questions: Sequence[str], at: Callable[[str], None]
) -> list[Finding] | str:
    """The answers to all questions, or why there are none."""
    from srs_eval.advice.questions import ask

    found: list[Finding] = []
    try:
        for question in questions:
            at(question)
            found += ask(question, asked)
    except NotEnoughData as error:
        return f"Too little data to answer questions about settings: {error}."
    return found


def _state(
    log: ReviewLog, protocol: Protocol, context: Context | None
) -> tuple[Sequence[Finding] | str, Table | None]:
    """What the learner's days tell, or why they don't, and the state of each."""
    from srs_eval.advice.over_time import learner_state

    try:
        found = learner_state(log, protocol, context)
    except NotEnoughData as error:
        return f"Too little data to tell your days from your cards: {error}.", None
    return found.answers, found.days


def export_learner(
    log: ReviewLog,
    run: Run,
    protocol: Protocol,
    *,
    form: str,
    path: Path,
    context: Context | None = None,
    narrowed_to: Mapping[str, str | None] | None = None,
    anonymous: bool = False,
) -> list[Path]:
    """Write the report on one learner in a form of `report.files.write_as`; what was written.

    Works on all questions first: call it in a worker, which is sent what a `_Told` is told.
    `anonymous` numbers decks and
    presets. Raises InputError where the files cannot be written.
    """
    from srs_eval.data.selection import anonymous as without_names
    from srs_eval.engine.workers import send
    from srs_eval.report.files import write_as

    document = learner_report(
        without_names(log) if anonymous else log,
        run,
        protocol,
        context=context,
        narrowed_to=narrowed_to,
        anonymous=anonymous,
        tell=lambda *at: send(at),
    )
    return write_as(document, form, path)


def _workload(log: ReviewLog, context: Context | None) -> Workload | str:
    """What a desired retention costs; a sentence, or none, where that cannot be told."""
    from srs_eval.advice.candidates import knows_presets
    from srs_eval.advice.workload.estimate import workload

    if not knows_presets(log):
        return ""
    try:
        *_, found = workload(log, context=context)
    except NotEnoughData as error:
        return f"Too little data to tell what a desired retention costs: {error}."
    except InputError as error:
        return str(error).replace(
            log.receipt.path, "the file"
        )  # where it lies is nobody's business
    return found


def _named(option: str, name: str, known: Sequence[str] | dict[str, None]) -> str:
    """The one of some names that is meant, case and spaces aside."""
    for each in known:
        if _plain(each) == _plain(name):
            return each
    raise InputError(f'{option} takes {", ".join(known)}, not "{name}".')


def _plain(name: str) -> str:
    return "".join(name.lower().split()).replace("_", "")
