"""Build the report on an audit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count

from srs_eval.benchmark.audit import Audit, AuditedRanking, TunedConfiguration
from srs_eval.benchmark.leaderboard import WEIGHTINGS
from srs_eval.data.errors import format_count
from srs_eval.report.document import Document, Section
from srs_eval.stats.tables import Cell, Column, Figure, Table, make_figure, make_figure_with_ends
from srs_eval.stats.users import CONFIDENCE, MIN_USERS
from srs_eval.training.hyperparameters import describe_values

_NO_USABLE_USERS = "no users to choose a set-up on"


def build_audit_document(audit: Audit) -> Document:
    """Return the report on what tuning changed and whether the ranking survives it."""
    sections = [
        Section("As published and tuned", (_build_tuning_table(audit), _explain_table(audit)))
    ]
    for number, ranking in enumerate(audit.rankings, start=1):
        sections.append(_build_ranking_section(ranking, number))
    sections.append(Section("Set-ups", (_build_setup_table(audit),)))
    failures = tuple(
        f"{format_count(fits, 'fit')}: {reason}" for reason, fits in audit.failed.items()
    )
    if failures:
        sections.append(Section("Failed", failures))
    return Document(
        title=f"Audit of {format_count(len(audit.tuned), 'configuration')} on "
        f"{format_count(audit.users, 'user')}",
        lead=tuple(_build_lead(audit)),
        sections=tuple(sections),
    )


def _build_lead(audit: Audit) -> list[str]:
    sentences = [f"{remark}." for remark in audit.remarks]
    for ranking in audit.rankings:
        evaluated_on = f"{ranking.reviews_description}, {format_count(ranking.users, 'user')}"
        if ranking.published == ranking.tuned:
            sentence = f"Evaluated on {evaluated_on}: the ranking survives tuning"
            unsure = [pair for pair in ranking.pairs if pair.verdict == "no longer clear"]
            if unsure:
                verb = "is" if len(unsure) == 1 else "are"
                sentence += f", but {format_count(len(unsure), 'lead')} {verb} no longer clear"
            sentences.append(f"{sentence}.")
        else:
            moved = [pair for pair in ranking.pairs if pair.tuned.estimate > 0]
            reversed_pairs = [pair for pair in moved if pair.verdict == "turned round"]
            clearly = f"{len(reversed_pairs)} of them clearly"
            if len(moved) == len(reversed_pairs):
                clearly = "clearly" if len(moved) == 1 else "all of them clearly"
            sentences.append(
                f"Evaluated on {evaluated_on}: the ranking does not survive tuning. It was "
                f"{', '.join(ranking.published)}; now it is {', '.join(ranking.tuned)}. "
                f"{format_count(len(moved), 'pair')} changed places, {clearly}."
            )
        if ranking.users < MIN_USERS:
            verb = "is" if ranking.users == 1 else "are"
            sentences.append(
                f"{format_count(ranking.users, 'user')} {verb} too few to be sure of any "
                f"difference: {MIN_USERS} are needed."
            )
    tuned_by_label = {tuned.label: tuned for tuned in audit.tuned}
    better = [
        label
        for label, tuned in tuned_by_label.items()
        if tuned.change and not tuned.invalid_reason and _describe_verdict(tuned) == "better"
    ]
    if better:
        listing = ", ".join(better)
        sentences.append(f"Clearly better with another set-up than the published one: {listing}.")
    for label, tuned in tuned_by_label.items():
        if tuned.not_searched:
            sentences.append(
                f"The audit did not search {', '.join(tuned.not_searched)} of {label}, because the "
                "published value is 0, and numbers are searched on a logarithmic scale."
            )
    on_edge = [
        label
        for label, tuned in tuned_by_label.items()
        if any(half.on_edge for half in tuned.halves)
    ]
    if on_edge:
        listing = ", ".join(on_edge)
        sentences.append(
            f"For {listing}, the best value of a hyperparameter lies at the edge of those tried: "
            "more --trials may find a better one."
        )
    return sentences


def _build_tuning_table(audit: Audit) -> Table:
    def cells(tuned: TunedConfiguration) -> Iterator[Cell]:
        yield tuned.label
        yield _describe_verdict(tuned)
        change = tuned.change
        if change is None:
            yield from (None, None, None, None)
        else:
            yield Figure(change.old_file.log_losses(change.file.users).mean())
            yield Figure(change.file.metrics["LogLoss"].mean())
            was_tuned = tuned.halves and all(half.users for half in tuned.halves)
            difference = change.differences["LogLoss"][WEIGHTINGS.index("users")]
            yield make_figure_with_ends(difference) if was_tuned else None
            yield change.users
        published_spread, tuned_spread = tuned.spread or (None, None)
        yield make_figure(published_spread)
        yield make_figure(tuned_spread)

    spread = Column("spread, published", digits=5, note="standard deviation over seeds")
    heads = (
        "configuration",
        "tuning",
        "published",
        "tuned",
        Column("tuned − published", round_by_interval=False, signed=True),
        "users",
        spread,
        replace(spread, title="spread, tuned", note="the same"),
    )
    title = "Log loss on held-out reviews, with the same weight for every user"
    return Table.from_rows("audit", title, heads, map(cells, audit.tuned))


def _describe_verdict(tuned: TunedConfiguration) -> str:
    if tuned.change is None:
        return "no results"
    if not tuned.halves:
        return "nothing to tune"
    empty_halves = [number for number, half in enumerate(tuned.halves, start=1) if not half.users]
    if len(empty_halves) == len(tuned.halves):
        return _NO_USABLE_USERS
    if empty_halves:
        return f"{_NO_USABLE_USERS} in half {empty_halves[0]}"
    if not any(half.hyperparameters for half in tuned.halves):
        return "found nothing better"
    return tuned.change.verdict("users")


def _explain_table(audit: Audit) -> str:
    return (
        f"Each configuration had {format_count(audit.trials, 'trial')} for each half of the users; "
        "each user is evaluated with the set-up that was best on the training parts of the other "
        "half. "
        "Differences are paired by user. The ends of their "
        f"{CONFIDENCE * 100:.0f} % interval, in brackets, decide the verdicts. Spread: the "
        f"standard deviation of the mean over {format_count(audit.repeats, 'seed')}, if training "
        "uses random numbers. All other figures are those of the first seed, the published one."
    )


def _build_ranking_section(ranking: AuditedRanking, number: int) -> Section:
    changed = [pair for pair in ranking.pairs if pair.verdict != "kept"]
    lead = Column("as published", round_by_interval=False, signed=True)
    heads = ("ahead as published", "behind", "lead", lead, replace(lead, title="tuned"))
    rows = (
        (
            pair.first,
            pair.second,
            pair.verdict,
            make_figure_with_ends(pair.published),
            make_figure_with_ends(pair.tuned),
        )
        for pair in sorted(ranking.pairs, key=lambda pair: pair.verdict == "kept")
    )
    title = f"{format_count(len(ranking.pairs), 'pair')}, {len(changed)} of them changed by tuning"
    table = Table.from_rows(f"pairs-{number}", title, heads, rows)
    places = Table.from_rows(
        f"places-{number}",
        "Places by mean log loss over users",
        ("place", "as published", "tuned"),
        zip(count(1), ranking.published, ranking.tuned, strict=False),
    )
    return Section(
        f"Evaluated on {ranking.reviews_description}, {format_count(ranking.users, 'user')}",
        (places, table),
    )


def _build_setup_table(audit: Audit) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for tuned in audit.tuned:
        for number, half in enumerate(tuned.halves, start=1):
            rows.append(
                (
                    tuned.label,
                    number,
                    half.users,
                    half.trials,
                    describe_values(half.hyperparameters) if half.users else _NO_USABLE_USERS,
                    make_figure(half.published_log_loss),
                    make_figure(half.log_loss),
                    ", ".join(half.on_edge) or "none",
                )
            )
        if any(half.users for half in tuned.halves):
            best_setup = describe_values(tuned.best_setup)
            rows.append((tuned.label, "best", None, None, best_setup, None, None, None))
    tuned_loss = Column("tuned", note="held-out training rows")
    heads = (
        "configuration",
        "half",
        "users",
        "trials",
        Column("set-up", note="only values that differ from the published ones"),
        replace(tuned_loss, title="published"),
        tuned_loss,
        "on an edge",
    )
    return Table.from_rows("set-ups", "What each half of the users found", heads, rows)
