"""An audit as a document: what tuning has changed, and whether the ranking survives it."""

from __future__ import annotations

from itertools import count

from srs_eval.benchmark.audit import Audit, Ranking, Tuned
from srs_eval.benchmark.leaderboard import WEIGHTINGS
from srs_eval.data.errors import counted
from srs_eval.data.reviews import FloatArray
from srs_eval.report.document import (
    Cell,
    Column,
    Document,
    Figure,
    Section,
    Table,
    figure,
    table_of,
    with_ends,
)
from srs_eval.stats.users import CONFIDENCE, FEWEST_USERS
from srs_eval.training.hyperparameters import setup_in_words

_BY_USERS = WEIGHTINGS.index("users")
_NOBODY = "no user to choose by"


def audit_document(audit: Audit) -> Document:
    """Everything about an audit."""
    return Document(
        title=f"Audit of {counted(len(audit.tuned), 'configuration')} on "
        f"{counted(audit.users, 'user')}",
        lead=tuple(_lead(audit)),
        sections=(
            Section("As published and tuned", (_changes(audit), _how_to_read(audit))),
            *(_ranking(ranking, number) for number, ranking in enumerate(audit.rankings, start=1)),
            Section("Set-ups", (_setups(audit),)),
            *_failures(audit),
        ),
    )


def _lead(audit: Audit) -> list[str]:
    said = []
    for ranking in audit.rankings:
        over = f"{ranking.rows}, {counted(ranking.users, 'user')}"
        if ranking.survives:
            unsure = sum(pair.verdict == "no sure lead any more" for pair in ranking.pairs)
            though = f", but {counted(unsure, 'lead')} in it no longer sure" if unsure else ""
            said.append(f"Judged on {over}: the ranking survives tuning{though}.")
        else:
            moved = [pair for pair in ranking.pairs if pair.tuned.estimate > 0]
            surely = [pair for pair in moved if pair.verdict == "turned round"]
            said.append(
                f"Judged on {over}: the ranking does not survive tuning. It was "
                f"{', '.join(ranking.published)}; it is {', '.join(ranking.tuned)}. "
                f"{counted(len(moved), 'pair')} changed places, {len(surely)} of them surely."
            )
        if ranking.users < FEWEST_USERS:
            said.append(
                f"{counted(ranking.users, 'user')} are too few to be sure of any difference: "
                f"{FEWEST_USERS} are needed."
            )
    better = [each for each in audit.tuned if each.change and _verdict(each) == "better"]
    if better:
        names = ", ".join(each.configuration.words for each in better)
        said.append(f"Surely better with another set-up than the published one: {names}.")
    said += [
        f"{', '.join(each.left_out)} of {each.configuration.words} was not searched: it is 0 as "
        "published, and numbers are searched on a logarithmic scale."
        for each in audit.tuned
        if each.left_out
    ]
    edges = [each for each in audit.tuned if any(found.on_edge for found in each.found)]
    if edges:
        names = ", ".join(each.configuration.words for each in edges)
        said.append(f"Best at an end of what was tried, so that more --trials may tell: {names}.")
    return said


def _changes(audit: Audit) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for each in audit.tuned:
        figures: list[Cell] = [None] * 6
        if (c := each.change) is not None:
            chosen = each.found and all(half.users for half in each.found)
            figures = [
                _mean(c.before.log_loss(c.file.users)),
                _mean(c.file.metrics["LogLoss"]),
                with_ends(c.differences["LogLoss"][_BY_USERS]) if chosen else None,
                c.users,
                *map(figure, each.spread or (None, None)),
            ]
        verdict = "no results" if c is None else _verdict(each)
        rows.append((each.configuration.words, verdict, *figures))
    return Table(
        "audit",
        "Log loss on the judged reviews, every user counting the same",
        (
            *map(Column, ("configuration", "tuning", "published", "tuned")),
            Column("tuned − published", by_half_width=False, signed=True),
            Column("users"),
            Column("spread, published", digits=5, note="standard deviation over seeds"),
            Column("spread, tuned", digits=5, note="the same"),
        ),
        tuple(rows),
    )


def _mean(values: FloatArray) -> Figure:
    return Figure(float(values.mean()))


def _verdict(each: Tuned) -> str:
    if not each.found:
        return "nothing to tune"
    without = [half for half, found in enumerate(each.found, start=1) if not found.users]
    if without:
        return _NOBODY if len(without) == len(each.found) else f"{_NOBODY} in half {without[0]}"
    if not any(found.hyperparameters for found in each.found):
        return "found nothing better"
    assert each.change is not None
    return each.change.verdict("users")


def _how_to_read(audit: Audit) -> str:
    return (
        f"Each configuration had {counted(audit.trials, 'trial')} for each half of the users; a "
        "user is judged with the set-up that the other half's training parts chose. Differences "
        f"are paired by user, with the ends of their {CONFIDENCE * 100:.0f} % interval in "
        "brackets; verdicts go by these. Spread: the "
        f"standard deviation of the mean over {counted(audit.repeats, 'seed')}, where a training "
        "has seeds. The figures compared are of the first seed, the published one."
    )


def _ranking(ranking: Ranking, number: int) -> Section:
    moved = [pair for pair in ranking.pairs if pair.verdict != "kept"]
    table = table_of(
        f"pairs-{number}",
        f"{counted(len(ranking.pairs), 'pair')}, {len(moved)} of them changed by tuning",
        sorted(ranking.pairs, key=lambda pair: pair.verdict == "kept"),
        (
            ("ahead as published", lambda pair: pair.first),
            ("behind", lambda pair: pair.second),
            ("lead", lambda pair: pair.verdict),
            (
                Column("as published", by_half_width=False, signed=True),
                lambda pair: with_ends(pair.published),
            ),
            (Column("tuned", by_half_width=False, signed=True), lambda p: with_ends(p.tuned)),
        ),
    )
    places = Table(
        f"places-{number}",
        "Places by mean log loss over users",
        tuple(map(Column, ("place", "as published", "tuned"))),
        tuple(zip(count(1), ranking.published, ranking.tuned, strict=False)),
    )
    return Section(f"Judged on {ranking.rows}, {counted(ranking.users, 'user')}", (places, table))


def _setups(audit: Audit) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for each in audit.tuned:
        for half, found in enumerate(each.found, start=1):
            moved = ", ".join(f"{name} {way}" for name, (way,) in found.limits_moved.items())
            rows.append(
                (
                    each.configuration.words,
                    half,
                    found.users,
                    found.trials,
                    setup_in_words(found.hyperparameters) if found.users else _NOBODY,
                    figure(found.published_log_loss),
                    figure(found.log_loss),
                    moved or "none",
                    ", ".join(found.on_edge) or "none",
                )
            )
        if any(found.users for found in each.found):
            best = setup_in_words(each.best)
            rows.append((each.configuration.words, "best", None, None, best, *[None] * 4))
    return Table(
        "set-ups",
        "What each half of the users found",
        (
            Column("configuration"),
            Column("half"),
            Column("users"),
            Column("trials"),
            Column("set-up", note="what is not as published"),
            Column("published", digits=4, note="held-out training rows"),
            Column("tuned", digits=4, note="held-out training rows"),
            Column("limits moved"),
            Column("on an edge"),
        ),
        tuple(rows),
    )


def _failures(audit: Audit) -> list[Section]:
    if not audit.failed:
        return []
    lines = tuple(f"{counted(count, 'fit')}: {reason}" for reason, count in audit.failed.items())
    return [Section("Failed", lines)]
