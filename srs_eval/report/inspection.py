"""Summarize the import of a review log: what it contains and which entries count.

`inspect_log` computes every count, `Inspection.to_document` has the layout of
`srs-eval inspect --json`, `console.render_inspection` makes the tables for a terminal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from srs_eval.advice.sentences import format_day, format_parameters
from srs_eval.data.errors import format_count
from srs_eval.data.paths import VERSION
from srs_eval.data.reviews import MISSING, Deck, IntArray, Preset, ReviewLog
from srs_eval.data.rows import RowKind, Selection, find_first_date, select_rows
from srs_eval.models.own_parameters import (
    explain_left_out_presets,
    find_preset_fault,
    version_name,
    why_replaced,
)
from srs_eval.report.document import Block, Section
from srs_eval.report.formats import shorten_middle
from srs_eval.stats.tables import Column, Table, make_figure

_MAX_ROWS_SHOWN = 100  # decks or presets that a terminal shows; JSON has all of them
_MAX_CELL_WIDTH = 72  # most columns of a name in a terminal
_FSRS_VERSIONS = {17: 4, 19: 5, 21: 6, 34: 7}  # by number of parameters
_KIND_NAMES = ("learning", "review", "relearning", "filtered", "manual", "rescheduled")


@dataclass(frozen=True)
class _RowCounts:
    """Entries that one rule keeps and drops."""

    kept: int
    cards: int
    later_days: int  # rows on a later day than the card's row before (Anki's FSRS items)
    dropped: Mapping[str, int]  # reason -> entries; kept + the sum of these = all entries


@dataclass(frozen=True)
class GroupCounts:
    """Numbers of entries, cards and rows of one deck or preset."""

    entries: int
    cards: int  # existing cards, by home deck
    benchmark_rows: int
    anki_rows: int = 0


@dataclass(frozen=True)
class DeckReport:
    """A deck and how many of its reviews are used."""

    id: int  # MISSING: reviews of deleted cards
    name: str
    preset_id: int | None
    preset: str
    filtered: bool
    desired_retention: float | None
    counts: GroupCounts


@dataclass(frozen=True)
class PresetReport:
    """A preset, its current parameters, and how many of its reviews are used."""

    id: int  # MISSING: deleted cards and decks without a preset
    name: str
    decks: int
    parameters: tuple[float, ...]
    """Current parameters; () means the defaults unless `unusable`.

    The defaults are FSRS-6's or, in forks of Anki, FSRS-7's.
    """
    parameters_version: int | None  # FSRS version of `parameters` by their number
    unusable: str  # why Anki does not run the stored parameters; "" if it does
    stored_versions: tuple[int, ...]
    chosen_version: int | None  # FSRS version that a fork of Anki runs; None in Anki
    desired_retention: float | None
    historical_retention: float | None
    ignore_before: str | None
    learning_steps: tuple[float, ...]  # minutes
    relearning_steps: tuple[float, ...]  # minutes
    maximum_interval: int | None
    search: str | None
    counts: GroupCounts

    @property
    def version_label(self) -> str:
        """Return the version of the parameters in a word or two."""
        if self.unusable:
            return "unusable"
        if self.parameters:
            return version_name(self.parameters)
        return "defaults" if self.chosen_version is None else "FSRS-7 defaults"


@dataclass(frozen=True)
class Inspection:
    """Everything in the import summary.

    Times are ISO 8601, in UTC and to the second, or dates if the source knows only days.
    """

    path: str
    format: str
    app: str
    user: int | None
    entries_read: int
    repeated: int  # of these, left out because the file contains them twice
    first_review: str | None  # None for data sets, which have no dates
    last_review: str | None
    days: int  # from the first to the last row, both counted
    fsrs_enabled: bool | None
    next_day_at: int | None  # Unix s
    day_boundaries: str
    entries_by_kind: Mapping[str, int]
    entries_by_rating: Mapping[int, int]
    cards: int
    suspended_cards: int
    deleted_cards: int  # deleted cards that have entries
    entries_of_deleted_cards: int
    rows: Mapping[str, _RowCounts]  # by kind of rows
    decks: tuple[DeckReport, ...]
    presets: tuple[PresetReport, ...]
    card_rules: int  # by which an add-on sets parameters for single cards
    notes: tuple[str, ...]

    @property
    def date_range(self) -> str:
        """Return the first and the last date; "" if they are unknown."""
        dates = [time[:10] for time in (self.first_review, self.last_review) if time]
        return " to ".join(dates)

    def to_document(self) -> dict[str, Any]:
        """Return the inspection as JSON-ready values."""
        return {"layout": 1, "srs_eval": VERSION, **asdict(self)}


def inspect_log(log: ReviewLog) -> Inspection:
    """Count what a log contains, and which entries each rule keeps."""
    source = log.entries if log.entries is not None else log.rows
    assert source is not None
    # Data sets already contain rows, selected by the benchmark's rule.
    rules: tuple[RowKind, ...] = ("benchmark",) if log.entries is None else ("benchmark", "anki")
    selections = {kind: select_rows(log, kind) for kind in rules}
    knows_cards = bool(len(log.cards.card_id))
    deleted = source.card_id[knows_cards & ~np.isin(source.card_id, log.cards.card_id)]
    benchmark_days = selections["benchmark"].rows.day_offset
    entries_by_kind: dict[str, int] = {}
    first_review = None
    last_review = None
    if log.entries is not None:
        counts = np.bincount(log.entries.kind, minlength=len(_KIND_NAMES)).tolist()
        for name, count in zip(_KIND_NAMES, counts, strict=True):
            if count:
                entries_by_kind[name] = count
        first_review = _format_time(int(log.entries.time_ms[0]))
        last_review = _format_time(int(log.entries.time_ms[-1]))
    elif (first_date := find_first_date(log)) is not None and len(benchmark_days):
        first_review, last_review = (
            (first_date + timedelta(int(day))).isoformat() for day in benchmark_days[[0, -1]]
        )
    decks: tuple[DeckReport, ...] = ()
    presets: tuple[PresetReport, ...] = ()
    if knows_cards:
        decks, presets = _count_groups(log, source.card_id, selections)
    return Inspection(
        path=log.import_summary.path,
        format=log.import_summary.format,
        app=log.import_summary.app_name,
        user=log.user,
        entries_read=log.import_summary.entries_read,
        repeated=log.import_summary.repeated,
        first_review=first_review,
        last_review=last_review,
        days=int(np.ptp(benchmark_days)) + 1 if len(benchmark_days) else 0,
        fsrs_enabled=log.import_summary.fsrs_enabled,
        next_day_at=log.day_grid.next_day_at_s if log.day_grid else None,
        day_boundaries=log.day_grid.description if log.day_grid else "as given in the file",
        entries_by_kind=entries_by_kind,
        entries_by_rating=dict(sorted(Counter(source.rating.tolist()).items())),
        cards=len(log.cards.card_id),
        suspended_cards=int(log.cards.suspended.sum()),
        deleted_cards=len(np.unique(deleted)),
        entries_of_deleted_cards=len(deleted),
        rows={kind: _count_rows(selection) for kind, selection in selections.items()},
        decks=decks,
        presets=presets,
        card_rules=log.card_rule_count,
        notes=(
            *log.import_summary.notes,
            *explain_left_out_presets(log).values(),
            *why_replaced(log).values(),
        ),
    )


def _count_rows(selection: Selection) -> _RowCounts:
    rows = selection.rows
    return _RowCounts(
        kept=len(rows),
        cards=len(np.unique(rows.card_id)),
        later_days=int((rows.elapsed_days > 0).sum()),
        dropped=dict(selection.dropped),
    )


def _count_groups(
    log: ReviewLog, card_id: IntArray, selections: Mapping[RowKind, Selection]
) -> tuple[tuple[DeckReport, ...], tuple[PresetReport, ...]]:
    """Count by home deck and by its preset, in order of name; groups without a name come last."""
    # The decks of all entries, cards and rows, by the field of GroupCounts that counts them.
    deck_ids = {"entries": log.deck_of(card_id), "cards": log.cards.deck_id}
    for kind, selection in selections.items():
        deck_ids[f"{kind}_rows"] = log.deck_of(selection.rows.card_id)
    preset_ids = {name: log.preset_of(decks) for name, decks in deck_ids.items()}
    decks = []
    for key, counts in _count_by_group(deck_ids, log.decks).items():
        unknown_name = _format_unknown_name("deck", key, "deleted cards")
        deck = log.decks.get(key) or Deck(key, unknown_name, None)
        preset = None if deck.preset_id is None else log.presets.get(deck.preset_id)
        name = preset.name if preset else ""
        decks.append(
            DeckReport(**_copy_common_fields(deck, DeckReport), preset=name, counts=counts)
        )
    decks_by_preset = Counter(deck.preset_id for deck in log.decks.values())
    presets = []
    for key, counts in _count_by_group(preset_ids, log.presets).items():
        unknown_name = _format_unknown_name("preset", key, "deleted cards and missing decks")
        preset = log.presets.get(key) or Preset(key, unknown_name)
        fault = find_preset_fault(preset)
        parameters = () if fault else preset.active_parameters
        presets.append(
            PresetReport(
                **_copy_common_fields(preset, PresetReport),
                decks=decks_by_preset[key],
                parameters=parameters,
                parameters_version=_FSRS_VERSIONS.get(len(parameters)),
                unusable=fault,
                stored_versions=tuple(sorted(preset.fsrs_parameters)),
                counts=counts,
            )
        )
    decks.sort(key=lambda deck: (deck.id not in log.decks, deck.name, deck.id))
    presets.sort(key=lambda preset: (preset.id not in log.presets, preset.name, preset.id))
    return tuple(decks), tuple(presets)


def _copy_common_fields(source: Deck | Preset, report_type: type) -> dict[str, Any]:
    """Return the fields that a report copies unchanged from a deck or a preset."""
    return {
        field.name: getattr(source, field.name)
        for field in fields(report_type)
        if hasattr(source, field.name)
    }


def _count_by_group(
    group_ids: Mapping[str, IntArray], known_ids: Iterable[int]
) -> dict[int, GroupCounts]:
    """Count by deck or preset; groups that are known but empty are counted, too.

    `group_ids` are the ids of the groups of entries, cards and rows, by field of GroupCounts.
    """
    counters = {name: Counter(ids.tolist()) for name, ids in group_ids.items()}
    keys = {*known_ids}
    for counter in counters.values():
        keys.update(counter)
    counts_by_group = {}
    for key in keys:
        counts = {name: counter[key] for name, counter in counters.items()}
        counts_by_group[key] = GroupCounts(**counts)
    return counts_by_group


def _format_unknown_name(kind: str, key: int, missing: str) -> str:
    return f"({missing})" if key == MISSING else f"(missing {kind} {key})"


def _format_time(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _build_entries_table(inspection: Inspection) -> Table:
    """Return a table of the entries that each rule keeps, and why it drops the others."""
    counts_by_kind = inspection.rows.values()
    rows = [
        ("kept", *(counts.kept for counts in counts_by_kind)),
        (
            "kept, on a later day than the card's previous review",
            *(counts.later_days for counts in counts_by_kind),
        ),
    ]
    reasons = dict.fromkeys(reason for counts in counts_by_kind for reason in counts.dropped)
    for reason in reasons:
        rows.append((reason, *(counts.dropped.get(reason, 0) for counts in counts_by_kind)))
    heads = (Column("entries", overflow="fold"), *inspection.rows)
    return Table.from_rows("rows", "Which entries count as reviews", heads, rows)


def build_summary_tables(inspection: Inspection) -> tuple[Table, Table, Table]:
    """Return tables of the entries that count, of decks and of presets."""
    kinds = list(inspection.rows)

    def figures(counts: GroupCounts) -> list[int]:
        return [
            counts.cards,
            counts.entries,
            *(getattr(counts, f"{kind}_rows") for kind in kinds),
        ]

    deck_rows = (
        (
            deck.name or str(deck.id),
            "filtered" if deck.filtered else deck.preset or str(deck.preset_id or ""),
            *figures(deck.counts),
            make_figure(deck.desired_retention),
        )
        for deck in inspection.decks
    )
    preset_rows = (
        (
            preset.name or str(preset.id),
            preset.version_label,
            make_figure(preset.desired_retention),
            *figures(preset.counts),
            preset.ignore_before or "",
        )
        for preset in inspection.presets
    )
    deck_name = Column("deck", overflow="fold")
    preset_name = Column("preset", overflow="fold")
    figure_heads = ("cards", "entries", *kinds)
    deck_heads = (
        deck_name,
        preset_name,
        *figure_heads,
        Column("retention", 0, percent=True, min_width=100),
    )
    preset_heads = (
        preset_name,
        "parameters",
        Column("retention", 0, percent=True),
        *figure_heads,
        Column("ignores before", min_width=100),
    )
    return (
        _build_entries_table(inspection),
        Table.from_rows("decks", "Decks", deck_heads, deck_rows),
        Table.from_rows("presets", "Presets", preset_heads, preset_rows),
    )


EXPLANATION_OF_RULES = (
    "“anki” counts what Anki's optimizer uses; “benchmark” counts what the public benchmark keeps. "
    "Answers about presets use the first, and by default the ranking of models uses the second."
)
"""Why the reviews of one file are counted in two ways."""


def list_facts(inspection: Inspection, rows: str) -> list[str]:
    """List what was read in a few words each: reviews that count, the last day, the scheduler.

    `rows` names the rule for the reviews, "anki" or "benchmark".
    """
    facts = [format_count(inspection.rows[rows].kept, "review")]
    if inspection.last_review:
        facts.append(f"last on {format_day(inspection.last_review[:10])}")
    if inspection.fsrs_enabled is not None:
        facts.append("FSRS is on" if inspection.fsrs_enabled else "FSRS is off")
    return facts


def build_summary_section(inspection: Inspection, with_notes: bool) -> Section:
    """Return a report's section on the import."""
    dates = f", {inspection.date_range}" if inspection.date_range else ""
    heads = ("preset", "decks", "cards", "entries", "parameters")
    rows = (
        (
            preset.name or str(preset.id),
            preset.decks,
            preset.counts.cards,
            preset.counts.entries,
            format_parameters(preset.parameters) or preset.version_label,
        )
        for preset in inspection.presets
    )
    presets = Table.from_rows("presets", "Presets", heads, rows)
    blocks: list[Block] = [
        f"{inspection.format}, {inspection.entries_read:,} entries{dates}, "
        f"{format_count(inspection.days, 'day')} from first to last.",
        f"Days: {inspection.day_boundaries}.",
        _build_entries_table(inspection),
    ]
    if len(inspection.rows) > 1:
        blocks.append(EXPLANATION_OF_RULES)
    if inspection.presets:
        blocks.append(Section("Presets", (presets,), folded=True))
    if with_notes:
        blocks += inspection.notes
    return Section("What was read", tuple(blocks))


def find_largest_groups(groups: Sequence[DeckReport] | Sequence[PresetReport]) -> list[int]:
    """Return the ascending indices of the groups with the most entries.

    There are at most as many as a terminal shows.
    """
    by_entries = sorted(range(len(groups)), key=lambda index: -groups[index].counts.entries)
    return sorted(by_entries[:_MAX_ROWS_SHOWN])


def limit_rows(table: Table, indices: Sequence[int]) -> Table:
    """Return a table with the rows at `indices` only, names shortened in the middle."""
    rows = []
    for index in indices:
        cells = [
            shorten_middle(cell, _MAX_CELL_WIDTH) if isinstance(cell, str) else cell
            for cell in table.rows[index]
        ]
        rows.append(tuple(cells))
    return replace(table, rows=tuple(rows))
