"""Sentences and tables about a change to FSRS-7."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from srs_eval.advice import findings as f
from srs_eval.advice import sentences as say
from srs_eval.advice.findings import Finding, get_evidence
from srs_eval.advice.sentences import Renderer, format_percent
from srs_eval.advice.shown.columns import LOG_LOSS, log_loss_difference, make_evidence_table
from srs_eval.advice.shown.parameters import candidate_name
from srs_eval.advice.shown.reschedule import (
    advise_on_rescheduling,
    describe_moves,
    make_load_tables,
)
from srs_eval.advice.workload.ranges import RangedFigure
from srs_eval.data.errors import format_count
from srs_eval.stats.intervals import Interval, has_enough_data
from srs_eval.stats.tables import Column, Figure, Table

_MIN_SHARE_BEYOND_TEN_YEARS = 0.01
"""Share of the cards whose next review would be so far away, from which that is a warning."""
_SHORT = {
    "better": "better predictions",
    "as good": "no better",
    "worse": "worse predictions",
    "can't tell": "can't tell yet",
}


def _line(findings: Sequence[Finding]) -> str:
    """Summarize the answers, those of presets with equal ones together: "no better: Words"."""
    return say.summarize_presets(findings, _summarize)


def _summarize(finding: Finding) -> str:
    return _SHORT[get_evidence(finding, f.Fsrs7Switch).conclusion]


def describe_preview(preview: f.Fsrs7Preview) -> str:
    """Return the line for learners whose Anki cannot run FSRS-7."""
    if preview.verdict == "better":
        percent = format_percent(preview.saved.estimate)
        return f"FSRS-7 would predict your answers {percent} better; Anki cannot run it yet."
    return "FSRS-7, which Anki cannot run yet, would predict your answers no better."


def _sentences(finding: Finding) -> list[str]:
    """Return what you would gain from FSRS-7, whether it can run here, and what it would cost."""
    evidence = get_evidence(finding, f.Fsrs7Switch)
    if not evidence.rivals:
        return ["There are too few reviews to compare FSRS-7 with FSRS-6."]
    fsrs6, *today = evidence.rivals
    return [
        f"{_compare_with_fsrs6(fsrs6)} {_describe_chance(finding)}",
        _describe_program(finding, evidence),
        *map(_compare_with_today, today),
        *_describe_minutes(evidence),
        *_describe_day(evidence),
        *_describe_checks(evidence),
        f"On {format_count(fsrs6.difference.reviews, 'held-out review')} from "
        f"{format_count(fsrs6.difference.days, 'day')}, FSRS-7's log loss was "
        f"{say.format_log_loss_difference(fsrs6.difference, 'that of FSRS-6')}.",
    ]


# What you would gain


def _compare_with_fsrs6(rival: f.Fsrs7Rival) -> str:
    percent, word = _describe_saving(rival.saved)
    match rival.verdict:
        case "as good":
            return "FSRS-7 would predict your answers about as well as FSRS-6, with both optimized."
        case "better" | "worse":
            return (
                f"FSRS-7 would predict your answers {percent} {word} than FSRS-6, with both "
                "optimized."
            )
    if not has_enough_data(rival.difference):
        reviews = format_count(rival.difference.reviews, "review")
        days = format_count(rival.difference.days, "day")
        return (
            f"{reviews} on {days} are too few to tell whether FSRS-7 would predict your answers "
            "better than FSRS-6."
        )
    if not word:
        return (
            "So far, FSRS-7 has predicted your answers as well as FSRS-6, with both optimized, but "
            "that may be luck."
        )
    return (
        f"So far, FSRS-7 has predicted your answers {percent} {word} than FSRS-6, with both "
        "optimized, but that may be luck."
    )


def _describe_saving(saved: Interval) -> tuple[str, str]:
    """Return the size of a saving and its direction: ("1.4 %", "better"); ("0.0 %", "")."""
    percent = format_percent(abs(saved.estimate))
    if percent == format_percent(0.0):
        return percent, ""
    return percent, "better" if saved.estimate > 0 else "worse"


def _describe_chance(finding: Finding) -> str:
    assert finding.probability is not None
    percent = say.round_down_percent(finding.probability)
    return (
        "Judging by your reviews and by other people, the chance that it predicts your future "
        f"reviews better is {percent} %."
    )


def _compare_with_today(rival: f.Fsrs7Rival) -> str:
    name = "your current parameters"
    basis = f" on {format_count(rival.difference.reviews, 'review')} that they were not fitted to"
    if rival.name == f.SM2:
        name = "SM-2, which schedules your cards now"
        basis = ""
    percent, word = _describe_saving(rival.saved)
    if not word:
        return f"FSRS-7 has predicted your answers as well as {name}{basis}."
    luck = ", but that may be luck" if rival.verdict == "can't tell yet" else ""
    return f"FSRS-7 has predicted your answers {percent} {word} than {name}{basis}{luck}."


def _describe_program(finding: Finding, evidence: f.Fsrs7Switch) -> str:
    has_one_preset = finding.subject != f.ALL_PRESETS
    if evidence.runs_it:
        if evidence.fsrs_is_off:
            return "Once FSRS is on, your program runs FSRS-7."
        return f"FSRS-7 already schedules {'this preset' if has_one_preset else 'your presets'}."
    if evidence.can_run:
        return "Your program can run FSRS-7: choose it as the FSRS version, then optimize."
    return (
        "Anki cannot run FSRS-7 yet, but two forks of it can. If your program can, run "
        "srs-eval compare FILE --fsrs-7."
    )


# What it would cost


def _describe_minutes(evidence: f.Fsrs7Switch) -> Iterator[str]:
    """Compare minutes at equal memory, with FSRS-6 and with today's schedule."""
    if not evidence.is_about_minutes:
        return
    if not evidence.minutes:
        yield (
            "srs-eval cannot compare the minutes for the same recall: that takes 1,000 reviews, "
            "due dates, and no daily limit that makes cards wait on many days."
        )
        return
    for schedule, name in ((f.BY_FSRS_6, "FSRS-6"), (f.BY_TODAY, "today's schedule")):
        rows = {row.memory: row for row in evidence.minutes if row.schedule == schedule}
        if rows:
            yield from _compare_minutes(name, rows)


def _compare_minutes(name: str, rows: Mapping[str, f.SwitchMinutes]) -> Iterator[str]:
    """Say what FSRS-7 takes beside a schedule, by the model that memory follows.

    Known cards are a second measure of memory, told where it decides.
    """
    by_share = _select_known({memory: row.extra_minutes for memory, row in rows.items()})
    by_cards = _select_known({memory: row.extra_minutes_same_known for memory, row in rows.items()})
    if by_share:
        text = _describe_changes(by_share, rows)
        yield f"To remember the same share of your reviews as with {name}, {text}"
    else:
        yield (
            f"No retention that was simulated lets you remember as much with FSRS-7 as with {name}."
        )
    if any(extra.is_beyond_zero for extra in by_cards.values()):
        text = _describe_changes(by_cards, rows)
        yield f"To know as many cards after a year as with {name}, {text}"


def _select_known(
    extra_by_memory: Mapping[str, RangedFigure | None],
) -> dict[str, RangedFigure]:
    return {memory: extra for memory, extra in extra_by_memory.items() if extra is not None}


def _describe_changes(
    extra_by_memory: Mapping[str, RangedFigure], rows: Mapping[str, f.SwitchMinutes]
) -> str:
    """Describe FSRS-7's extra minutes as shares of those of the other schedule.

    Example: "FSRS-7 would take 3 % fewer minutes if your memory works as FSRS-7 describes, and as
    many minutes if it works as FSRS-6 describes. A simulation can be off by that much."
    """
    changes = [
        _format_change(extra.estimate / rows[memory].minutes)
        for memory, extra in extra_by_memory.items()
    ]
    first, *others = extra_by_memory
    text = f"FSRS-7 would take {changes[0]} if your memory works as {first} describes"
    for memory, change in zip(others, changes[1:], strict=True):
        text += f", and {change} if it works as {memory} describes"
    return f"{text}. {_judge_minutes(list(extra_by_memory.values()))}"


def _format_change(change: float) -> str:
    percent = round(100 * abs(change))
    if not percent:
        return "as much time"
    return f"{percent} % {'less' if change < 0 else 'more'} time"


def _judge_minutes(extra: Sequence[RangedFigure]) -> str:
    """Say whether the minutes with either memory are more than a simulation may be off."""
    saves = [figure.high < 0 for figure in extra]
    costs = [figure.low > 0 for figure in extra]
    if len(extra) == 1:
        return (
            "If it works as the other version describes, no simulated retention gives equal memory."
        )
    if all(saves):
        return "So it would save time."
    if all(costs):
        return "So it would cost time."
    if not any(saves) and not any(costs):
        return "A simulation can be off by that much."
    if not any(costs) and all(figure.estimate <= 0 for figure in extra):
        return "So it may save time."
    if not any(saves) and all(figure.estimate >= 0 for figure in extra):
        return "So it may cost time."
    return "Whether it saves time depends on which of the two is right."


def _describe_day(evidence: f.Fsrs7Switch) -> Iterator[str]:
    """Say what would move on the day of the switch, and what would come due."""
    moves = evidence.moves
    if moves is None:
        return
    if moves.conclusion == "no schedule":
        yield "The file does not say when cards are due, so nothing can be said about moved cards."
        return
    if moves.without is None or moves.rescheduled is None:
        yield "There are too few review cards to say how many would move."
        return
    if evidence.cards_beyond_ten_years >= _MIN_SHARE_BEYOND_TEN_YEARS * moves.cards:
        cards = format_count(evidence.cards_beyond_ten_years, "card")
        yield (
            f"Do not reschedule with FSRS-7 unless you set a maximum interval: {cards} would come "
            "back only after ten years or more. FSRS-7 expects you to forget hardly any of these, "
            "and your reviews cannot show whether that is true."
        )
    else:
        moment = "change to FSRS-7"
        yield from advise_on_rescheduling(moves, moves.without, moves.rescheduled, moment)
    yield from describe_moves(moves, moves.without, moves.rescheduled)


def _describe_checks(evidence: f.Fsrs7Switch) -> Iterator[str]:
    if not evidence.checks:
        return
    passed = [check.version for check in evidence.checks if check.passed]
    failed = [check.version for check in evidence.checks if not check.passed]
    if not failed:
        yield "FSRS-7 passes the health checks of both forks of Anki that run it."
    elif not passed:
        yield (
            "FSRS-7 fails the health checks of both forks of Anki that run it: it predicts your "
            "reviews worse than those of most people."
        )
    else:
        yield (
            f"FSRS-7 passes the health check of {say.join_names(passed)} and fails that of "
            f"{say.join_names(failed)}, whose limits differ."
        )


# Tables


def _tables(finding: Finding) -> list[Table]:
    evidence = get_evidence(finding, f.Fsrs7Switch)
    tables = []
    if evidence.rivals:
        rows = [
            (
                "FSRS-6, optimized" if rival.name == f.RECENCY else candidate_name(rival.name),
                rival.log_loss,
                rival.fsrs7_log_loss,
                rival.difference,
                rival.verdict,
            )
            for rival in evidence.rivals
        ]
        columns = (
            "predicted by",
            LOG_LOSS,
            Column("FSRS-7's", round_by_interval=False),
            log_loss_difference("FSRS-7 minus it"),
            "verdict",
        )
        tables.append(make_evidence_table(f"{finding.subject}: log loss", columns, rows))
    if evidence.minutes:
        tables.append(_make_minutes_table(finding.subject, evidence))
    if evidence.moves is not None and evidence.moves.without is not None:
        tables.append(_make_moves_table(finding.subject, evidence, evidence.moves))
        tables += make_load_tables(finding.subject, evidence.moves)
    if evidence.checks:
        columns_of_checks = (
            "health check of",
            Column("log loss, × usual", digits=2),
            Column("at most", digits=2),
            Column("RMSE(bins), × usual", digits=2),
            Column("or at most", digits=2),
            "passed",
        )
        checks = [
            (
                check.version,
                check.log_loss_ratio,
                check.log_loss_limit,
                check.rmse_ratio,
                check.rmse_limit,
                "yes" if check.passed else "no",
            )
            for check in evidence.checks
        ]
        title = f"{finding.subject}: health check of FSRS-7"
        tables.append(make_evidence_table(title, columns_of_checks, checks))
    return tables


def _make_moves_table(subject: str, evidence: f.Fsrs7Switch, moves: f.Reschedule) -> Table:
    low, median, high = moves.days_moved
    columns = (
        "cards in review",
        "sooner",
        "later",
        "due after ten years or more",
        Column("a tenth moves by less than (days)", digits=0),
        Column("median (days)", digits=0),
        Column("a tenth moves by more than (days)", digits=0),
    )
    row = (
        moves.cards,
        moves.sooner,
        moves.later,
        evidence.cards_beyond_ten_years,
        low,
        median,
        high,
    )
    return make_evidence_table(f"{subject}: cards that would move", columns, [row])


def _make_minutes_table(subject: str, evidence: f.Fsrs7Switch) -> Table:
    schedules = {f.BY_FSRS_6: "FSRS-6, optimized", f.BY_TODAY: "today's"}
    rows = []
    for row in sorted(evidence.minutes, key=lambda row: (row.schedule != f.BY_FSRS_6, row.memory)):
        rows.append(
            (
                schedules[row.schedule],
                row.memory,
                row.recalled,
                row.minutes,
                _to_figure(row.extra_minutes),
                _to_figure(row.extra_minutes_same_known),
            )
        )
    columns = (
        "schedule",
        "memory follows",
        Column("remembered", digits=1, percent=True, round_by_interval=False),
        Column("minutes a day", digits=1),
        Column(
            "FSRS-7's minus these, same share remembered",
            digits=1,
            signed=True,
            round_by_interval=False,
        ),
        Column("same cards known", digits=1, signed=True, round_by_interval=False),
    )
    return make_evidence_table(f"{subject}: minutes a day at equal memory", columns, rows)


def _to_figure(extra: RangedFigure | None) -> Figure | None:
    return None if extra is None else Figure(extra.estimate, ends=(extra.low, extra.high))


RENDERERS: Mapping[type[f.Evidence], Renderer] = {
    f.Fsrs7Switch: Renderer(_sentences, _line, _tables),
}
