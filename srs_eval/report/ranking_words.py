"""Describe rankings in sentences, titles and headings, for reports and the app."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from srs_eval.data.errors import format_count
from srs_eval.engine.ranking import RankedResult, RankingGroup, Standing
from srs_eval.models.configurations import count_rows, describe_rows
from srs_eval.report.formats import join_names
from srs_eval.stats.intervals import MIN_DAYS, MIN_REVIEWS, decide_verdict

_MAX_NAMES = 4  # names with one verdict in a sentence
_HEADINGS: Mapping[Standing, str] = {
    Standing.BEST: "best",
    Standing.AS_GOOD: "as good as the best",
    Standing.CANT_TELL: "can't tell yet",
    Standing.WORSE: "worse",
    Standing.BELOW_BASELINE: "worse than the average",
}
"""Headings over the lines of each section."""
_RIVALS: Mapping[Standing, str] = {
    Standing.AS_GOOD: "as good",
    Standing.CANT_TELL: "can't tell yet whether worse",
    Standing.WORSE: "worse",
    Standing.BELOW_BASELINE: "worse than the average",
}
"""Words before the names of those that are not the best, in the order of the sentence."""


def format_group_title(group: RankingGroup) -> str:
    """Format the group's title, such as "Evaluated on 2,143 reviews of later days"."""
    title = f"Evaluated on {count_rows(group.reviews, group.rows)}"
    if group.is_on_shared_reviews:
        title += " that all have a prediction for"
    if group.is_online:
        title += ": online models"
    return title


def describe_group_differences(group: RankingGroup, first: RankingGroup) -> str:
    """Describe what sets a group apart from the first one."""
    differences = []
    if group.is_on_shared_reviews:
        differences.append(f"on the {group.reviews:,} reviews that all have")
    elif group.reviews != first.reviews or describe_rows(group.rows) != describe_rows(first.rows):
        differences.append("other reviews")
    if group.is_online:
        differences.append("know how today is going (no schedulers)")
    return ", ".join(differences)


def list_warnings(group: RankingGroup) -> list[str]:
    """Return a sentence about each model whose figures mean nothing."""
    return [
        f"{line.configuration.words} {line.result.invalid_reason}: its figures mean nothing."
        for line in group.lines
        if line.result.invalid_reason
    ]


def describe_standing(line: RankedResult) -> str:
    """Return the verdict, or why there is none.

    There is none for invalid results, the baseline, and parameters that have seen the held-out
    reviews.
    """
    if line.result.invalid_reason:
        return line.result.invalid_reason
    if line.standing:
        return line.standing.value
    return "the baseline" if line.is_baseline else "in-sample"


def list_sections(group: RankingGroup) -> list[tuple[str, Sequence[RankedResult]]]:
    """Return the headings of `RankingGroup.sections` with their lines.

    The baseline alone has "" as heading.
    """
    sections = []
    for standing, lines in group.sections:
        if standing is None:
            heading = ""
        elif standing is Standing.BEST and group.none_beats_baseline:
            heading = "nearest to the average"
        else:
            heading = _HEADINGS[standing]
        sections.append((heading, lines))
    return sections


def summarize_ranking(group: RankingGroup) -> str:
    """Return the ranking's result, or only that there are too few reviews for any verdict.

    "" if the baseline is alone.
    """
    if group.best is None:
        return ""
    if not group.has_too_few_reviews:
        return describe_verdicts(group)
    basis = group.lines[0].log_loss
    evaluated = f"{format_count(basis.reviews, 'review')} of {format_count(basis.days, 'day')}"
    return (
        f"{evaluated} are too few to tell models apart: "
        f"{MIN_REVIEWS:,} reviews and {MIN_DAYS} days are needed."
    )


def describe_verdicts(group: RankingGroup) -> str:
    """Return the ranking's result in one sentence; "" if the baseline is alone."""
    best = group.best
    if best is None:
        return ""
    name = best.configuration.words
    is_plural = best.configuration.fit == "own"  # "your parameters predict"
    comes = "come" if is_plural else "comes"
    has = "have" if is_plural else "has"
    predicts = "predict" if is_plural else "predicts"
    rivals: dict[Standing, list[str]] = {}  # their names by standing
    for line in group.lines:
        if line.standing is not None and line is not best:
            rivals.setdefault(line.standing, []).append(line.configuration.words)
    if best.standing is Standing.BELOW_BASELINE:
        return f"None predicts better than the average; {name} {comes} nearest to it."
    if not rivals:
        return _describe_single_model(best, group.equivalence)
    if group.none_beats_baseline:
        clauses = [f"None has a lower log loss than the average; {name} {comes} nearest to it"]
    elif Standing.CANT_TELL in rivals:
        # The best of many is picked by its log loss, which makes that log loss optimistic.
        alike = 1 + len(rivals[Standing.CANT_TELL]) + len(rivals.get(Standing.AS_GOOD, ()))
        clauses = [f"{name} {has} the lowest log loss, one of {alike} that can't be told apart"]
    else:
        clauses = [f"{name} {predicts} best"]
    verdict = None
    if best.to_baseline is not None:
        verdict = decide_verdict(best.to_baseline, equivalence=group.equivalence)
    if verdict == "as good":
        clauses.append("no better and no worse than the average")
    elif verdict == "can't tell yet":
        clauses.append("can't tell yet whether it differs from the average")
    for standing, words in _RIVALS.items():
        if standing in rivals:
            clauses.append(f"{words}: {join_names(rivals[standing], _MAX_NAMES)}")
    return "; ".join(clauses) + "."


def _describe_single_model(line: RankedResult, equivalence: float) -> str:
    """Return the sentence about the only model of a group."""
    name = line.configuration.words
    if line.to_baseline is None:
        return f"{name} has no other to be compared with."
    verdict = decide_verdict(line.to_baseline, equivalence=equivalence)
    if verdict == "better":
        return f"{name} predicts better than the average."
    if verdict == "as good":
        return f"{name} predicts no better and no worse than the average."
    return f"Can't tell yet whether {name} predicts better than the average."
