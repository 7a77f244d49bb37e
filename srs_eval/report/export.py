"""Convert one learner's results into documents: ranking, JSON, CSV (see docs/formats.md)."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from srs_eval.data.dataset_hub import DatasetDescription
from srs_eval.data.errors import escape_json, format_count, format_csv, install_hint
from srs_eval.data.paths import VERSION
from srs_eval.data.protocol import Protocol
from srs_eval.data.reviews import ReviewLog
from srs_eval.engine.ranking import RankedResult, RankingGroup
from srs_eval.engine.run import ModelRun, Run
from srs_eval.engine.schedulability import Measurement
from srs_eval.metrics import METRIC_BY_KEY
from srs_eval.models import Context, Model, OnlineModel, all_models
from srs_eval.models.configurations import (
    Configuration,
    list_names,
    resolve_configurations,
)
from srs_eval.models.published import NamingYear, to_upstream_name
from srs_eval.report.document import Document
from srs_eval.report.formats import format_ranges
from srs_eval.report.ranking_columns import REPORT_COLUMNS, make_schedulability_column
from srs_eval.report.ranking_words import format_group_title, summarize_ranking
from srs_eval.stats.intervals import Interval
from srs_eval.stats.tables import Column, Figure, Table

_BRIEF_RANKING_LENGTH = 10  # best models that a brief ranking shows
_HEADER = {"layout": 2, "srs_eval": VERSION}
DIFFERENCE_FIELDS = ("to_best", "to_baseline", "to_reference")
_MODEL_COLUMNS = {
    "model": ("configuration", "file"),
    "other": ("other_configuration", "other_file"),
}
"""Columns with configuration and file that files for programs add before columns of labels."""
_CSV_COLUMNS = (
    "group",
    "place",
    "configuration",
    "words",
    "model",
    "parameters",
    "status",
    "reason",
    "size",
    *METRIC_BY_KEY,
    "log_loss_half_width",
    "standing",
    *(column for name in DIFFERENCE_FIELDS for column in (name, f"{name}_half_width")),
    "against_baseline_percent",
    "seconds",
)


def build_run_document(
    log: ReviewLog,
    run: Run,
    protocol: Protocol,
    *,
    deck: str | None = None,
    preset: str | None = None,
) -> dict[str, Any]:
    """Return everything about a run except the predictions, as JSON-ready values."""
    groups = run.groups()
    return {
        **_HEADER,
        "source": {
            "path": log.import_summary.path,
            "format": log.import_summary.format,
            "user": log.user,
            "entries": log.import_summary.entries_read,
            "repeated": log.import_summary.repeated,
            "day_boundaries": None if log.day_grid is None else log.day_grid.description,
            "deck": deck,
            "preset": preset,
            "reviews": run.reviews,
            "evaluated": run.evaluated,
        },
        "protocol": _visible_flags(protocol),
        "groups": [_make_group_entry(group, run.reference) for group in groups],
        "results": [
            _make_result_entry(number, line)
            for number, group in enumerate(groups)
            for line in group.lines
            if line.configuration.name not in run.hidden_configurations
        ],
        "failed": _make_unevaluated_entries(run.failed, run, ("reason", "detail")),
        "skipped": _make_unevaluated_entries(run.skipped, run, ("reason",)),
    }


def spell_names(document: Mapping[str, Any], year: NamingYear) -> dict[str, Any]:
    """Return a document of `build_run_document` with the configurations' names of a year."""

    def spell(name: str | None) -> str | None:
        return None if name is None else to_upstream_name(name, year)

    def spell_entry(entry: Mapping[str, Any]) -> dict[str, Any]:
        return {**entry, "configuration": spell(entry["configuration"])}

    spelled = dict(document)
    spelled["groups"] = []
    for group in document["groups"]:
        baseline = group["baseline"]
        spelled_group = {
            **group,
            "best": spell(group["best"]),
            "baseline": None if baseline is None else spell_entry(baseline),
            "reference": spell(group["reference"]),
        }
        spelled["groups"].append(spelled_group)
    for key in ("results", "failed", "skipped"):
        spelled[key] = [spell_entry(entry) for entry in document[key]]
    return spelled


def _make_unevaluated_entries(
    models: Mapping[str, ModelRun], run: Run, keys: Iterable[str]
) -> list[dict[str, Any]]:
    return [
        {
            "configuration": name,
            **{key: getattr(model, key) for key in keys},
        }
        for name, model in models.items()
        if name not in run.hidden_configurations
    ]


def _make_group_entry(group: RankingGroup, reference: str) -> dict[str, Any]:
    names_in_group = {line.configuration.name for line in group.lines}
    baseline = None
    if group.baseline is not None:
        loss = group.baseline.log_loss
        baseline = {
            "configuration": group.baseline.configuration.name,
            "log_loss": _round_or_none(loss.estimate),
            "half_width": _round_or_none(loss.half_width),
        }
    return {
        "title": format_group_title(group),
        "reviews": group.reviews,
        "is_online": group.is_online,
        "is_shared": group.is_on_shared_reviews,
        "best": group.best.configuration.name if group.best else None,
        "baseline": baseline,
        "reference": reference if reference in names_in_group else None,
        "answer": summarize_ranking(group),
    }


def _make_result_entry(group_number: int, line: RankedResult) -> dict[str, Any]:
    configuration = line.configuration
    share = line.relative_to_baseline
    training = {  # deviations from the published training and their source; usually none
        "hyperparameters": dict(configuration.hyperparameters),
        "ledger": configuration.ledger,
    }
    return {
        "group": group_number,
        "place": line.rank,
        "configuration": configuration.name,
        "words": configuration.words,
        "model": configuration.model.name,
        "parameter_count": line.parameter_count,
        **(training if configuration.ledger else {}),
        **line.result.to_upstream(),
        "log_loss_half_width": _round_or_none(line.log_loss.half_width),
        "standing": line.standing,
        "in_sample_reviews": line.result.in_sample_reviews,
        "reviews_left_out": line.result.missing_predictions,
        "predictions_unused": line.result.unused_predictions,
        **{name: _make_difference_entry(getattr(line, name)) for name in DIFFERENCE_FIELDS},
        "against_baseline_percent": None if share is None else _round_or_none(100 * share, 3),
        "seconds": round(line.result.seconds, 6),
        "cached": line.result.cached,
        "notes": list(line.result.notes),
    }


def _make_difference_entry(interval: Interval | None) -> dict[str, float | None] | None:
    if interval is None:
        return None
    return {
        "difference": _round_or_none(interval.estimate),
        "half_width": _round_or_none(interval.half_width),
    }


def build_dataset_document(description: DatasetDescription) -> dict[str, Any]:
    """Return the results of `srs-eval dataset info` as JSON-ready values."""
    return {
        **_HEADER,
        "folder": str(description.folder),
        "data_set": description.layout,
        "users": len(description.users),
        "reviews": {
            str(user): int(count) if count >= 0 else None
            for user, count in zip(description.users, description.review_counts, strict=True)
        },
        "bytes": dict(description.table_bytes),
        "without": {table: list(users) for table, users in description.users_without.items()},
        "gaps": [list(gap) for gap in description.id_gaps],
    }


def format_dataset(description: DatasetDescription) -> list[str]:
    """Describe a data set in lines of plain text: users, reviews, bytes and what is missing."""
    layout = "anki-revlogs-10k" if description.layout == "parquet" else "FSRS-Anki-20k"
    lines = [
        f"{description.folder}: {description.layout} in the layout of {layout}",
        f"users     {len(description.users):,}, {description.users[0]} to {description.users[-1]}",
    ]
    counts = sorted(description.known_review_counts.tolist())
    if counts:
        lines.append(
            f"reviews   {sum(counts):,}; {counts[0]:,} to {counts[-1]:,} per user, half of them "
            f"have {counts[len(counts) // 2]:,} or more"
        )
    sizes = [
        f"{name} {size / 1e6:,.1f} MB" for name, size in description.table_bytes.items() if size
    ]
    missing = []
    unread = len(description.users) - len(counts)
    if unread:
        missing.append(
            f"{format_count(unread, 'user')} whose file cannot be read (`srs-eval dataset verify`)"
        )
    for table, users in description.users_without.items():
        if not users:
            continue
        if len(users) == len(description.users):
            missing.append(f"{table} of all users")
        else:
            missing.append(f"{table} of {format_count(len(users), 'user')}")
    if description.id_gaps:
        missing.append(f"the ids {format_ranges(description.id_gaps)}")
    lines.append(f"on disk   {', '.join(sizes)}")
    lines.append(f"missing   {'; '.join(missing) or 'nothing'}")
    return lines


def build_models_document(names: Iterable[str] = ()) -> dict[str, Any]:
    """Return every listed configuration of the named models; without names, of all models."""
    if names:
        model_names = {configuration.model.name for configuration in resolve_configurations(names)}
    else:
        model_names = set(all_models())
    configurations: list[Configuration] = []
    for model in all_models().values():
        if model.name not in model_names:
            continue
        for name in list_names(model):
            configurations += resolve_configurations([name])
    return {
        **_HEADER,
        "models": [
            {
                "configuration": configuration.name,
                "words": configuration.words,
                "title": configuration.title,
                "model": configuration.model.name,
                "family": configuration.model.family,
                "inputs": configuration.model.inputs,
                "parameters": configuration.count_parameters(Context()),
                "trained": _is_trained(configuration),
                "in_all": not configuration.model.extra,
                "is_online": configuration.is_online,
                "evaluated_on": configuration.rows_description,
                "aliases": sorted(
                    alias
                    for alias, name in configuration.model.aliases.items()
                    if name == configuration.name
                ),
                "source": configuration.model.source,
                "file": _find_source_file(configuration.model),
                "needs": _find_missing_needs(configuration.model),
                "seconds_per_10k": configuration.expected_seconds_per_10k,
                "version": configuration.model.version,
                "note": configuration.model.note,
            }
            for configuration in configurations
        ],
    }


def _is_trained(configuration: Configuration) -> bool:
    """Return True if anything is fitted to the learner, by a fit or during evaluation."""
    model = configuration.model
    learns = isinstance(model, OnlineModel) and bool(model.parameters)
    return configuration.fit != "default" and (model.is_trained or learns)


def _find_missing_needs(model: Model) -> str:
    """Return the requirements of a model that are missing; "" if there are none."""
    if model.weights is not None and not model.weights(Context()):
        from srs_eval.models.rwkv import WEIGHTS_HINT

        return WEIGHTS_HINT
    return install_hint(model.needs)


def _find_source_file(model: Model) -> str:
    """Return the file with a model's formula: "srs_eval/models/fsrs6.py"."""
    if model.file is not None:
        return str(model.file.path)
    home_module = next(
        module
        for name, module in sys.modules.items()
        if name.startswith("srs_eval.models.") and model in getattr(module, "MODELS", ())
    )
    return f"{home_module.__name__.replace('.', '/')}.py"


def build_report_document(document: Document) -> dict[str, Any]:
    """Return a report's title, its lead and its tables, each as a list of objects by column.

    A missing figure is null. Only reports with `names` have layout 2 (docs/formats.md).
    """
    tables = {}
    for table in document.tables():
        header, *rows = flatten_table(table, document.names)
        objects = [dict(zip(header, row, strict=True)) for row in rows]
        tables[table.name] = {"title": table.heading, "rows": objects}
    return {
        "layout": 2 if document.names else 1,
        "srs_eval": VERSION,
        "title": document.title,
        "lead": list(document.lead),
        "tables": tables,
    }


def flatten_table(table: Table, names: Mapping[str, tuple[str, str]]) -> list[tuple[Any, ...]]:
    """Return a header and the rows; half-widths or both ends follow a column with intervals.

    `names` are the document's: with them, columns with configuration and file come before columns
    headed "model" and "other".
    """
    columns: list[list[Any]] = []
    has_unique_names = len({configuration for configuration, _ in names.values()}) == len(names)

    def heading(column: Column, suffix: str = "") -> str:
        if not names:  # a title for people
            return f"{column.title} {suffix}".rstrip()
        if column.title not in names:
            words = re.findall(r"\w+", (column.key or column.title).lower())
        elif has_unique_names:
            words = [names[column.title][0]]
        else:
            words = [column.title]
        return "_".join([*words, *re.findall(r"\w+", suffix)])

    for k, column in enumerate(table.columns):
        cells = [row[k] for row in table.rows]
        if names and column.title in _MODEL_COLUMNS:
            names_and_files = [names.get(str(cell), (None, None)) for cell in cells]
            name_heading, file_heading = _MODEL_COLUMNS[column.title]
            columns.append([name_heading, *(name for name, _ in names_and_files)])
            columns.append([file_heading, *(file for _, file in names_and_files)])
        values = [_round_figure(cell.value) if isinstance(cell, Figure) else cell for cell in cells]
        columns.append([heading(column), *values])

        figures = [cell if isinstance(cell, Figure) else Figure(math.nan) for cell in cells]
        if any(figure.ends is not None for figure in figures):
            ends = [figure.ends or (math.nan, math.nan) for figure in figures]
            lows = [_round_figure(low) for low, _ in ends]
            highs = [_round_figure(high) for _, high in ends]
            columns.append([heading(column, "low"), *lows])
            columns.append([heading(column, "high"), *highs])
        elif not all(math.isnan(figure.known_half_width) for figure in figures):
            half_widths = [_round_figure(figure.known_half_width) for figure in figures]
            columns.append([heading(column, "half-width"), *half_widths])
    return list(zip(*columns, strict=True))


def _round_figure(value: float) -> float | None:
    return None if math.isnan(value) else float(f"{value:.10g}")


def to_json(document: Any) -> str:
    """Return a document as JSON text that is safe to print in a terminal."""
    return escape_json(json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False)) + "\n"


def to_json_by_case(document: Mapping[str, Any]) -> str:
    """Return a document as JSON text with a line for each key, and for each of its "cases"."""
    lines = []
    for key, value in document.items():
        if key == "cases":
            cases = [json.dumps(case, allow_nan=False) for case in value]
            lines.append('"cases": [\n' + ",\n".join(cases) + "\n]")
        else:
            lines.append(f"{json.dumps(key)}: {json.dumps(value, allow_nan=False)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def format_run_csv(
    document: Mapping[str, Any], configurations: Sequence[Configuration], year: NamingYear = "2025"
) -> str:
    """Return the results of `build_run_document` as CSV, with a line for each failure and skip.

    Configurations have their names of the year.
    """
    configurations_by_name = {configuration.name: configuration for configuration in configurations}
    lines: list[Mapping[str, Any]] = []
    for result in document["results"]:
        line = {key: value for key, value in result.items() if key in _CSV_COLUMNS}
        line["parameters"] = result["parameter_count"]
        for name in DIFFERENCE_FIELDS:
            difference = result[name] or {}
            line[name] = difference.get("difference")
            line[f"{name}_half_width"] = difference.get("half_width")
        metrics = {key: result["metrics"].get(key) for key in METRIC_BY_KEY}
        lines.append({**line, **metrics, "status": "done"})
    for status in ("failed", "skipped"):
        for entry in document[status]:
            configuration = configurations_by_name[entry["configuration"]]
            lines.append(
                {
                    **entry,
                    "words": configuration.words,
                    "model": configuration.model.name,
                    "parameters": configuration.parameters,
                    "status": status,
                }
            )
    rows = []
    for cells in lines:
        spelled = {**cells, "configuration": to_upstream_name(cells["configuration"], year)}
        rows.append([spelled.get(column) for column in _CSV_COLUMNS])
    return format_csv([_CSV_COLUMNS, *rows])


def build_ranking_table(
    group: RankingGroup,
    own_row: int | None = None,
    measurements: Mapping[str, Measurement] | None = None,
) -> Table:
    """Return the ranking on one set of reviews, with the baseline as a line between the ranks.

    Its brief rows are the best ten, the baseline and the reader's own line, `own_row`. With
    `measurements` by configuration name, a column says whether models can schedule.
    """
    columns = list(REPORT_COLUMNS)
    if measurements is not None:
        columns.append(make_schedulability_column(measurements))
    baselines = tuple(k for k, line in enumerate(group.lines) if line.is_baseline)
    brief_rows = {*range(min(_BRIEF_RANKING_LENGTH, len(group.lines))), *baselines}
    if own_row is not None:
        brief_rows.add(own_row)
    return Table.from_rows(
        "ranking",
        format_group_title(group),
        (layout.column for layout in columns),
        ([layout.make_cell(line) for layout in columns] for line in group.lines),
        faint_rows=baselines,
        own_row=own_row,
        brief_rows=tuple(sorted(brief_rows)),
    )


def _visible_flags(protocol: Protocol) -> dict[str, Any]:
    """Return the flags that a user can set; flags of single models are left out."""
    return {
        name: value
        for name, value in asdict(protocol).items()
        if name not in ("known_decks_only", "later_days_only")
    }


def _round_or_none(value: float, digits: int = 6) -> float | None:
    """Return a rounded value; None if it is undefined, such as the interval of a single review."""
    return round(value, digits) if math.isfinite(value) else None
