"""Provide notebooks with the engine that the app and the command line use.

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
from srs_eval.data.arguments import (
    A_FILE,
    A_FILE_OR_FOLDER,
    NAMES,
    argument_error,
    check_flag,
    check_function,
    check_mapping,
    check_number,
    check_numbers,
    check_path,
    check_texts,
    check_type,
    check_whole_number,
    describe_value,
    is_list_of_numbers,
)
from srs_eval.data.errors import InputError, format_count, require
from srs_eval.data.protocol import EQUIVALENCE_MARGIN, Protocol
from srs_eval.data.readers.features import add_features
from srs_eval.data.reviews import ExternalPredictions, ReviewLog
from srs_eval.data.rows import RowKind, Selection, select_rows
from srs_eval.engine.evaluate import evaluate as engine_evaluate
from srs_eval.engine.loss_breakdown import LossBreakdown, break_down_loss
from srs_eval.engine.ranking import (
    REFERENCE,
    RankedResult,
    RankingGroup,
    add_baselines,
    find_average,
)
from srs_eval.engine.result import Result
from srs_eval.engine.run import Checking, Event, Run
from srs_eval.engine.schedulability import (
    DESIRED_RETENTIONS,
    MAX_HISTORIES,
    Schedulability,
    measure_configurations,
)
from srs_eval.engine.session import LearnerSession
from srs_eval.engine.shared_reviews import add_external_configurations, add_predictions_file
from srs_eval.models import IN_MEMORY, Model, add_model
from srs_eval.models.configurations import Configuration, resolve_configurations
from srs_eval.report import pictures
from srs_eval.report.cells import format_rows
from srs_eval.report.console import describe_leak_check, say
from srs_eval.report.export import DIFFERENCE_FIELDS, build_ranking_table
from srs_eval.report.ranking_words import format_group_title, list_warnings, summarize_ranking
from srs_eval.report.schedulability import describe_measurement
from srs_eval.stats.intervals import compute_calibration_graph
from srs_eval.training.hyperparameters import Context

if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas
    from matplotlib.figure import Figure

    from srs_eval.advice.findings import Finding


_DEFAULT_COLUMNS = ("review_th", "fold", "y", "p", "review_id")  # columns of predictions
ModelArgument = str | Model | Iterable[str | Model]
_RETENTIONS = "a list of shares between 0 and 1, such as [0.7, 0.9]"
_NUMBER_LISTS = "a dictionary of lists of numbers by name, such as {'mine': [0.2, ...]}"


@dataclass(frozen=True, eq=False)
class Results(Mapping[str, Result]):
    """Results by configuration name, as ranked, and why others are missing."""

    groups: Sequence[RankingGroup]
    """The ranking, with AVG as the baseline even if it was not requested."""
    results: Mapping[str, Result]
    failed: Mapping[str, str]
    skipped: Mapping[str, str]
    log: ReviewLog | None = None
    """The reviews that were evaluated."""

    def __getitem__(self, name: str) -> Result:
        """Return a result by canonical name or alias, in any case.

        Raises KeyError for a name without a result.
        """
        if name in self.results:
            return self.results[name]
        canonical = _canonical_name(name)
        if canonical in self.results:
            return self.results[canonical]
        raise KeyError(self._why_missing(name, canonical))

    def _why_missing(self, name: str, canonical: str) -> str:
        """Say why a name has no result: a reason, else the nearest names that have one."""
        for verb, reasons in (("failed", self.failed), ("was skipped", self.skipped)):
            if canonical in reasons:
                return f"{canonical} has no result: it {verb} ({reasons[canonical]})."
        by_lower_name = {result_name.lower(): result_name for result_name in self.results}
        nearest = difflib.get_close_matches(str(name).lower(), by_lower_name, n=3, cutoff=0.4)
        if nearest:
            names = ", ".join(by_lower_name[lower_name] for lower_name in nearest)
            return f'There is no result for "{name}". Did you mean {names}?'
        return f'There is no result for "{name}", only for {", ".join(self.results) or "nothing"}.'

    def __iter__(self) -> Iterator[str]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    def __repr__(self) -> str:
        summary = " ".join(_summarize_group(group) for group in self.groups)
        return f"Results of {format_count(len(self), 'configuration')}. {summary}".rstrip()

    def _repr_html_(self) -> str:
        """Return the rankings as a notebook shows them."""
        blocks = []
        for group in self.groups:
            table = build_ranking_table(group)
            heads = [column.title for column in table.columns]
            summary = _summarize_group(group)
            blocks.append(f"<b>{escape(format_group_title(group))}</b><p>{escape(summary)}</p>")
            blocks.append(_render_html_table([heads, *format_rows(table)]))
        return "".join(blocks)

    @property
    def plot(self) -> _Plots:
        """Return the pictures of reports, as methods."""
        return _Plots(self)

    def frame(self) -> pandas.DataFrame:
        """Return one row per configuration, as ranked: place, standing, intervals, all metrics.

        `group` numbers the sets of reviews on which models are ranked (`groups`); the baseline has
        no place. The `standing` of a model that reads the future says so, and its differences are
        missing. Half-widths are those of 95 % intervals; differences are in log loss.
        """
        require("pandas", "A frame")
        import pandas as pd

        rows = []
        for number, group in enumerate(self.groups):
            for line in group.lines:
                if line.configuration.name not in self.results:
                    continue
                standing: str | None = line.result.invalid_reason or None
                if standing is None and line.standing is not None:
                    standing = line.standing.value
                row: dict[str, Any] = {
                    "configuration": line.configuration.name,
                    "words": line.configuration.words,
                    "group": number,
                    "place": line.rank,
                    "standing": standing,
                    "parameters": line.parameter_count,
                    "size": line.result.size,
                    **line.result.metrics.to_upstream(),
                    "log_loss_half_width": line.log_loss.half_width,
                }
                intervals = {name: getattr(line, name) for name in DIFFERENCE_FIELDS}
                estimates = flatten_intervals(intervals, "estimate")
                widths = flatten_intervals(intervals, "half_width")
                rows.append(row | estimates | widths)
        if not rows:
            return pd.DataFrame()
        dtypes = {"place": "Int64", "parameters": "Int64"}
        return pd.DataFrame(rows).set_index("configuration").astype(dtypes)

    def breakdown(self, name: str = REFERENCE) -> LossBreakdown:
        """Return what the loss of a result consists of, beside the average's.

        These are skill, the parts of the Brier score, log loss by earlier reviews of the card, and
        log loss fold by fold (docs/metrics.md). Raises KeyError for a name without a result.
        """
        result = _find_ranked(self, name).result
        return break_down_loss(result, find_average(self.groups, result))

    def predictions(self, columns: Iterable[str] | None = None) -> pandas.DataFrame:
        """Return one row for each evaluated review and configuration.

        Columns are review_th, fold, y, p and, if the source has times, review_id. `columns` names
        further ones: day, reviews_before (of the card; a day counts one), card_id, note_id,
        deck_id, preset_id; ids are -1 if the source does not contain them. Raises InputError for
        other columns.
        """
        if isinstance(columns, Iterator):
            columns = [*columns]
        if columns is not None:
            check_texts("columns", NAMES, columns)
        require("pandas", "A frame")
        import pandas as pd

        select = cache(select_rows)
        frames = []
        for name, result in self.results.items():
            available = self._prediction_columns(name, result, select)
            selected = [column for column in _DEFAULT_COLUMNS if column in available]
            selected += [column for column in columns or () if column not in selected]
            unknown = [column for column in selected if column not in available]
            if unknown:
                raise InputError(f'There is no column "{unknown[0]}", only {", ".join(available)}.')
            values = {column: available[column] for column in selected}
            frames.append(pd.DataFrame({"configuration": name, **values}))
        return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()

    def _prediction_columns(
        self, name: str, result: Result, select: Callable[[ReviewLog, RowKind], Selection]
    ) -> dict[str, Any]:
        """Return all columns that a log has for the evaluated reviews of a result."""
        columns = {field: getattr(result, field) for field in (*_DEFAULT_COLUMNS[:4], "day")}
        columns["reviews_before"] = result.tests.reviews_before
        log = self.log
        if log is None:
            return columns
        row = result.review_th - 1
        selection = select(log, _find_ranked(self, name).configuration.protocol.rows)
        card = selection.rows.card_id[row]
        deck = log.deck_of(card)
        columns["card_id"] = card
        columns["note_id"] = log.note_of(card)
        columns["deck_id"] = deck
        columns["preset_id"] = log.preset_of(deck)
        if log.entries is not None:
            columns["review_id"] = log.entries.time_ms[selection.entry_index[row]]
        return columns


def _summarize_group(group: RankingGroup) -> str:
    """Return the summary sentence of a ranking, followed by its warnings."""
    return " ".join([summarize_ranking(group), *list_warnings(group)])


@dataclass(frozen=True)
class _Plots:
    """Matplotlib figures, drawn as in reports."""

    results: Results

    def calibration(self, *names: str) -> Figure:
        """Draw recalled over predicted recall, of the best configuration if none is named."""
        graphs = []
        for name in names or [*self.results][:1]:
            line = _find_ranked(self.results, name)
            graph = compute_calibration_graph(
                line.result.y, line.result.p, pictures.CALIBRATION_BINS
            )
            graphs.append((line.configuration.words, graph))
        return pictures.draw_figure(pictures.calibration_chart(graphs))

    def ranking(self, group: int = 0) -> Figure:
        """Draw log losses with 95 % intervals, the baseline as a line.

        `group` is the number of one of `groups`.
        """
        count = len(self.results.groups)
        expected = "0, the number of the only ranking"
        if count != 1:
            expected = f"the number of a ranking, from 0 to {count - 1}"
        check_whole_number("group", group, expected, least=0)
        if group >= count:
            raise argument_error("group", expected, group)
        return pictures.draw_figure(pictures.ranking_chart(self.results.groups[group]))

    def forgetting_curves(self, name: str = REFERENCE) -> Figure:
        """Draw recall over days at the first review on a later day, by first rating."""
        from srs_eval.advice.questions import model_evidence
        from srs_eval.advice.shown.predicted import CurvesTable, error_tables

        line = _find_ranked(self.results, name)
        log = self.results.log
        assert log is not None
        trials = LearnerSession(log).trials(line.configuration.protocol)
        tables = error_tables(model_evidence(log, trials, line.configuration, line.result))
        curves = next((table.curves for table in tables if isinstance(table, CurvesTable)), ())
        return pictures.draw_figure(pictures.forgetting_curve_chart(curves))


class _Findings(list["Finding"]):
    """Answers, as a notebook shows them."""

    def __repr__(self) -> str:
        return "\n".join(
            f"{finding.subject}: {' '.join(sentences(finding)[:1])}" for finding in self
        )

    def _repr_html_(self) -> str:
        return _render_html_table(
            (finding.question, finding.subject, " ".join(sentences(finding))) for finding in self
        )


def _canonical_name(name: str) -> str:
    """Return the configuration's name for a name or alias; an unknown name is unchanged."""
    try:
        return resolve_configurations([name])[0].name
    except (InputError, AttributeError):  # not a string
        return name


def _render_html_table(rows: Iterable[Iterable[str]]) -> str:
    lines = []
    for row in rows:
        cells = "".join(f"<td>{escape(cell)}</td>" for cell in row)
        lines.append(f"<tr>{cells}</tr>")
    return f"<table>{''.join(lines)}</table>"


def _find_ranked(results: Results, name: str) -> RankedResult:
    """Return the line of a configuration in the ranking."""
    canonical = results[name].configuration
    return next(
        line
        for group in results.groups
        for line in group.lines
        if line.configuration.name == canonical
    )


def flatten_intervals(intervals: Mapping[str, object], *figures: str) -> dict[str, float]:
    """Return figures of intervals as columns: NAME is the estimate; nan if there is none."""
    columns = {}
    for name, interval in intervals.items():
        for figure in figures:
            column = name if figure == "estimate" else f"{name}_{figure}"
            columns[column] = math.nan if interval is None else getattr(interval, figure)
    return columns


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
    models: ModelArgument = (),
    equivalence: float = EQUIVALENCE_MARGIN,
    context: Context | None = None,
) -> _Findings:
    """Answer questions about presets, each with sentences and frames (`advice.questions`).

    `parameters` are your own lists of parameters to compare, by name; `predictions` is a CSV or
    parquet file with external predictions. `models`, as `evaluate` takes them, are evaluated and
    compared like external predictions, too. Raises InputError and NotEnoughData
    (srs_eval.data.errors).
    """
    from srs_eval.advice import questions as advice_questions

    _check_types(log, context=context, predictions=predictions)
    if isinstance(questions, Iterator):
        questions = [*questions]
    if not isinstance(questions, str):
        check_texts("questions", "a question's name or a list of such names", questions)
    if parameters is not None:
        check_mapping("parameters", _NUMBER_LISTS, parameters)
        if not all(map(is_list_of_numbers, parameters.values())):
            raise argument_error("parameters", _NUMBER_LISTS, parameters)
    check_number("equivalence", equivalence, "a number of 0 or more", least=0)
    names = resolve_names(models)
    if names:
        results = evaluate(log, names, context=context)
        external_predictions = {
            **log.external_predictions,
            **_predictions_from_results(log, results),
        }
        log = replace(log, external_predictions=external_predictions)
    if isinstance(questions, str):
        questions = advice_questions.default_questions(log) if questions == "all" else (questions,)
    findings = advice_questions.compare(
        log,
        questions=questions,
        parameters=parameters,
        predictions=None if predictions is None else Path(predictions),
        equivalence=equivalence,
        context=context,
    )
    return _Findings(findings)


def _predictions_from_results(log: ReviewLog, results: Results) -> dict[str, ExternalPredictions]:
    """Convert results into external predictions of a log: one for each entry, nan for none.

    Raises InputError if a configuration has failed.
    """
    for name, reason in results.failed.items():
        raise InputError(f"{name} has failed: {reason}")
    entry_index = select_rows(log, "benchmark").entry_index
    predictions = {}
    for name, result in results.items():
        p = np.full(len(log.entries or log.rows or ()), np.nan)
        p[entry_index[result.review_th - 1]] = result.p
        predictions[name] = ExternalPredictions(p, "evaluated in this notebook")
    return predictions


def resolve_names(models: ModelArgument) -> list[str]:
    """Return names as `resolve_configurations` takes them, after registering Model objects.

    Raises InputError for anything that is neither a name nor a Model.
    """
    if isinstance(models, str):
        models = models.split(",")
    elif not isinstance(models, Iterable):
        models = [models]
    names = []
    for model in models:
        if isinstance(model, Model):
            names.append(add_model(model))
        elif isinstance(model, str):
            names.append(model)
        else:
            raise InputError(
                f"The models are names or Model objects; {describe_value(model)} is neither."
            )
    return names


def refuse_in_memory(configurations: Iterable[Configuration], other_remedy: str = "") -> None:
    """Raise InputError if a model was made in the notebook: worker processes do not know it."""
    if any(configuration.model.file == IN_MEMORY for configuration in configurations):
        raise InputError(
            "A model made in a notebook cannot be sent to worker processes: "
            f"{other_remedy}write it to a file and use what srs_eval.models.load_model_file "
            "returns."
        )


_ARGUMENT_TYPES: Mapping[str, tuple[tuple[type, ...], str]] = {
    "log": ((ReviewLog,), "what srs_eval.load returns"),
    "protocol": ((Protocol, type(None)), "an srs_eval.Protocol"),
    "context": ((Context, type(None)), "an srs_eval.Context"),
    "reference": ((str,), "the name of a configuration"),
    "predictions": ((str, PathLike, type(None)), A_FILE),
    "features": ((str, PathLike, type(None)), A_FILE),
}
"""The types of arguments that are easily confused, each with its description."""


def _check_types(log: object, **arguments: object) -> None:
    """Raise InputError if an argument is of another type than _ARGUMENT_TYPES says."""
    for name, value in {"log": log, **arguments}.items():
        types, description = _ARGUMENT_TYPES[name]
        check_type(name, description, value, *types)


def training_log(weights: str | Path) -> pandas.DataFrame:
    """Return the losses of a pretraining from its file of weights: a row per epoch, from 1.

    `loss` is the mean log loss during the epoch, and `held_out_loss` is the log loss after it on
    learners outside the training data; nan where the model recorded none. `attrs` of the frame are
    the settings of the training. Raises InputError for a file that is not from
    `srs-eval models pretrain`.
    """
    from srs_eval.training.networks import read_pretrained_file

    check_path("weights", A_FILE, weights)
    require("pandas", "A frame")
    import pandas as pd

    file = read_pretrained_file(Path(weights).expanduser())
    losses = [(epoch.loss, epoch.held_out_loss) for epoch in file.epochs]
    index = pd.RangeIndex(1, len(losses) + 1, name="epoch")
    frame = pd.DataFrame(losses, index, ["loss", "held_out_loss"], dtype="float64")
    frame.attrs = dict(file.settings)
    return frame


def schedulability(
    log: ReviewLog,
    models: ModelArgument = "fast",
    protocol: Protocol | None = None,
    *,
    desired_retentions: Sequence[float] = DESIRED_RETENTIONS,
    histories: int = MAX_HISTORIES,
    context: Context | None = None,
    features: str | Path | None = None,
) -> dict[str, Schedulability]:
    """Measure whether models could schedule a learner's cards, by configuration name.

    The answer to each of at most `histories` reviews, evenly spread over time, is replaced by each
    of the four buttons; each model is asked when recall will then fall to the
    `desired_retentions`. A `Schedulability` has shares of reviews (0-1): of inverted buttons, of
    retentions that are never reached or reached twice, of rising curves, and of intervals under a
    minute or more than five times the last one. Intervals are days. Definitions and sources:
    docs/schedulability.md.

    `models` are as `evaluate` takes them. Left out are models that no scheduler could ask: those
    that learn from every answer (online models), and external predictions. Parameters are those of
    the last fold. Raises InputError, also if none of the models can be measured.
    """
    _check_types(log, protocol=protocol, context=context, features=features)
    check_numbers("desired_retentions", _RETENTIONS, desired_retentions)
    if not len(desired_retentions) or not all(0 < desired < 1 for desired in desired_retentions):
        raise argument_error("desired_retentions", _RETENTIONS, desired_retentions)
    check_whole_number("histories", histories, "a number of reviews, at least 1", least=1)
    configurations = resolve_configurations(resolve_names(models), protocol)
    context = context or Context()
    if features is not None:
        context = replace(context, features=Path(features).absolute())
    measurements = measure_configurations(
        LearnerSession(add_features(log, context.features)),
        configurations,
        context,
        desired_retentions=desired_retentions,
        max_histories=histories,
    )
    measured = {}
    reasons = []
    for measurement in measurements:
        if measurement.schedulability is not None:
            measured[measurement.configuration.name] = measurement.schedulability
        else:
            words = measurement.configuration.words
            reasons.append(f"{words}: {describe_measurement(measurement)}")
    if not measured:
        raise InputError(f"No model can be asked for intervals: {'; '.join(reasons)}.")
    return measured


def evaluate(
    log: ReviewLog,
    models: ModelArgument = "fast",
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
    """Evaluate models on a review log, together with external `predictions` of a file.

    `models` are names, aliases, groups, and objects such as those of `srs_eval.models.adapters`.
    AVG is also evaluated, as the baseline. Other configurations are compared with `reference` as
    well as with the best. `features` is a table about cards or notes (`Trials.features`).

    `jobs` is the number of worker processes, 0 for none; scripts that set it need the usual
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
    configurations = resolve_configurations(resolve_names(models), protocol)
    if jobs:
        refuse_in_memory(configurations, "leave `jobs` out, or ")
    if features is not None:
        context = replace(context or Context(), features=Path(features).absolute())
    log = add_predictions_file(log, None if predictions is None else Path(predictions))
    configurations = add_external_configurations(configurations, log, protocol or Protocol())
    evaluated = add_baselines(configurations, excludes_deleted=log.skips_deleted_cards)
    reference_name = resolve_configurations(reference, protocol)[0].name
    run = Run.from_configurations(evaluated, reference=reference_name)
    for event in engine_evaluate(
        log, evaluated, protocol, jobs=jobs, context=context, use_cache=use_cache
    ):
        if on_event is not None:
            on_event(event)
        elif isinstance(event, Checking):
            say(describe_leak_check([event.configuration.words]))
        run.apply(event)
    requested = {configuration.name for configuration in configurations}
    results = {
        line.configuration.name: line.result
        for line in run.ranked_results()
        if line.configuration.name in requested
    }
    failed = {name: model.reason for name, model in run.failed.items() if name in requested}
    skipped = {name: model.reason for name, model in run.skipped.items() if name in requested}
    return Results(run.groups(), results, failed, skipped, log)
