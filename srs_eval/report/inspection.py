"""What is in a review log and what counts: the import summary with every count.

`inspect_log` computes, `Inspection.document` has the layout of `srs-eval inspect --json`,
`render_inspection` makes the tables for a terminal. Nothing here prints.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from srs_eval.advice.sentences import parameter_line
from srs_eval.data.errors import counted, printable
from srs_eval.data.paths import VERSION
from srs_eval.data.reviews import MISSING, Deck, IntArray, Preset, ReviewLog
from srs_eval.data.rows import RowKind, Selection, select_rows
from srs_eval.models.own_parameters import fault_in, version_of, why_left_out, why_replaced
from srs_eval.report.document import Block, Column, Section, Table, figure
from srs_eval.report.formats import shortened

if TYPE_CHECKING:
    from rich.console import RenderableType

_MOST_SHOWN = 100  # decks or presets that a terminal shows; JSON has all of them
_LONGEST_SHOWN = 72  # cells of a name there
_KIND_NAMES = ("learning", "review", "relearning", "filtered", "manual", "rescheduled")


@dataclass(frozen=True)
class _RowCounts:
    """What one rule keeps of the entries."""

    kept: int
    cards: int
    later_days: int  # rows on a later day than the card's row before (Anki's FSRS items)
    dropped: Mapping[str, int]  # reason -> entries; kept + the sum of these = all entries


@dataclass(frozen=True)
class GroupCounts:
    """One deck's or preset's share."""

    entries: int
    cards: int  # existing cards, by home deck
    benchmark_rows: int
    anki_rows: int = 0


@dataclass(frozen=True)
class DeckReport:
    id: int  # MISSING: reviews of deleted cards
    name: str
    preset_id: int | None
    preset: str
    filtered: bool
    desired_retention: float | None
    counts: GroupCounts


@dataclass(frozen=True)
class PresetReport:
    id: int  # MISSING: deleted cards and decks without a preset
    name: str
    decks: int
    parameters: tuple[float, ...]
    """In force; () means defaults, FSRS-6's or in forks of Anki FSRS-7's, unless `unusable`."""
    parameters_version: int | None  # FSRS version of `parameters` by their number
    unusable: str  # why Anki does not run what is stored; "" where it does
    stored_versions: tuple[int, ...]
    chosen_version: int | None  # of FSRS, which a fork of Anki runs; None in Anki
    desired_retention: float | None
    historical_retention: float | None
    ignore_before: str | None
    learning_steps: tuple[float, ...]  # minutes
    relearning_steps: tuple[float, ...]  # minutes
    maximum_interval: int | None
    search: str | None
    counts: GroupCounts

    @property
    def schedules_with(self) -> str:
        """The version of the parameters, in a word or two."""
        if self.unusable:
            return "unusable"
        if self.parameters:
            return version_of(self.parameters)
        return "defaults" if self.chosen_version is None else "FSRS-7 defaults"


@dataclass(frozen=True)
class Inspection:
    """Everything the import summary tells. Times are ISO 8601 in UTC, to the second."""

    path: str
    format: str
    app: str
    user: int | None
    entries_read: int
    repeated: int  # of these, left out because the file holds them twice
    first_review: str | None  # None for data sets, which hold no dates
    last_review: str | None
    days: int  # from the first to the last row, both counted
    fsrs_enabled: bool | None
    next_day_at: int | None  # Unix s
    day_boundaries: str
    entries_by_kind: Mapping[str, int]
    entries_by_rating: Mapping[int, int]
    cards: int
    suspended_cards: int
    deleted_cards: int  # cards that are gone but have entries
    entries_of_deleted_cards: int
    rows: Mapping[str, _RowCounts]  # by kind of rows
    decks: tuple[DeckReport, ...]
    presets: tuple[PresetReport, ...]
    card_rules: int  # by which an add-on gives single cards other parameters
    notes: tuple[str, ...]

    @property
    def span(self) -> str:
        """The first and the last date; "" where they are not known."""
        dates = [each[:10] for each in (self.first_review, self.last_review) if each]
        return " to ".join(dates)

    def document(self) -> dict[str, Any]:
        """As JSON-ready values."""
        return {"layout": 1, "srs_eval": VERSION, **asdict(self)}


def inspect_log(log: ReviewLog) -> Inspection:
    """Count what a log holds and what each rule keeps (vectorised; no reviews are changed)."""
    source = log.entries if log.entries is not None else log.rows
    assert source is not None
    # Data sets hold rows already, by the benchmark's rule.
    rules: tuple[RowKind, ...] = ("benchmark",) if log.entries is None else ("benchmark", "anki")
    selections = {kind: select_rows(log, kind) for kind in rules}
    knows_cards = bool(len(log.cards.card_id))
    deleted = source.card_id[knows_cards & ~np.isin(source.card_id, log.cards.card_id)]
    benchmark_days = selections["benchmark"].rows.day_offset
    kinds: dict[str, int] = {}
    first = last = None
    if log.entries is not None:
        found = np.bincount(log.entries.kind, minlength=len(_KIND_NAMES)).tolist()
        kinds = {name: count for name, count in zip(_KIND_NAMES, found, strict=True) if count}
        first, last = (_iso(int(log.entries.time_ms[place])) for place in (0, -1))
    decks, presets = _groups(log, source.card_id, selections) if knows_cards else ((), ())
    return Inspection(
        path=log.import_summary.path,
        format=log.import_summary.format,
        app=log.import_summary.app_name,
        user=log.user,
        entries_read=log.import_summary.entries_read,
        repeated=log.import_summary.repeated,
        first_review=first,
        last_review=last,
        days=int(np.ptp(benchmark_days)) + 1 if len(benchmark_days) else 0,
        fsrs_enabled=log.import_summary.fsrs_enabled,
        next_day_at=log.day_grid.next_day_at_s if log.day_grid else None,
        day_boundaries=log.day_grid.source if log.day_grid else "settled by the source",
        entries_by_kind=kinds,
        entries_by_rating=dict(sorted(Counter(source.rating.tolist()).items())),
        cards=len(log.cards.card_id),
        suspended_cards=int(log.cards.suspended.sum()),
        deleted_cards=len(np.unique(deleted)),
        entries_of_deleted_cards=len(deleted),
        rows={kind: _row_counts(selection) for kind, selection in selections.items()},
        decks=decks,
        presets=presets,
        card_rules=log.card_rules,
        notes=(
            *log.import_summary.notes,
            *why_left_out(log).values(),
            *why_replaced(log).values(),
        ),
    )


def _row_counts(selection: Selection) -> _RowCounts:
    rows = selection.rows
    return _RowCounts(
        kept=len(rows),
        cards=len(np.unique(rows.card_id)),
        later_days=int((rows.elapsed_days > 0).sum()),
        dropped=dict(selection.dropped),
    )


def _groups(
    log: ReviewLog, card_id: IntArray, selections: Mapping[RowKind, Selection]
) -> tuple[tuple[DeckReport, ...], tuple[PresetReport, ...]]:
    """Counts by home deck and by its preset, in order of name; groups without name last."""
    deck_ids = {"entries": log.deck_of(card_id), "cards": log.cards.deck_id}
    for kind, selection in selections.items():
        deck_ids[f"{kind}_rows"] = log.deck_of(selection.rows.card_id)
    preset_ids = {what: log.preset_of(decks) for what, decks in deck_ids.items()}
    decks = []
    for key, counts in _counts_by_group(deck_ids, log.decks).items():
        deck = log.decks.get(key) or Deck(key, _unknown("deck", key, "deleted cards"), None)
        preset = None if deck.preset_id is None else log.presets.get(deck.preset_id)
        name = preset.name if preset else ""
        decks.append(DeckReport(**_common(deck, DeckReport), preset=name, counts=counts))
    in_use = Counter(deck.preset_id for deck in log.decks.values())
    nobody = "deleted cards and missing decks"
    presets = []
    for key, counts in _counts_by_group(preset_ids, log.presets).items():
        preset = log.presets.get(key) or Preset(key, _unknown("preset", key, nobody))
        fault = fault_in(preset)
        parameters = () if fault else preset.parameters_in_force
        presets.append(
            PresetReport(
                **_common(preset, PresetReport),
                decks=in_use[key],
                parameters=parameters,
                parameters_version={17: 4, 19: 5, 21: 6, 34: 7}.get(len(parameters)),
                unusable=fault,
                stored_versions=tuple(sorted(preset.fsrs_parameters)),
                counts=counts,
            )
        )
    return (
        tuple(sorted(decks, key=lambda deck: (deck.id not in log.decks, deck.name, deck.id))),
        tuple(sorted(presets, key=lambda one: (one.id not in log.presets, one.name, one.id))),
    )


def _common(of: Deck | Preset, report: type) -> dict[str, Any]:
    """What a report takes from a deck or a preset as it is."""
    return {each.name: getattr(of, each.name) for each in fields(report) if hasattr(of, each.name)}


def _counts_by_group(
    groups: Mapping[str, IntArray], known: Iterable[int]
) -> dict[int, GroupCounts]:
    found = {what: Counter(column.tolist()) for what, column in groups.items()}
    return {
        key: GroupCounts(**{what: counts[key] for what, counts in found.items()})
        for key in {*known, *(key for counts in found.values() for key in counts)}
    }


def _unknown(what: str, key: int, missing: str) -> str:
    return f"({missing})" if key == MISSING else f"(missing {what} {key})"


def _iso(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _entries_table(inspection: Inspection) -> Table:
    """What each rule keeps of the entries, and why it leaves out the others."""
    kinds = inspection.rows.values()
    rows = [
        ("kept", *(counts.kept for counts in kinds)),
        ("kept, on a later day", *(counts.later_days for counts in kinds)),
    ]
    for reason in dict.fromkeys(reason for counts in kinds for reason in counts.dropped):
        rows.append((reason, *(counts.dropped.get(reason, 0) for counts in kinds)))
    heads = (Column("entries", gives="fold"), *inspection.rows)
    return Table.of("rows", "Which entries count", heads, rows)


def summary_tables(inspection: Inspection) -> tuple[Table, Table, Table]:
    """Which entries count, and where they are: decks and presets, a row each, as inspected."""
    kinds = list(inspection.rows)

    def figures(of: GroupCounts) -> tuple[int, ...]:
        return of.cards, of.entries, *(getattr(of, f"{kind}_rows") for kind in kinds)

    decks = (
        (
            deck.name or str(deck.id),
            "filtered" if deck.filtered else deck.preset or str(deck.preset_id or ""),
            *figures(deck.counts),
            figure(deck.desired_retention),
        )
        for deck in inspection.decks
    )
    presets = (
        (
            *(preset.name or str(preset.id), preset.schedules_with),
            *(
                figure(preset.desired_retention),
                *figures(preset.counts),
                preset.ignore_before or "",
            ),
        )
        for preset in inspection.presets
    )
    deck, preset = Column("deck", gives="fold"), Column("preset", gives="fold")
    numbers = ("cards", "entries", *kinds)
    of_decks = (deck, preset, *numbers, Column("retention", 2, from_width=100))
    of_presets = (
        *(preset, "parameters", Column("retention", 2), *numbers),
        Column("ignores before", from_width=100),
    )
    return (
        _entries_table(inspection),
        Table.of("decks", "Decks", of_decks, decks),
        Table.of("presets", "Presets", of_presets, presets),
    )


def summary_section(inspection: Inspection, with_notes: bool) -> Section:
    """What was read, as a section of a report."""
    span = f", {inspection.span}" if inspection.span else ""
    heads = ("preset", "decks", "cards", "entries", "parameters")
    rows = (
        (
            *(each.name or str(each.id), each.decks, each.counts.cards, each.counts.entries),
            parameter_line(each.parameters) or each.schedules_with,
        )
        for each in inspection.presets
    )
    presets = Table.of("presets", "Presets", heads, rows)
    blocks: list[Block] = [
        f"{inspection.format}, {inspection.entries_read:,} entries{span}, "
        f"{counted(inspection.days, 'day')} from first to last.",
        f"Days begin as: {inspection.day_boundaries}.",
        _entries_table(inspection),
    ]
    if inspection.presets:
        blocks.append(Section("Presets", (presets,), folded=True))
    return Section("What was read", (*blocks, *(inspection.notes if with_notes else ())))


def _largest(groups: Sequence[DeckReport] | Sequence[PresetReport]) -> list[int]:
    """Places of the groups with the most entries, as many as a terminal shows, in their order."""
    by_entries = sorted(range(len(groups)), key=lambda place: -groups[place].counts.entries)
    return sorted(by_entries[:_MOST_SHOWN])


def _bounded(table: Table, places: Sequence[int]) -> Table:
    """The rows at the places, with names cut in the middle."""
    rows = tuple(
        tuple(shortened(cell, _LONGEST_SHOWN) if isinstance(cell, str) else cell for cell in row)
        for row in (table.rows[place] for place in places)
    )
    return replace(table, rows=rows)


def render_inspection(inspection: Inspection, width: int = 80) -> RenderableType:
    """Facts and tables for a terminal."""
    from rich.console import Group
    from rich.text import Text

    from srs_eval.report.console import facts_text, table_text

    cards = (
        f"{inspection.cards:,}, {inspection.suspended_cards:,} suspended; "
        f"{inspection.deleted_cards:,} deleted ones have "
        f"{inspection.entries_of_deleted_cards:,} entries"
    )
    facts = {
        "file": printable(inspection.path, None),
        "format": inspection.format,
        "entries": f"{inspection.entries_read:,}",
        "reviewed": ", ".join(filter(None, (inspection.span, f"{inspection.days:,} days"))),
        "days": inspection.day_boundaries,
        "cards": cards if inspection.cards else "not told",
        "FSRS": {True: "on", False: "off", None: "not told"}[inspection.fsrs_enabled],
    }
    parts: list[RenderableType] = [facts_text(facts.items())]
    entries, decks, presets = summary_tables(inspection)
    parts += ["", *table_text(entries, width)] if entries.rows else []
    for table, groups in ((decks, inspection.decks), (presets, inspection.presets)):
        if not table.rows:
            continue
        largest = _largest(groups)
        parts += ["", *table_text(_bounded(table, largest), width)]
        if hidden := len(groups) - len(largest):
            others = f"{hidden:,} more {table.title.lower()} with fewer entries"
            parts.append(Text(f"{others} are listed by --json.", "dim"))
    return Group(*parts, *(Text(f"• {note}") for note in inspection.notes))
