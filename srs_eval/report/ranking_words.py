"""Describe rankings in sentences, titles and headings, for reports and the app."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from srs_eval.advice.sentences import capitalize, describe_spells
from srs_eval.data.errors import format_count
from srs_eval.data.protocol import Protocol
from srs_eval.engine.ranking import RankedResult, RankingGroup, Standing
from srs_eval.models.configurations import describe_review_count, describe_rows
from srs_eval.report.formats import join_names
from srs_eval.stats.intervals import MIN_DAYS, MIN_REVIEWS, decide_verdict

_MAX_NAMES = 4  # most names listed per verdict
_BASELINE = "always guessing your average"
_HEADINGS: Mapping[Standing, str] = {
    Standing.BEST: "best",
    Standing.AS_GOOD: "as good as the best",
    Standing.CANT_TELL: "can't tell yet",
    Standing.WORSE: "worse",
    Standing.BELOW_BASELINE: f"below the baseline: worse than {_BASELINE}",
}
"""Headings of the sections of a ranking."""
_RIVAL_LABELS: Mapping[Standing, str] = {
    Standing.AS_GOOD: "as good",
    Standing.CANT_TELL: "possibly worse",
    Standing.WORSE: "worse",
    Standing.BELOW_BASELINE: f"worse than {_BASELINE}",
}
"""Labels before the names of models that are not the best, in the order of the sentence."""


def format_group_title(group: RankingGroup) -> str:
    """Format the group's title, such as "Evaluated on 143 reviews, including same-day reviews"."""
    title = f"Evaluated on {describe_review_count(group.reviews, group.row_protocol)}"
    if group.is_on_shared_reviews:
        title += " (only those that every model predicted)"
    if group.is_online:
        title += ": online models"
    return title


def warn_of_split(rows: Protocol) -> list[str]:
    """Return a sentence if reviews are split differently from srs-benchmark's; [] if not."""
    if not rows.has_own_split:
        return []
    return [
        "This is not the benchmark's split: published figures cannot be compared with these "
        "(docs/protocol.md)."
    ]


def describe_group_differences(group: RankingGroup, first: RankingGroup) -> str:
    """Describe what sets a group apart from the first one."""
    differences = []
    reviews = describe_rows(group.row_protocol)
    if group.is_on_shared_reviews:
        differences.append(f"on the {group.reviews:,} reviews that all models share")
    elif group.reviews != first.reviews or reviews != describe_rows(first.row_protocol):
        differences.append("other reviews")
    if group.is_online:
        differences.append("online models, which learn from today's answers")
    return ", ".join(differences)


def list_warnings(group: RankingGroup) -> list[str]:
    """Return a sentence about each model whose figures mean nothing.

    `invalid_reason` is a verb phrase that follows the model's name, such as "reads outcomes".
    """
    return [
        f"{line.configuration.words} {line.result.invalid_reason}, so its figures mean nothing."
        for line in group.lines
        if line.result.invalid_reason
    ]


def describe_standing(line: RankedResult) -> str:
    """Return the verdict, such as "worse", or the reason why there is none.

    The reason is what makes a result invalid ("reads outcomes"), "the baseline", or "in-sample":
    the parameters have seen the held-out reviews.
    """
    if line.result.invalid_reason:
        return line.result.invalid_reason
    if line.standing:
        return line.standing.value
    return "the baseline" if line.is_baseline else "in-sample"


def list_sections(group: RankingGroup) -> list[tuple[str, Sequence[RankedResult]]]:
    """Return each section of the ranking as its heading and its lines.

    The heading is "" if the baseline is alone.
    """
    sections = []
    for standing, lines in group.sections:
        if standing is None:
            heading = ""
        elif standing is Standing.BEST and group.none_beats_baseline:
            heading = "nearest to the baseline"
        else:
            heading = _HEADINGS[standing]
        sections.append((heading, lines))
    return sections


def summarize_ranking(group: RankingGroup, folded: Collection[str] = ()) -> str:
    """Return the verdicts in a sentence, or that there are too few reviews for any verdict.

    Return "" if no model has a rank, as when the baseline is alone. The `folded` configurations,
    which Anki cannot use, are named like the others, but the sentence says that they are among
    them.
    """
    if group.best is None:
        return ""
    if not group.has_too_few_reviews:
        summary = f"{_introduce_folded(group, folded)}{describe_verdicts(group)}"
        if group.phi is not None:
            summary += f" {describe_spells(group.phi)}"
        return summary
    log_loss = group.lines[0].log_loss  # all lines have the same reviews and days
    reviews = format_count(log_loss.reviews, "review")
    days = format_count(log_loss.days, "day")
    verb = "is" if log_loss.reviews == 1 else "are"
    return (
        f"{reviews} on {days} {verb} too few to tell models apart: "
        f"{MIN_REVIEWS:,} reviews and {MIN_DAYS} days are needed."
    )


def _introduce_folded(group: RankingGroup, folded: Collection[str]) -> str:
    """Return what comes before verdicts that may name folded models; "" if none is folded."""
    ranked = [line for line in group.lines if line.rank is not None]
    listed = [line for line in ranked if line.configuration.name not in folded]
    if len(listed) == len(ranked):
        return ""
    introduction = "Among all models, including the hidden ones: "
    if listed and listed[0] is not group.best:
        best = listed[0]
        comes = _conjugate(best, "comes", "come")
        first = f"Of the models that Anki can use, {best.configuration.words} {comes} first. "
        return first + introduction
    return introduction


def describe_verdicts(group: RankingGroup) -> str:
    """Return the verdicts on all ranked models in one sentence; "" if no model has a rank."""
    best = group.best
    if best is None:
        return ""
    name = best.configuration.words
    rivals: dict[Standing, list[str]] = {}  # names by standing
    for line in group.lines:
        if line.standing is not None and line is not best:
            rivals.setdefault(line.standing, []).append(line.configuration.words)
    nearest_clause = f"{name} {_conjugate(best, 'comes', 'come')} nearest to it"
    if best.standing is Standing.BELOW_BASELINE:
        return f"No model predicts better than {_BASELINE}; {nearest_clause}."
    if not rivals:
        return _describe_single_model(best, group.equivalence)
    baseline = _BASELINE
    if group.none_beats_baseline:
        clauses = [f"No model has a lower log loss than {_BASELINE}; {nearest_clause}"]
        baseline = "guessing"  # it was just named
    elif Standing.CANT_TELL in rivals:
        # The best of many is picked by its log loss, which makes that log loss optimistic.
        tied_count = 1 + len(rivals[Standing.CANT_TELL]) + len(rivals.get(Standing.AS_GOOD, ()))
        has = _conjugate(best, "has", "have")
        clauses = [f"{name} {has} the lowest log loss, but {tied_count} models can't be told apart"]
    else:
        clauses = [f"{name} {_conjugate(best, 'predicts', 'predict')} best"]
    verdict = None
    if best.to_baseline is not None:
        verdict = decide_verdict(best.to_baseline, equivalence=group.equivalence)
    if verdict == "as good":
        it_is = _conjugate(best, "it is", "they are")
        clauses.append(f"{it_is} neither better nor worse than {baseline}")
    elif verdict == "can't tell yet":
        it_differs = _conjugate(best, "it differs", "they differ")
        clauses.append(f"can't tell yet whether {it_differs} from {baseline}")
    for standing, label in _RIVAL_LABELS.items():
        if standing in rivals:
            clauses.append(f"{label}: {join_names(rivals[standing], _MAX_NAMES)}")
    return capitalize("; ".join(clauses)) + "."


def _describe_single_model(line: RankedResult, equivalence: float) -> str:
    """Return the sentence about the only model of a group."""
    name = line.configuration.words
    predicts = _conjugate(line, "predicts", "predict")
    if line.to_baseline is None:
        return f"There is no other model to compare {name} with."
    verdict = decide_verdict(line.to_baseline, equivalence=equivalence)
    if verdict == "better":
        return capitalize(f"{name} {predicts} better than {_BASELINE}.")
    if verdict == "as good":
        return capitalize(f"{name} {predicts} no better and no worse than {_BASELINE}.")
    return f"Can't tell yet whether {name} {predicts} better than {_BASELINE}."


def _conjugate(line: RankedResult, singular: str, plural: str) -> str:
    """Return the verb that agrees with a model's name: "FSRS-6 has", "your parameters have"."""
    return plural if line.configuration.fit == "own" else singular
