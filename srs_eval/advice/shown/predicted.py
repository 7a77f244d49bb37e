"""What is said of how well models predict, where they err, and where a learner stands."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from srs_eval.advice import findings as f
from srs_eval.advice import sentences as say
from srs_eval.advice.model_evidence import Errors, Where
from srs_eval.advice.sentences import Cell, Renderer, Table
from srs_eval.advice.shown.parameters import named
from srs_eval.data.errors import counted
from srs_eval.stats.intervals import Interval, enough_to_tell


def _name(other: f.Against) -> str:
    return {"older scheduler": "SM-2", "average": "your average"}.get(other.kind, other.name)


def _share(saved: Interval, than: str = "") -> str:
    """ "11 % better than SM-2 (7 to 16 %)"; "5 % worse (2 % better to 12 % worse)"."""
    sign = 1 if saved.estimate >= 0 else -1
    word = "better" if sign > 0 else "worse"
    shown = f"{abs(100 * saved.estimate):.0f} % {word}{f' than {than}' if than else ''}"
    return f"{shown} {_range(saved, sign)}".rstrip()


def _range(saved: Interval, sign: int) -> str:
    """ "(7 to 16 %)", "(15 % worse to 16 % better)"; "" where there is no interval."""
    if math.isnan(saved.half_width):
        return ""
    # Nobody saves more than all; the interval of a ratio does not know.
    low, high = sorted(100 * sign * min(each, 1.0) for each in (saved.low, saved.high))
    if round(low) < 0 < round(high):
        less, more = ("worse", "better")[::sign]
        return f"({-low:.0f} % {less} to {high:.0f} % {more})"
    return f"({low:.0f} to {high:.0f} %)".replace("-", "−")


def _change(finding: f.Finding) -> str:
    """Whether to change to FSRS, of who schedules with something else; else ""."""
    found = f.of(finding, f.Fit)
    if found.now is None:
        return ""
    against, name = found.now, f"{_name(found.now)}, your scheduler"
    how = "with parameters fitted to you"
    alone = {
        "worse": " (its defaults alone would be worse)",
        "as good": " (its defaults alone would be no better)",
        "can't tell yet": " (its defaults alone may be no better)",
    }.get(found.defaults or "", "")
    by = _share(against.saved, name)
    if finding.probability is not None and finding.act == "turn on":
        sure = say.of_100(finding.probability)
        if against.verdict != "better":
            by = f"better than SM-2, as nearly everybody; on your own reviews so far {by}"
        return f"Turn FSRS on, {how} ({sure}): it would predict you {by}{alone}."
    verdict = {
        "better": f"Yes, {how}{alone}: it would predict you {by}.",
        "worse": f"No: it would predict you {by}.",
        "as good": f"As you like: it would predict you as well as {name}.",
        "can't tell yet": f"Can't tell yet: so far {by}.",
    }[against.verdict]
    if finding.missing is not None and against.verdict == "can't tell yet":
        verdict = f"Can't tell yet: {say.lacks(finding.missing)}."
    return f"Change to FSRS? {verdict}"


def _how_well(finding: f.Finding) -> str:
    found = f.of(finding, f.Fit)
    name, verb = ("FSRS is off; it", "would predict") if found.fsrs_is_off else ("FSRS", "predicts")
    whose = {"stored": "with your parameters ", "defaults": "with its defaults "}
    saved = f"{whose.get(found.by, 'optimized, ')}{_share(found.saved, 'guessing your average')}"
    if found.by != "optimized":
        saved += f", optimized {_share(found.of('average')[0].saved)}"
    if found.says == f.OPEN:
        is_enough = finding.interval is not None and enough_to_tell(finding.interval)
        why = saved if is_enough else say.lacks(finding.missing)
        return f"How well FSRS {verb} you can't be told yet: {why}."
    how: str = "a little better" if found.says == "a little" else found.says
    how += "" if how == "well" else " than your average does"
    return f"{name} {verb} you {how}: {saved}."


def _fit_sentences(finding: f.Finding) -> list[str]:
    """Whether to change to FSRS, how well it predicts, on what that rests."""
    found = f.of(finding, f.Fit)
    said = [each for each in (_change(finding), _how_well(finding)) if each]
    said += [
        f"Optimized, it is {_share(older.saved, 'the older scheduler (SM-2)')}."
        for older in found.of("older scheduler")
        if found.now is None and enough_to_tell(older.difference)
    ]
    if found.now is not None and found.says in ("no better", "worse"):
        said[0] += " Expect little of it."
    if found.would_run_fsrs7:
        said.append("FSRS here is FSRS-6; once FSRS is on, your Anki runs FSRS-7.")
    if finding.missing is not None:
        said.append(say.what_lacks(finding.missing))
    days = found.log_loss.days
    last = (
        f"That is by log loss on {counted(finding.reviews, 'review')} of {counted(days, 'day')}; "
        "optimized means fitted to the reviews before."
    )
    if found.by == "stored":
        last += (
            " Your parameters may have been fitted to them: what you have now looks better here "
            "than on the reviews since, by which each preset is told what to do."
        )
    return [*said, last]


def _fit_tables(finding: f.Finding) -> list[Table]:
    """Log loss of everything else, against FSRS-6."""
    found = f.of(finding, f.Fit)
    rows: list[tuple[Cell, ...]] = [("FSRS-6, optimized", found.log_loss, None, "")]
    rows += [(named(e.name), e.log_loss, e.difference, e.verdict) for e in found.against]
    columns = ("predicted by", "log loss", "minus it", "verdict")
    return [Table("FSRS-6, fitted to earlier reviews, against", columns, tuple(rows))]


# Is FSRS right for a preset?


_RIGHT = {"keep": "FSRS is right", "turn on": "turn FSRS on", "SM-2": "SM-2 is right"}


def _health_line(findings: Sequence[f.Finding]) -> str:
    """ "FSRS is right: Maps (sure, 98 of 100); too few reviews: Words"."""
    shown: dict[str, list[tuple[str, str]]] = {}
    for finding in findings:
        says, sure = "too few reviews", ""
        if finding.probability is not None:
            says, sure = _RIGHT[finding.act], f"({say.of_100(finding.probability)})"
        shown.setdefault(says, []).append((finding.subject, sure))
    if len(findings) > 1:
        return say.in_groups(shown)
    ((says, ((_, sure),)),) = shown.items()
    return f"{says} {sure}".rstrip()


def _health_sentences(finding: f.Finding) -> list[str]:
    """Against the older scheduler, and Anki's own check."""
    found = f.of(finding, f.Health)
    if found.older is None:
        return [_check(found)]
    few = counted(finding.reviews, "evaluated review")
    said = f"as nearly everybody gained by it; your {few} say too little yet"
    if enough_to_tell(found.older.difference):
        said = f"FSRS-6 is {_share(found.older.saved, 'SM-2')} once optimized"
        said += f"; {say.figures(found.older.difference, 'evaluated review')}"
    if finding.probability is not None:
        said = f"{say.capital(_RIGHT[finding.act])} ({say.of_100(finding.probability)}): {said}"
    return [f"{said}.", _check(found)]


def _check(evidence: f.Health) -> str:
    found = evidence.check
    if evidence.runs_fsrs7:
        when = " once FSRS is on," if evidence.fsrs_is_off else ""
        return f"Anki's health check is of FSRS-6, and{when} this preset runs FSRS-7."
    if found is None:
        return (
            "Anki makes no health check here: it needs more than 300 reviews, both outcomes, and "
            "first intervals that are not all rare."
        )
    return (
        f"Anki's health check ({found.version}) {'passes' if found.passed else 'fails'}: log loss "
        f"is {found.log_loss_ratio:.2f} times what is usual (limit {found.log_loss_limit}), "
        f"RMSE(bins) {found.rmse_ratio:.2f} times (limit {found.rmse_limit}); one of both has to "
        "hold."
    )


# Which model predicts best?


def _models_sentences(finding: f.Finding) -> list[str]:
    """The best one, those that were brought along, what was left out."""
    found = f.of(finding, f.Models)
    reviews = counted(finding.reviews, "evaluated review")
    said = []
    for each in found.models:
        if each.is_own and each.difference is not None and each.verdict is not None:
            by = say.figures(each.difference, "evaluated review")
            is_open = each.verdict == "can't tell yet"
            than = f"{'better' if is_open else each.verdict} than"
            than = "as good as" if each.verdict == "as good" else than
            says = f"“{each.name}” predicts {than} FSRS-6 fitted to these reviews: {by}."
            said.append(f"Can't tell yet whether {says}" if is_open else says)
    best = found.models[0].log_loss
    assert best is not None
    said.append(f"“{found.says}” has the lowest log loss on the {reviews}, {best.estimate:.4f}.")
    if found.left_out:
        left_out = counted(found.left_out, "held-out review")
        said.append(f"Left out: {left_out} without a prediction by every model.")
    for name, count in found.unused.items():
        are = "is" if count == 1 else "are"
        said.append(
            f"{counted(count, 'prediction')} of “{name}” {are} for reviews that are not evaluated."
        )
    return said


def _models_tables(finding: f.Finding) -> list[Table]:
    """All models, the best first."""
    rows = tuple(
        (each.name, each.log_loss, each.rmse_bins, each.auc, each.difference, each.verdict or "")
        for each in f.of(finding, f.Models).models
    )
    columns = ("model", "log loss", "RMSE(bins)", "AUC", "minus optimized", "verdict")
    return [Table(f"{counted(finding.reviews, 'review')} that no fit had seen", columns, rows)]


# Where do I stand?


def standing_line(findings: Sequence[f.Finding]) -> str:
    """ "FSRS predicts you better than it does 61 of 100 people with as many reviews"."""
    return _standing_sentences(findings[0])[0].rstrip(".")


def _standing_sentences(finding: f.Finding) -> tuple[str, ...]:
    """By log loss, and what the figures are of."""
    less_well = f.of(finding, f.Standings).metrics[0].of_100
    return (
        f"FSRS predicts you better than it does {less_well} of 100 people with as many reviews.",
        f"By log loss, FSRS-5 on your {counted(finding.reviews, 'evaluated review')} against "
        "9,999 published learners, of whom those count most who have about as many reviews and "
        "recall about as much.",
    )


def _standing_tables(finding: f.Finding) -> tuple[Table, ...]:
    """Each metric among those of the others."""
    metrics = f.of(finding, f.Standings).metrics
    levels = (f"{100 * level:.0f} %" for level, _ in metrics[0].quantiles)
    rows: list[tuple[Cell, ...]] = []
    for each in metrics:
        name, theirs = each.metric, (value for _, value in each.quantiles)
        name = "log loss" if name == "LogLoss" else name
        rows.append((name, each.figure, *theirs, each.of_100))
    title = "So many of theirs lie below; less well: how many of 100 are"
    return (Table(title, ("metric", "yours", *levels, "less well"), tuple(rows)),)


# Where a model errs

COLUMNS = ("reviews", "recalled", "expected", "minus expected", "log loss")
_TITLES = {
    "days": "By days since the review before",
    "reviews": "By reviews of the card before",
    "lapses": "By lapses of the card before",
    "hours": "By hours since the day began",
    "deck": "By deck",
    "first rating": "Forgetting curves: the first review on a later day, by first rating",
    "stability": "Forgetting curves by stability, as FSRS-6's defaults estimate it",
}
_CURVES = ("first rating", "stability")
_MOST_PARTS = 12  # whose parameters are shown

# FSRS's parameters in words (open-spaced-repetition/fsrs4anki wiki: The Algorithm).
_FSRS_6 = (
    *(f"first stability after {rating}, days" for rating in ("Again", "Hard", "Good", "Easy")),
    *("first difficulty", "first difficulty, by rating"),
    *("difficulty, change by rating", "difficulty, pull to the mean"),
    *("recalled: growth", "recalled: less growth with stability", "recalled: more growth if due"),
    *("forgotten: stability after", "forgotten: by difficulty", "forgotten: by stability"),
    *("forgotten: by retrievability", "Hard, factor of growth", "Easy, factor of growth"),
    *("same day: growth", "same day: shift of ratings", "same day: less growth with stability"),
    "decay of the forgetting curve",
)
_MEANINGS = {"FSRS-6": _FSRS_6, "FSRS-rs": _FSRS_6, "FSRS-5": _FSRS_6[:19]}


@dataclass(frozen=True)
class Curve:
    """Recall of some reviews over the days since the one before; k points, days ascending."""

    name: str
    days: tuple[float, ...]  # mean of the reviews of a point
    recalled: tuple[Interval, ...]
    expected: tuple[float, ...]  # mean prediction


@dataclass(frozen=True)
class Curves(Table):
    """A table whose figures can be drawn: the reviews of a curve are the rows with its name."""

    curves: tuple[Curve, ...] = ()


def errors_tables(where: Where) -> list[Table]:
    """Errors by what is known before a review; `Curves`; the parameters beside the defaults."""
    made: list[Table] = []
    for name, errors in where.by.items():
        title = _TITLES[name]
        if name == "deck" and where.decks > len(errors):
            title += f", the {len(errors)} largest of {where.decks}"
        if name in _CURVES:
            rows = tuple((each.of, _steps(each), *_figures(each)) for each in errors)
            made.append(Curves(title, (name, "days", *COLUMNS), rows, _curves(errors)))
        else:
            rows = tuple((each.of or _steps(each), *_figures(each)) for each in errors)
            column = "before" if name == "reviews" else name
            made.append(Table(title, (column, *COLUMNS), rows))
    return [*made, *_parameters(where)]


def _steps(each: Errors) -> str:
    """ "5-8", "30 and more", "0" """
    if each.last is None:
        return f"{each.first} and more"
    return str(each.first) if each.first == each.last else f"{each.first}-{each.last}"


def _figures(each: Errors) -> tuple[Cell, ...]:
    recalled = each.recalled
    return recalled.reviews, recalled.estimate, each.expected, each.bias, each.log_loss


def _curves(errors: Sequence[Errors]) -> tuple[Curve, ...]:
    drawn: dict[str, list[tuple[float, Interval, float]]] = {}
    for each in errors:
        if each.is_enough:
            drawn.setdefault(each.of, []).append((each.days, each.recalled, each.expected))
    return tuple(Curve(name, *zip(*points, strict=True)) for name, points in drawn.items())


def _parameters(where: Where) -> list[Table]:
    """A table for each preset or deck with parameters of its own."""
    title = "Parameters of the last fold, fitted to most of the reviews"
    title = "Parameters stored in Anki" if where.is_own else title
    meanings, defaults = _MEANINGS.get(where.model, ()), where.defaults
    made = []
    for name, values in where.parameters[:_MOST_PARTS]:
        of_other_version = where.is_own and len(values) != len(defaults)
        has_defaults = len(defaults) >= len(values) and not of_other_version
        beside = defaults if has_defaults else (None,) * len(values)
        known = (*(() if of_other_version else meanings), *[""] * len(values))
        rows: tuple[tuple[Cell, ...], ...] = tuple(
            (f"w{k}", known[k], beside[k], value) for k, value in enumerate(values)
        )
        columns = ("parameter", "meaning", "default", "in Anki" if where.is_own else "fitted")
        made.append(Table(f"{title}: {name}" if name else title, columns, rows))
    if len(where.parameters) > _MOST_PARTS:
        left_out = f"the first {_MOST_PARTS} of {len(where.parameters)} {where.parts}s"
        made[-1] = replace(made[-1], title=f"{made[-1].title} ({left_out})")
    return made


RENDERERS: Mapping[type[f.Evidence], Renderer] = {
    f.Fit: Renderer(_fit_sentences, tables=_fit_tables),
    f.Health: Renderer(_health_sentences, _health_line),
    f.Models: Renderer(_models_sentences, tables=_models_tables),
    f.Standings: Renderer(_standing_sentences, standing_line, _standing_tables),
}
