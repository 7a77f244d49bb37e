"""The interface for notebooks: the engine that the app and the command line use.

import srs_eval
log = srs_eval.load("collection.anki2")
results = srs_eval.evaluate(log, models="fast")
results.frame()
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from html import escape
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from srs_eval.advice.shown import sentences
from srs_eval.benchmark.leaderboard import compare as in_groups
from srs_eval.benchmark.result_files import ResultFile, read_folders
from srs_eval.data.arguments import (
    A_FILE,
    A_FILE_OR_FOLDER,
    NAMES,
    check_flag,
    check_function,
    check_mapping,
    check_number,
    check_path,
    check_texts,
    check_type,
    check_whole_number,
    is_list_of_numbers,
    refuse,
    shown,
)
from srs_eval.data.errors import InputError, counted, require
from srs_eval.data.protocol import Protocol
from srs_eval.data.reviews import Given, ReviewLog
from srs_eval.data.rows import RowKind, Selection, select_rows
from srs_eval.engine.evaluate import evaluate as engine_evaluate
from srs_eval.engine.ranking import REFERENCE, Group, Ranked, with_baselines
from srs_eval.engine.run import Checking, Event, Run
from srs_eval.engine.session import Result, Session
from srs_eval.engine.shared import with_file, with_given
from srs_eval.models import MADE_HERE, Model, add_model
from srs_eval.models.configurations import resolve
from srs_eval.report import pictures
from srs_eval.report.comparison import METRICS
from srs_eval.report.console import checking_in_words, say
from srs_eval.report.dataset import named
from srs_eval.report.export import DIFFERENCES, ranking_table
from srs_eval.stats.intervals import EQUIVALENT, calibration_graph
from srs_eval.training.hyperparameters import Context

if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas
    from matplotlib.figure import Figure

    from srs_eval.advice.findings import Finding


_USUAL = ("review_th", "fold", "y", "p", "review_id")  # columns of predictions
_Models = str | Model | Iterable[str | Model]
_LISTS = "a dictionary of lists of numbers by name, such as {'mine': [0.2, ...]}"


@dataclass(frozen=True, eq=False)
class Results(Mapping[str, Result]):
    """Results by configuration name, as ranked, and why others are missing."""

    groups: Sequence[Group]
    """The ranking, with AVG as the baseline also where it was not asked for."""
    results: Mapping[str, Result]
    failed: Mapping[str, str]
    skipped: Mapping[str, str]
    log: ReviewLog | None = None
    """The reviews that were evaluated."""

    def __getitem__(self, name: str) -> Result:
        """By canonical name or alias, in any case. Raises KeyError for what has no result."""
        if name in self.results:
            return self.results[name]
        canonical = _canonical(name)
        if canonical in self.results:
            return self.results[canonical]
        raise KeyError(self._why_missing(name, canonical))

    def _why_missing(self, name: str, canonical: str) -> str:
        """Say why a name has no result: a reason, else the nearest names that have one."""
        for what, reasons in (("failed", self.failed), ("was skipped", self.skipped)):
            if canonical in reasons:
                return f"{canonical} has no result: it {what} ({reasons[canonical]})."
        lower = {each.lower(): each for each in self.results}
        nearest = difflib.get_close_matches(str(name).lower(), lower, n=3, cutoff=0.4)
        if nearest:
            names = ", ".join(lower[each] for each in nearest)
            return f'There is no result of "{name}". Did you mean {names}?'
        return f'There is no result of "{name}", only of {", ".join(self.results) or "nothing"}.'

    def __iter__(self) -> Iterator[str]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    def __repr__(self) -> str:
        said = " ".join(
            sentence for group in self.groups for sentence in (group.answer, *group.warnings)
        )
        return f"Results of {counted(len(self), 'configuration')}. {said}".rstrip()

    def _repr_html_(self) -> str:
        """What a notebook shows: the rankings."""
        parts = []
        for group in self.groups:
            table = ranking_table(group)
            heads = [column.title for column in table.columns]
            said = " ".join([group.answer, *group.warnings])
            parts.append(f"<b>{escape(group.title)}</b><p>{escape(said)}</p>")
            parts.append(_html([heads, *table.texts()]))
        return "".join(parts)

    @property
    def plot(self) -> _Plots:
        """Pictures as in reports."""
        return _Plots(self)

    def frame(self) -> pandas.DataFrame:
        """One row for each configuration, as ranked: place, standing, intervals, all metrics.

        `group` counts the sets of reviews that models are ranked on (`groups`); the baseline has
        no place. `standing` of a model that reads the future says so, and no difference is given of
        it. Half-widths are those of 95 % intervals; differences are of log loss.
        """
        require("pandas", "A frame")
        import pandas as pd

        rows = []
        for number, group in enumerate(self.groups):
            for line in group.lines:
                if line.configuration.name not in self.results:
                    continue
                row: dict[str, Any] = {
                    "configuration": line.configuration.name,
                    "words": line.configuration.words,
                    "group": number,
                    "place": line.place,
                    "standing": line.result.mark or line.standing,
                    "parameters": line.parameters,
                    "size": line.result.size,
                    **line.result.metrics.to_upstream(),
                    "log_loss_half_width": line.log_loss.half_width,
                }
                intervals = {name: getattr(line, name) for name in DIFFERENCES}
                estimates, widths = _flat(intervals, "estimate"), _flat(intervals, "half_width")
                rows.append(row | estimates | widths)
        if not rows:
            return pd.DataFrame()
        whole = {"place": "Int64", "parameters": "Int64"}
        return pd.DataFrame(rows).set_index("configuration").astype(whole)

    def predictions(self, columns: Iterable[str] | None = None) -> pandas.DataFrame:
        """One row for each evaluated review and configuration.

        `columns` are among review_th, fold, y, p, day, card_id, note_id, deck_id, preset_id and,
        where the source has times, review_id; if left out: the first four and the last. Ids are -1
        where the source does not tell. Raises InputError for others.
        """
        wanted = None
        if columns is not None:
            wanted = [*columns] if isinstance(columns, Iterator) else columns
            check_texts("columns", NAMES, wanted)
        require("pandas", "A frame")
        import pandas as pd

        select = cache(select_rows)
        parts = []
        for name, result in self.results.items():
            known = self._columns(name, result, select)
            kept = [each for each in _USUAL if each in known] if wanted is None else [*wanted]
            if unknown := [each for each in kept if each not in known]:
                raise InputError(f'There is no column "{unknown[0]}", only {", ".join(known)}.')
            parts.append(pd.DataFrame({"configuration": name, **{k: known[k] for k in kept}}))
        return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()

    def _columns(
        self, name: str, result: Result, select: Callable[[ReviewLog, RowKind], Selection]
    ) -> dict[str, Any]:
        """What is known of each evaluated review."""
        known = {each: getattr(result, each) for each in (*_USUAL[:4], "day")}
        if self.log is None:
            return known
        log, row = self.log, result.review_th - 1
        selection = select(log, _ranked(self, name).configuration.protocol.rows)
        card = selection.rows.card_id[row]
        deck = log.deck_of(card)
        known |= {"card_id": card, "note_id": log.note_of(card), "deck_id": deck}
        known["preset_id"] = log.preset_of(deck)
        if log.entries is not None:
            known["review_id"] = log.entries.time_ms[selection.entry_index[row]]
        return known


@dataclass(frozen=True)
class _Plots:
    """Figures of matplotlib, drawn as in reports."""

    results: Results

    def calibration(self, *names: str) -> Figure:
        """Recalled over predicted recall, of the best configuration if none is named."""
        graphs = []
        for name in names or [*self.results][:1]:
            line = _ranked(self.results, name)
            graph = calibration_graph(line.result.y, line.result.p, pictures.CALIBRATION_BINS)
            graphs.append((line.configuration.words, graph))
        return pictures.as_figure(pictures.calibration(graphs))

    def ranking(self, group: int = 0) -> Figure:
        """Log losses with 95 % intervals, the baseline as a line; `group` is one of `groups`."""
        count = len(self.results.groups)
        words = "0, the number of the only ranking"
        if count != 1:
            words = f"the number of a ranking, from 0 to {count - 1}"
        check_whole_number("group", group, words, least=0)
        if group >= count:
            raise refuse("group", words, group)
        return pictures.as_figure(pictures.ranking(self.results.groups[group]))

    def forgetting_curves(self, name: str = REFERENCE) -> Figure:
        """Recall over days at the first review on a later day, by first rating."""
        from srs_eval.advice.questions import model_evidence
        from srs_eval.advice.shown.predicted import Curves, errors_tables

        line, log = _ranked(self.results, name), self.results.log
        assert log is not None
        trials = Session(log).trials(line.configuration.protocol)
        tables = errors_tables(model_evidence(log, trials, line.configuration, line.result))
        curves = next((each.curves for each in tables if isinstance(each, Curves)), ())
        return pictures.as_figure(pictures.curves(curves))


class _Findings(list["Finding"]):
    """Answers, as a notebook shows them."""

    def __repr__(self) -> str:
        return "\n".join(f"{each.subject}: {' '.join(sentences(each)[:1])}" for each in self)

    def _repr_html_(self) -> str:
        return _html((each.question, each.subject, " ".join(sentences(each))) for each in self)


def _canonical(name: str) -> str:
    """The name of the configuration that a name or alias means; itself where it means none."""
    try:
        return resolve([name])[0].name
    except (InputError, AttributeError):  # no text
        return name


def _html(rows: Iterable[Iterable[str]]) -> str:
    cells = ("".join(f"<td>{escape(cell)}</td>" for cell in row) for row in rows)
    return f"<table>{''.join(f'<tr>{row}</tr>' for row in cells)}</table>"


def _ranked(results: Results, name: str) -> Ranked:
    """The ranking's line of a configuration."""
    name = results[name].configuration
    lines = (line for group in results.groups for line in group.lines)
    return next(line for line in lines if line.configuration.name == name)


def read_results(*folders: str | Path) -> pandas.DataFrame:
    """Result files of `srs-eval batch` or srs-benchmark: a row for each configuration and user.

    Beside them `size` and the metrics of the files. Raises InputError.
    """
    require("pandas", "A frame")
    import pandas as pd

    parts = (
        pd.DataFrame(
            {"configuration": file.name, "label": file.label, "user": file.users}
            | {"size": file.sizes.astype(int), **file.metrics}
        )
        for file in _files(folders)
    )
    return pd.concat(parts, ignore_index=True)


def _flat(found: Mapping[str, object], *figures: str) -> dict[str, float]:
    """Figures of intervals as columns: NAME is the estimate; nan where there is none."""
    return {
        name if figure == "estimate" else f"{name}_{figure}": math.nan
        if each is None
        else getattr(each, figure)
        for name, each in found.items()
        for figure in figures
    }


def _files(folders: Sequence[str | Path]) -> list[ResultFile]:
    if not folders:
        raise InputError("Name a folder of results.")
    for folder in folders:
        if not isinstance(folder, str | PathLike):
            raise InputError(f"folders are paths of folders; {shown(folder)} is none.")
    return [file for each in read_folders([*map(Path, folders)]) for file in each.files]


def leaderboard(*folders: str | Path, metrics: Sequence[str] = METRICS) -> pandas.DataFrame:
    """What `srs-eval report` puts first: a row for each configuration and weighting, best first.

    Means of `metrics` over the users whom all have, with 99 % intervals (`LogLoss`, `LogLoss_low`,
    `LogLoss_high`), and of the first metric the difference from the best (`to_best`); `group`
    counts the sets of reviews. Raises InputError.
    """
    check_texts("metrics", NAMES, metrics)
    if not metrics:
        raise refuse("metrics", NAMES, metrics)
    require("pandas", "A frame")
    import pandas as pd

    files, rows = _files(folders), list[dict[str, Any]]()
    known = dict.fromkeys(name for file in files for name in file.metrics)
    metrics = [named("metrics", each, known) for each in metrics]
    for group, comparison in enumerate(in_groups(files, metrics[0], metrics=metrics)):
        for table, line in ((t, line) for t in comparison.tables for line in t.lines):
            row: dict[str, Any] = {
                "configuration": line.file.name,
                "label": line.file.label,
                "group": group,
                "weighting": table.weighting,
                "place": line.place,
                "users": line.users,
            }
            means = {each: line.means[each] for each in metrics} | {"to_best": line.to_best}
            for name, mean in means.items():
                row |= _flat({name: mean}, "estimate", "low", "high")
            rows.append(row)
    return pd.DataFrame(rows).set_index("configuration").astype({"place": "Int64"})


def load(
    path: str | Path,
    *,
    timezone: str | None = None,
    rollover: int | None = None,
    user: int | None = None,
) -> ReviewLog:
    """Read a collection, package, revlog, CSV or one user of an anki-revlogs-10k folder.

    The file is never written to. Raises srs_eval.data.errors.InputError.
    """
    from srs_eval.anki_import import load_log

    check_path("path", A_FILE_OR_FOLDER, path)
    check_type("timezone", "the name of a time zone", timezone, str, type(None))
    for name, number in (("rollover", rollover), ("user", user)):
        if number is not None:
            check_whole_number(name, number)
    return load_log(Path(path), timezone=timezone, rollover=rollover, user=user)


def compare(
    log: ReviewLog,
    questions: str | Iterable[str] = "all",
    *,
    parameters: Mapping[str, Sequence[float]] | None = None,
    predictions: str | Path | None = None,
    models: _Models = (),
    equivalence: float = EQUIVALENT,
    context: Context | None = None,
) -> _Findings:
    """Answers to questions about presets, each with sentences and frames (`advice.questions`).

    `parameters` are lists of one's own to compare, by name, `predictions` a CSV or parquet file
    with others' predictions; `models`, as `evaluate` takes them, are evaluated and compared as
    such, too. Raises InputError and NotEnoughData (srs_eval.data.errors).
    """
    from srs_eval.advice import questions as presets

    _check_types(log, context=context, predictions=predictions)
    if not isinstance(questions, str):
        questions = [*questions] if isinstance(questions, Iterator) else questions
        check_texts("questions", "a question's name or a list of such names", questions)
    if parameters is not None:
        check_mapping("parameters", _LISTS, parameters)
        if not all(map(is_list_of_numbers, parameters.values())):
            raise refuse("parameters", _LISTS, parameters)
    check_number("equivalence", equivalence, "a number of 0 or more", least=0)
    if names := _names(models):
        log = replace(
            log, given={**log.given, **_given(log, evaluate(log, names, context=context))}
        )
    if isinstance(questions, str):
        questions = presets.questions_for(log) if questions == "all" else (questions,)
    found = presets.compare(
        log,
        questions=questions,
        parameters=parameters,
        predictions=None if predictions is None else Path(predictions),
        equivalence=equivalence,
        context=context,
    )
    return _Findings(found)


def _given(log: ReviewLog, results: Results) -> dict[str, Given]:
    """Predictions of results as those that a log was given: one for each entry. InputError."""
    for name, reason in results.failed.items():
        raise InputError(f"{name} has failed: {reason}")
    place = select_rows(log, "benchmark").entry_index
    given = {}
    for name, result in results.items():
        p = np.full(len(log.entries or log.rows or ()), np.nan)
        p[place[result.review_th - 1]] = result.p
        given[name] = Given(p, "evaluated in this notebook")
    return given


def _names(models: _Models) -> list[str]:
    """Of models as `resolve` takes them; objects are added to those it knows. InputError."""
    listed = models.split(",") if isinstance(models, str) else models
    listed = listed if isinstance(listed, Iterable) else [listed]
    names = []
    for model in listed:
        if not isinstance(model, str | Model):
            raise InputError(f"The models are names or Model objects; {shown(model)} is neither.")
        names.append(add_model(model) if isinstance(model, Model) else model)
    return names


_TAKEN: Mapping[str, tuple[tuple[type, ...], str]] = {
    "log": ((ReviewLog,), "what srs_eval.load returns"),
    "protocol": ((Protocol, type(None)), "an srs_eval.Protocol"),
    "context": ((Context, type(None)), "an srs_eval.Context"),
    "reference": ((str,), "the name of a configuration"),
    "predictions": ((str, PathLike, type(None)), A_FILE),
    "features": ((str, PathLike, type(None)), A_FILE),
}
"""The types of arguments that are mistaken for others, and what they are in words."""


def _check_types(log: object, **others: object) -> None:
    """Raise InputError where an argument is of another type than _TAKEN says."""
    for name, value in {"log": log, **others}.items():
        kinds, words = _TAKEN[name]
        check_type(name, words, value, *kinds)


def evaluate(
    log: ReviewLog,
    models: _Models = "fast",
    protocol: Protocol | None = None,
    *,
    jobs: int = 0,
    reference: str = REFERENCE,
    context: Context | None = None,
    use_cache: bool = True,
    on_event: Callable[[Event], None] | None = None,
    predictions: str | Path | None = None,
    features: str | Path | None = None,
) -> Results:
    """Evaluate models on a review log, beside `predictions` of a file.

    `models` are names, aliases, groups, and objects such as those of `srs_eval.models.adapters`.
    AVG is evaluated along as the baseline. `reference` is the configuration that others are held
    against besides the best. `features` is a table about cards or notes (`Trials.features`).

    `jobs` worker processes, 0 for none; scripts that set it need the usual
    `if __name__ == "__main__":` guard of multiprocessing.
    """
    _check_types(
        log,
        protocol=protocol,
        context=context,
        reference=reference,
        predictions=predictions,
        features=features,
    )
    check_whole_number("jobs", jobs, "a number of worker processes, 0 for none", least=0)
    check_flag("use_cache", use_cache)
    if on_event is not None:
        check_function("on_event", "a function of an event", on_event)
    configurations = resolve(_names(models), protocol)
    if jobs and any(each.model.file == MADE_HERE for each in configurations):
        raise InputError(
            "A model made in a notebook cannot be sent to worker processes: leave `jobs` out, or "
            "write it to a file and take what srs_eval.models.load_model_file returns."
        )
    if features is not None:
        context = replace(context or Context(), features=Path(features).absolute())
    log = with_file(log, None if predictions is None else Path(predictions))
    configurations = with_given(configurations, log, protocol or Protocol())
    evaluated = with_baselines(configurations, leaves_out=log.leaves_out)
    run = Run.of(evaluated, reference=resolve(reference, protocol)[0].name)
    for event in engine_evaluate(
        log, evaluated, protocol, jobs=jobs, context=context, use_cache=use_cache
    ):
        if on_event is not None:
            on_event(event)
        elif isinstance(event, Checking):
            say(checking_in_words([event.configuration.words]))
        run.apply(event)
    asked = {each.name for each in configurations}
    results = {line.configuration.name: line.result for line in run.ranked()}
    failed, skipped = (
        {name: model.reason for name, model in missing.items() if name in asked}
        for missing in (run.failed, run.skipped)
    )
    found = {name: result for name, result in results.items() if name in asked}
    return Results(run.groups(), found, failed, skipped, log)
