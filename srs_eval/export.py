"""Results of one learner as documents: ranking, JSON and CSV (layouts: docs/formats.md)."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from srs_eval import __version__
from srs_eval.configurations import Configuration, listed_names, resolve
from srs_eval.engine import Event, Failed, Finished, Prepared, Skipped
from srs_eval.models import all_models
from srs_eval.protocol import Protocol
from srs_eval.results import Result
from srs_eval.reviews import ReviewLog

JSON_LAYOUT = 1
METRICS = (
    "LogLoss",
    "RMSE(bins)",
    "AUC",
    "RMSE",
    "MBE",
    "ICI",
    "smECE",
    "precision@90",
    "recall@90",
)
CSV_COLUMNS = (
    "table",
    "rank",
    "configuration",
    "model",
    "parameters",
    "status",
    "reason",
    "size",
    *METRICS,
    "log_loss_against_avg_percent",
    "seconds",
)


@dataclass
class Outcome:
    """What a run has brought so far; `add` takes the engine's events."""

    configurations: Sequence[Configuration]
    prepared: Prepared | None = None
    results: dict[str, Result] = field(default_factory=dict)
    failed: dict[str, Failed] = field(default_factory=dict)
    skipped: dict[str, Skipped] = field(default_factory=dict)

    def add(self, event: Event) -> None:
        match event:
            case Prepared():
                self.prepared = event
            case Finished():
                self.results[event.configuration.name] = event.result
            case Failed():
                self.failed[event.configuration.name] = event
            case Skipped():
                self.skipped[event.configuration.name] = event


@dataclass(frozen=True)
class Ranked:
    """One line of the ranking."""

    rank: int
    configuration: Configuration
    result: Result
    against_average: float | None
    """Log loss against AVG's on the same rows, in percent; negative is better."""


def ranking(outcome: Outcome) -> dict[str, list[Ranked]]:
    """Finished configurations by table (same judged rows), least log loss first."""
    tables: dict[str, list[Configuration]] = {}
    for configuration in outcome.configurations:
        if configuration.name in outcome.results:
            tables.setdefault(configuration.table, []).append(configuration)
    ranked: dict[str, list[Ranked]] = {}
    for table in sorted(tables, key=lambda word: (word != "days", word)):
        members = sorted(
            tables[table],
            key=lambda each: (outcome.results[each.name].metrics.log_loss, each.name),
        )
        average = next(
            (outcome.results[each.name] for each in members if each.model.name == "AVG"), None
        )
        ranked[table] = [
            Ranked(place, each, result, _against(result, average))
            for place, each in enumerate(members, start=1)
            for result in (outcome.results[each.name],)
        ]
    return ranked


def _against(result: Result, average: Result | None) -> float | None:
    if average is None or average.size != result.size or not average.metrics.log_loss > 0:
        return None
    return 100 * (result.metrics.log_loss / average.metrics.log_loss - 1)


def run_document(
    log: ReviewLog,
    outcome: Outcome,
    protocol: Protocol,
    *,
    hidden: Iterable[str] = (),
    deck: str | None = None,
    preset: str | None = None,
) -> dict[str, Any]:
    """Everything about a run but the predictions, as JSON-ready values.

    `hidden` configurations were evaluated for comparison only and are left out.
    """
    hidden = set(hidden)
    prepared = outcome.prepared
    return {
        "layout": JSON_LAYOUT,
        "srs_eval": __version__,
        "source": {
            "path": log.receipt.path,
            "format": log.receipt.format,
            "user": log.user,
            "entries": log.receipt.entries_read,
            "day_boundaries": None if log.day_grid is None else log.day_grid.source,
            "deck": deck,
            "preset": preset,
            "reviews": prepared.reviews if prepared else None,
            "judged": prepared.judged if prepared else None,
        },
        "protocol": _flags(protocol),
        "results": [
            {
                "table": table,
                "rank": line.rank,
                "configuration": line.configuration.name,
                "model": line.configuration.model.name,
                "parameter_count": line.configuration.parameters,
                **line.result.to_upstream(),
                "log_loss_against_avg_percent": _rounded(line.against_average, 3),
                "seconds": round(line.result.seconds, 6),
                "cached": line.result.cached,
                "notes": list(line.result.notes),
            }
            for table, lines in ranking(outcome).items()
            for line in lines
            if line.configuration.name not in hidden
        ],
        "failed": [
            {"configuration": name, "reason": event.reason, "detail": event.detail}
            for name, event in outcome.failed.items()
            if name not in hidden
        ],
        "skipped": [
            {"configuration": name, "reason": event.reason}
            for name, event in outcome.skipped.items()
            if name not in hidden
        ],
    }


def models_document() -> dict[str, Any]:
    """Every configuration that `srs-eval models` lists, the extra ones too."""
    names = [name for model in all_models().values() for name in listed_names(model)]
    configurations = [each for name in names for each in resolve([name])]
    return {
        "layout": JSON_LAYOUT,
        "srs_eval": __version__,
        "models": [
            {
                "configuration": each.name,
                "model": each.model.name,
                "family": each.model.family,
                "inputs": each.model.inputs,
                "parameters": each.parameters,
                "trained": each.fit != "default"
                and (each.model.trained or each.model.online is not None)
                and each.parameters > 0,
                "in_all": not each.model.extra,
                "table": each.table,
                "aliases": sorted(
                    alias for alias, name in each.model.aliases.items() if name == each.name
                ),
                "source": each.model.source,
                "seconds_per_10k": each.expected_seconds_per_10k,
                "version": each.model.version,
                "note": each.model.note,
            }
            for each in configurations
        ],
    }


def to_json(document: Any) -> str:
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def run_csv(document: Mapping[str, Any], configurations: Sequence[Configuration]) -> str:
    """The results of `run_document` as a table, with a line for each failure and skip."""
    by_name = {each.name: each for each in configurations}
    text = io.StringIO()
    writer = csv.DictWriter(text, CSV_COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    for result in document["results"]:
        line = {key: value for key, value in result.items() if key in CSV_COLUMNS}
        line["parameters"] = result["parameter_count"]
        metrics = {key: result["metrics"].get(key) for key in METRICS}
        writer.writerow({**line, **metrics, "status": "done"})
    for status in ("failed", "skipped"):
        for entry in document[status]:
            configuration = by_name[entry["configuration"]]
            writer.writerow(
                {
                    "table": configuration.table,
                    "configuration": configuration.name,
                    "model": configuration.model.name,
                    "parameters": configuration.parameters,
                    "status": status,
                    "reason": entry["reason"],
                }
            )
    return text.getvalue()


def _flags(protocol: Protocol) -> dict[str, Any]:
    """Flags that a person can set; those of single models are left out."""
    return {
        name: value
        for name, value in asdict(protocol).items()
        if name not in ("known_decks_only", "later_days_only")
    }


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)
