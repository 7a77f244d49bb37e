"""The report on an audit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count

from srs_eval.benchmark.audit import Audit, Ranking, Tuned
from srs_eval.benchmark.leaderboard import WEIGHTINGS
from srs_eval.data.errors import counted
from srs_eval.report.document import (
    Cell,
    Column,
    Document,
    Figure,
    Section,
    Table,
    figure,
    with_ends,
)
from srs_eval.stats.users import CONFIDENCE, FEWEST_USERS
from srs_eval.training.hyperparameters import setup_in_words

_NOBODY = "no user to choose by"


def audit_document(audit: Audit) -> Document:
    """What tuning has changed, and whether the ranking survives it."""
    failures = tuple(f"{counted(n, 'fit')}: {reason}" for reason, n in audit.failed.items())
    return Document(
        title=f"Audit of {counted(len(audit.tuned), 'configuration')} on "
        f"{counted(audit.users, 'user')}",
        lead=tuple(_audit_lead(audit)),
        sections=(
            Section("As published and tuned", (_tuned(audit), _how_to_read(audit))),
            *(_ranking(ranking, number) for number, ranking in enumerate(audit.rankings, start=1)),
            Section("Set-ups", (_setups(audit),)),
            *([Section("Failed", failures)] if failures else []),
        ),
    )


def _audit_lead(audit: Audit) -> list[str]:
    said = [f"{remark}." for remark in audit.remarks]
    for ranking in audit.rankings:
        over = f"{ranking.rows}, {counted(ranking.users, 'user')}"
        if ranking.published == ranking.tuned:
            unsure = sum(pair.verdict == "no sure lead any more" for pair in ranking.pairs)
            though = f", but {counted(unsure, 'lead')} in it no longer sure" if unsure else ""
            said.append(f"Evaluated on {over}: the ranking survives tuning{though}.")
        else:
            moved = [pair for pair in ranking.pairs if pair.tuned.estimate > 0]
            surely = [pair for pair in moved if pair.verdict == "turned round"]
            said.append(
                f"Evaluated on {over}: the ranking does not survive tuning. It was "
                f"{', '.join(ranking.published)}; it is {', '.join(ranking.tuned)}. "
                f"{counted(len(moved), 'pair')} changed places, {len(surely)} of them surely."
            )
        if ranking.users < FEWEST_USERS:
            said.append(
                f"{counted(ranking.users, 'user')} are too few to be sure of any difference: "
                f"{FEWEST_USERS} are needed."
            )
    tuned = {each.label: each for each in audit.tuned}
    better = [
        name
        for name, each in tuned.items()
        if each.change and not each.mark and _verdict(each) == "better"
    ]
    if better:
        listing = ", ".join(better)
        said.append(f"Surely better with another set-up than the published one: {listing}.")
    said += [
        f"{', '.join(each.left_out)} of {name} was not searched: it is 0 as published, and numbers "
        "are searched on a logarithmic scale."
        for name, each in tuned.items()
        if each.left_out
    ]
    edges = [name for name, each in tuned.items() if any(found.on_edge for found in each.found)]
    if edges:
        listing = ", ".join(edges)
        said.append(f"Best at an end of what was tried, so that more --trials may tell: {listing}.")
    return said


def _tuned(audit: Audit) -> Table:
    def figures(each: Tuned) -> Iterator[Cell]:
        yield from (each.label, _verdict(each))
        change, spread = each.change, each.spread or (None, None)
        if change is None:
            yield from [None] * 4
        else:
            yield Figure(change.before.log_loss(change.file.users).mean())
            yield Figure(change.file.metrics["LogLoss"].mean())
            chosen = each.found and all(half.users for half in each.found)
            by_users = change.differences["LogLoss"][WEIGHTINGS.index("users")]
            yield with_ends(by_users) if chosen else None
            yield change.users
        yield from map(figure, spread)

    spread = Column("spread, published", digits=5, note="standard deviation over seeds")
    heads = (
        *("configuration", "tuning", "published", "tuned"),
        Column("tuned − published", by_half_width=False, signed=True),
        *("users", spread, replace(spread, title="spread, tuned", note="the same")),
    )
    title = "Log loss on the evaluated reviews, every user counting the same"
    return Table.of("audit", title, heads, map(figures, audit.tuned))


def _verdict(each: Tuned) -> str:
    if each.change is None:
        return "no results"
    if not each.found:
        return "nothing to tune"
    without = [half for half, found in enumerate(each.found, start=1) if not found.users]
    if without:
        return _NOBODY if len(without) == len(each.found) else f"{_NOBODY} in half {without[0]}"
    if not any(found.hyperparameters for found in each.found):
        return "found nothing better"
    return each.change.verdict("users")


def _how_to_read(audit: Audit) -> str:
    return (
        f"Each configuration had {counted(audit.trials, 'trial')} for each half of the users; a "
        "user is evaluated with the set-up that the other half's training parts chose. Differences "
        f"are paired by user, with the ends of their {CONFIDENCE * 100:.0f} % interval in "
        "brackets; verdicts go by these. Spread: the "
        f"standard deviation of the mean over {counted(audit.repeats, 'seed')}, where a training "
        "has seeds. The figures compared are of the first seed, the published one."
    )


def _ranking(ranking: Ranking, number: int) -> Section:
    moved = [pair for pair in ranking.pairs if pair.verdict != "kept"]
    lead = Column("as published", by_half_width=False, signed=True)
    heads = ("ahead as published", "behind", "lead", lead, replace(lead, title="tuned"))
    rows = (
        (each.first, each.second, each.verdict, with_ends(each.published), with_ends(each.tuned))
        for each in sorted(ranking.pairs, key=lambda pair: pair.verdict == "kept")
    )
    title = f"{counted(len(ranking.pairs), 'pair')}, {len(moved)} of them changed by tuning"
    table = Table.of(f"pairs-{number}", title, heads, rows)
    places = Table.of(
        f"places-{number}",
        "Places by mean log loss over users",
        ("place", "as published", "tuned"),
        zip(count(1), ranking.published, ranking.tuned, strict=False),
    )
    return Section(
        f"Evaluated on {ranking.rows}, {counted(ranking.users, 'user')}", (places, table)
    )


def _setups(audit: Audit) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for each in audit.tuned:
        name = each.label
        for half, found in enumerate(each.found, start=1):
            setup = setup_in_words(found.hyperparameters) if found.users else _NOBODY
            losses = figure(found.published_log_loss), figure(found.log_loss)
            edges = ", ".join(found.on_edge) or "none"
            rows.append((name, half, found.users, found.trials, setup, *losses, edges))
        if any(found.users for found in each.found):
            rows.append((name, "best", None, None, setup_in_words(each.best), *[None] * 3))
    tuned = Column("tuned", note="held-out training rows")
    heads = (
        *("configuration", "half", "users", "trials"),
        Column("set-up", note="what is not as published"),
        *(replace(tuned, title="published"), tuned, "on an edge"),
    )
    return Table.of("set-ups", "What each half of the users found", heads, rows)
