"""Results of one learner as documents: ranking, JSON and CSV (layouts: docs/formats.md)."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from srs_eval.data.dataset_hub import Description
from srs_eval.data.errors import counted, csv_text, escaped, missing
from srs_eval.data.paths import VERSION
from srs_eval.data.protocol import Protocol
from srs_eval.data.reviews import ReviewLog
from srs_eval.engine.ranking import Group, Ranked
from srs_eval.engine.run import ModelRun, Run
from srs_eval.metrics import KEYS
from srs_eval.models import Context, Model, all_models
from srs_eval.models.configurations import Configuration, Names, listed_names, resolve
from srs_eval.models.own_parameters import is_in_anki
from srs_eval.models.published import spelled
from srs_eval.report.console import spans
from srs_eval.report.document import Column, Document, Figure, Table, figure
from srs_eval.report.formats import THAN_AVERAGE, against_baseline, better
from srs_eval.stats.intervals import Interval

_FIRST = 10  # models of a ranking that is not unfolded
_HEAD = {"layout": 2, "srs_eval": VERSION}
# Columns from which a terminal shows the more of a ranking.
_WIDE, _PLAIN, _BROAD = 115, 80, 70
DIFFERENCES = ("to_best", "to_baseline", "to_reference")
_OF_MODELS = {"model": ("configuration", "file"), "other": ("other_configuration", "other_file")}
"""What stands beside columns of labels in files for programs."""
_CSV_COLUMNS = (
    *("group", "place", "configuration", "words", "model"),
    *("parameters", "status", "reason", "size"),
    *KEYS,
    *("log_loss_half_width", "standing"),
    *(column for name in DIFFERENCES for column in (name, f"{name}_half_width")),
    *("against_baseline_percent", "seconds"),
)


def run_document(
    log: ReviewLog,
    run: Run,
    protocol: Protocol,
    *,
    deck: str | None = None,
    preset: str | None = None,
    names: Names = "2025",
) -> dict[str, Any]:
    """Everything about a run but the predictions, as JSON-ready values; names as of a year."""
    groups = run.groups()
    return {
        **_HEAD,
        "source": {
            "path": log.import_summary.path,
            "format": log.import_summary.format,
            "user": log.user,
            "entries": log.import_summary.entries_read,
            "repeated": log.import_summary.repeated,
            "day_boundaries": None if log.day_grid is None else log.day_grid.source,
            "deck": deck,
            "preset": preset,
            "reviews": run.reviews,
            "evaluated": run.evaluated,
        },
        "protocol": _flags(protocol),
        "groups": [_group(group, run.reference, names) for group in groups],
        "results": [
            _ranked(number, line, names)
            for number, group in enumerate(groups)
            for line in group.lines
            if line.configuration.name not in run.hidden
        ],
        "failed": _missing(run.failed, run, names, ("reason", "detail")),
        "skipped": _missing(run.skipped, run, names, ("reason",)),
    }


def _missing(
    models: Mapping[str, ModelRun], run: Run, names: Names, said: Iterable[str]
) -> list[dict[str, Any]]:
    return [
        {"configuration": spelled(name, names), **{key: getattr(model, key) for key in said}}
        for name, model in models.items()
        if name not in run.hidden
    ]


def _group(group: Group, reference: str, names: Names) -> dict[str, Any]:
    there = {line.configuration.name for line in group.lines}
    baseline = None
    if group.baseline is not None:
        loss = group.baseline.log_loss
        baseline = {
            "configuration": spelled(group.baseline.configuration.name, names),
            "log_loss": _rounded(loss.estimate),
            "half_width": _rounded(loss.half_width),
        }
    return {
        "title": group.title,
        "reviews": group.reviews,
        "is_online": group.learns,
        "is_shared": group.is_shared,
        "best": spelled(group.best.configuration.name, names) if group.best else None,
        "baseline": baseline,
        "reference": spelled(reference, names) if reference in there else None,
        "answer": group.answer,
    }


def _ranked(group: int, line: Ranked, names: Names) -> dict[str, Any]:
    configuration, share = line.configuration, line.against_baseline
    training = {  # what of it is not as published, and where that is from; nothing as a rule
        "hyperparameters": dict(configuration.hyperparameters),
        "ledger": configuration.ledger,
    }
    return {
        "group": group,
        "place": line.place,
        "configuration": spelled(configuration.name, names),
        "words": configuration.words,
        "model": configuration.model.name,
        "parameter_count": line.parameters,
        **(training if configuration.ledger else {}),
        **line.result.to_upstream(),
        "log_loss_half_width": _rounded(line.log_loss.half_width),
        "standing": line.standing,
        "in_sample_reviews": line.result.in_sample,
        "reviews_left_out": line.result.lacks,
        "predictions_unused": line.result.unused,
        **{name: _difference(getattr(line, name)) for name in DIFFERENCES},
        "against_baseline_percent": None if share is None else _rounded(100 * share, 3),
        "seconds": round(line.result.seconds, 6),
        "cached": line.result.cached,
        "notes": list(line.result.notes),
    }


def _difference(interval: Interval | None) -> dict[str, float | None] | None:
    if interval is None:
        return None
    return {"difference": _rounded(interval.estimate), "half_width": _rounded(interval.half_width)}


def dataset_document(found: Description) -> dict[str, Any]:
    """What `srs-eval dataset info` found."""
    return {
        **_HEAD,
        "folder": str(found.folder),
        "data_set": found.layout,
        "users": len(found.users),
        "reviews": {
            str(user): int(count) if count >= 0 else None
            for user, count in zip(found.users, found.reviews, strict=True)
        },
        "bytes": dict(found.table_bytes),
        "without": {table: list(users) for table, users in found.without.items()},
        "gaps": [list(gap) for gap in found.gaps],
    }


def dataset_lines(found: Description) -> list[str]:
    """A data set in a few lines of plain text."""
    layout = "anki-revlogs-10k" if found.layout == "parquet" else "FSRS-Anki-20k"
    lines = [
        f"{found.folder}: {found.layout} in the layout of {layout}",
        f"users     {len(found.users):,}, {found.users[0]} to {found.users[-1]}",
    ]
    known = sorted(found.known_reviews.tolist())
    if known:
        lines.append(
            f"reviews   {sum(known):,}; a user {known[0]:,} to {known[-1]:,}, half have "
            f"{known[len(known) // 2]:,} or more"
        )
    sizes = [f"{name} {size / 1e6:,.1f} MB" for name, size in found.table_bytes.items() if size]
    lacking = []
    if unread := len(found.users) - len(known):
        lacking.append(
            f"{counted(unread, 'user')} whose file cannot be read (`srs-eval dataset verify`)"
        )
    for table, users in found.without.items():
        if users:
            whose = "all users" if len(users) == len(found.users) else counted(len(users), "user")
            lacking.append(f"{table} of {whose}")
    if found.gaps:
        lacking.append(f"the ids {spans(found.gaps)}")
    missing = "; ".join(lacking) or "nothing"
    return [*lines, f"on disk   {', '.join(sizes)}", f"missing   {missing}"]


def models_document(names: Iterable[str] = ()) -> dict[str, Any]:
    """Every listed configuration of the models that are named; without names, of all."""
    wanted = {each.model.name for each in resolve(names)} if names else set(all_models())
    configurations = [
        each
        for model in all_models().values()
        if model.name in wanted
        for name in listed_names(model)
        for each in resolve([name])
    ]
    return {
        **_HEAD,
        "models": [
            {
                "configuration": each.name,
                "words": each.words,
                "title": each.title,
                "model": each.model.name,
                "family": each.model.family,
                "inputs": each.model.inputs,
                "parameters": each.count_parameters(Context()),
                "trained": _is_trained(each),
                "in_all": not each.model.extra,
                "is_online": each.learns,
                "evaluated_on": each.rows_in_words,
                "aliases": sorted(
                    alias for alias, name in each.model.aliases.items() if name == each.name
                ),
                "source": each.model.source,
                "file": _source_file(each.model),
                "needs": _needs(each.model),
                "seconds_per_10k": each.expected_seconds_per_10k,
                "version": each.model.version,
                "note": each.model.note,
            }
            for each in configurations
        ],
    }


def _is_trained(configuration: Configuration) -> bool:
    """Whether anything is fitted to the learner, by a fit or while it is evaluated."""
    model = configuration.model
    learns = model.online is not None and model.parameters > 0
    return configuration.fit != "default" and (model.trained or learns)


def _needs(model: Model) -> str:
    """What it cannot do without and is not there; "" for nothing."""
    if model.weights is not None and not model.weights(Context()):
        from srs_eval.models.rwkv import NEEDED

        return NEEDED
    return missing(model.needs)


def _source_file(model: Model) -> str:
    """Where a model's formula stands: "srs_eval/models/fsrs6.py"."""
    if model.file is not None:
        return str(model.file.path)
    home = next(
        module
        for name, module in sys.modules.items()
        if name.startswith("srs_eval.models.") and model in getattr(module, "MODELS", ())
    )
    return f"{home.__name__.replace('.', '/')}.py"


def report_document(document: Document) -> dict[str, Any]:
    """Title, lead and every table: a list of objects by column; no figure is null."""
    tables = {}
    for table in document.tables():
        header, *rows = plain_rows(table, document.names)
        objects = [dict(zip(header, row, strict=True)) for row in rows]
        tables[table.name] = {"title": table.title, "rows": objects}
    about = {"title": document.title, "lead": list(document.lead), "tables": tables}
    return {"layout": 2 if document.names else 1, "srs_eval": VERSION, **about}


def plain_rows(table: Table, names: Mapping[str, tuple[str, str]]) -> list[tuple[Any, ...]]:
    """A header and the rows; a column with intervals is followed by half-widths or both ends.

    `names` are the document's: columns that begin with "model" and "other" have configurations
    beside them then.
    """
    columns: list[list[Any]] = []
    unique = len({configuration for configuration, _ in names.values()}) == len(names)

    def called(column: Column, more: str = "") -> str:
        if not names:
            return f"{column.title} {more}".rstrip()
        if column.title in names:
            said = [names[column.title][0] if unique else column.title]
        else:
            said = re.findall(r"\w+", (column.key or column.title).lower())
        return "_".join([*said, *re.findall(r"\w+", more)])

    for k, column in enumerate(table.columns):
        cells = [row[k] for row in table.rows]
        figures = [cell if isinstance(cell, Figure) else Figure(math.nan) for cell in cells]
        if names and column.title in _OF_MODELS:
            found = [names.get(str(cell), (None, None)) for cell in cells]
            of_model = enumerate(_OF_MODELS[column.title])
            columns += ([name, *(each[place] for each in found)] for place, name in of_model)
        values = (_digits(cell.value) if isinstance(cell, Figure) else cell for cell in cells)
        columns.append([called(column), *values])
        more: dict[str, list[float]] = {}
        if any(each.ends is not None for each in figures):
            ends = zip(*(each.ends or (math.nan, math.nan) for each in figures), strict=True)
            more = dict(zip(("low", "high"), map(list, ends), strict=True))
        elif not all(math.isnan(each.half_width) for each in figures):
            more = {"half-width": [each.half_width for each in figures]}
        columns += ([called(column, name), *map(_digits, more[name])] for name in more)
    return list(zip(*columns, strict=True))


def _digits(value: float) -> float | None:
    return None if math.isnan(value) else float(f"{value:.10g}")


def to_json(document: Any) -> str:
    return escaped(json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False)) + "\n"


def run_csv(
    document: Mapping[str, Any], configurations: Sequence[Configuration], names: Names = "2025"
) -> str:
    """The results of `run_document` as a table, with a line for each failure and skip."""
    by_name = {spelled(each.name, names): each for each in configurations}
    lines: list[Mapping[str, Any]] = []
    for result in document["results"]:
        line = {key: value for key, value in result.items() if key in _CSV_COLUMNS}
        line["parameters"] = result["parameter_count"]
        for name in DIFFERENCES:
            difference = result[name] or {}
            line[name] = difference.get("difference")
            line[f"{name}_half_width"] = difference.get("half_width")
        metrics = {key: result["metrics"].get(key) for key in KEYS}
        lines.append({**line, **metrics, "status": "done"})
    for status in ("failed", "skipped"):
        for entry in document[status]:
            known = by_name[entry["configuration"]]
            about = {"words": known.words, "model": known.model.name}
            lines.append({**entry, **about, "parameters": known.parameters, "status": status})
    return csv_text([_CSV_COLUMNS, *(map(line.get, _CSV_COLUMNS) for line in lines)])


def ranking_table(group: Group, own: int | None = None) -> Table:
    """The ranking on one set of reviews, the baseline as a line between the places.

    In brief the best ten, the baseline and the reader's `own` line.
    """
    to_best = Column(
        "to the best",
        in_words=lambda cell: better(Interval(cell.value, cell.half_width)),
        note="paired difference in log loss",
        minor=True,
        from_width=_WIDE,
    )
    than_average = Column(
        THAN_AVERAGE,
        in_words=lambda cell: against_baseline(cell.value).strip(),
        note="how much less or more log loss than the average has",
        minor=True,
        from_width=_PLAIN,
    )
    heads = (
        Column("model", gives="fold"),
        Column("place", from_width=52),
        Column("log loss", by_half_width=False, note="with its 95 % interval over days"),
        to_best,
        Column("RMSE(bins)", 2, percent=True, minor=True, from_width=_BROAD),
        Column("AUC", 3, minor=True, from_width=_BROAD),
        than_average,
        Column("parameters", minor=True, from_width=_WIDE),
        Column("verdict", from_width=50, gives="fold"),
        Column("Anki", note="whether Anki can schedule with it", from_width=_WIDE),
    )
    rows = (
        (
            *(line.configuration.words, line.place, figure(line.log_loss, line.place == 1)),
            *(figure(line.to_best), figure(line.result.metrics.rmse_bins)),
            *(figure(line.result.metrics.auc), figure(line.against_baseline)),
            *(line.parameters, line.verdict_words),
            "✓" if is_in_anki(line.configuration) else "",
        )
        for line in group.lines
    )
    faint = tuple(k for k, line in enumerate(group.lines) if line.is_baseline)
    brief = tuple(sorted({*range(min(_FIRST, len(group.lines))), *faint, *({own} - {None})}))
    return Table.of("ranking", group.title, heads, rows, faint=faint, own=own, brief=brief)


def _flags(protocol: Protocol) -> dict[str, Any]:
    """Flags that a person can set; those of single models are left out."""
    return {
        name: value
        for name, value in asdict(protocol).items()
        if name not in ("known_decks_only", "later_days_only")
    }


def _rounded(value: float, digits: int = 6) -> float | None:
    """None for what is not defined, such as the interval of a single review."""
    return round(value, digits) if math.isfinite(value) else None
