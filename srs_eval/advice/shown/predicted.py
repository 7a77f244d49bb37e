"""Sentences and tables about how well models predict, where they err, where a learner stands."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from srs_eval.advice import findings as f
from srs_eval.advice import sentences as say
from srs_eval.advice.findings import Recommendation
from srs_eval.advice.model_evidence import ErrorGroup, ModelErrors
from srs_eval.advice.sentences import PaneLine, Renderer
from srs_eval.advice.shown.columns import (
    EXPECTED,
    LOG_LOSS,
    MINUS_EXPECTED,
    RECALLED,
    difference_from,
    log_loss_difference,
    make_evidence_table,
)
from srs_eval.advice.shown.habits import MARKS
from srs_eval.advice.shown.parameters import candidate_name
from srs_eval.data.errors import format_count
from srs_eval.engine.loss_breakdown import LossBreakdown, LossGroup
from srs_eval.stats.intervals import MIN_DAYS, MIN_REVIEWS, Interval, has_enough_data
from srs_eval.stats.ranges import format_range
from srs_eval.stats.tables import Column, Table


def _rival_name(rival: f.Rival) -> str:
    return {"older scheduler": "SM-2", "average": "your average"}.get(rival.kind, rival.name)


def describe_advice_basis(fit: f.Fit) -> str:
    """Say on which reviews the advice rests, how FSRS did there, and what else it counts."""
    reviews = format_count(fit.log_loss.reviews, "held-out review")
    basis = f"“What to do” rests on {reviews} of cards still in use"
    if fit.sm2 is None:
        return f"{basis}, and on other people's results."
    text = f"{basis}: there, FSRS is {_format_saving(fit.sm2.saved, 'SM-2')}."
    if not has_enough_data(fit.sm2.difference):
        return f"{text} They are too few on their own: other people's results decide."
    if fit.sm2.verdict == "can't tell yet":
        return f"{text} As this leaves it open, other people's results decide."
    return f"{text} It also counts other people's results."


def explain_charts(review_count: int) -> str:
    """Say to learners how to read two calibration graphs, side by side, of the same reviews."""
    return (
        f"Both predicted the same {format_count(review_count, 'review')}. The nearer the dots are "
        "to the faint line, the better: on the line, you recalled 80 % of the reviews predicted at "
        "80 %."
    )


def _format_saving(saved: Interval, than: str = "") -> str:
    """Format a saved share of log loss in words.

    Examples: "11 % better than SM-2 (7 to 16 %)"; "5 % worse (from 2 % better to 12 % worse)".
    """
    sign = 1 if saved.estimate >= 0 else -1
    word = "better" if sign > 0 else "worse"
    text = f"{abs(100 * saved.estimate):.0f} % {word}"
    if than:
        text += f" than {than}"
    return f"{text} {_format_saving_range(saved, sign)}".rstrip()


def _format_saving_range(saved: Interval, sign: int) -> str:
    """Format the interval of a saving: "(7 to 16 %)", "(from 15 % worse to 16 % better)" or "".

    With a `sign` of -1, an interval on one side of 0 is in per cent worse.
    """
    if math.isnan(saved.half_width):
        return ""
    # A saving cannot exceed 100 %, but the interval of a ratio can.
    low, high = sorted(100 * sign * min(bound, 1.0) for bound in (saved.low, saved.high))
    if round(low) < 0 < round(high):
        if sign > 0:
            return f"(from {-low:.0f} % worse to {high:.0f} % better)"
        return f"(from {-low:.0f} % better to {high:.0f} % worse)"
    return f"({_with_minus(f'{low:.0f}')} to {_with_minus(f'{high:.0f}')} %)"


def _change_sentence(finding: f.Finding) -> str:
    """Return whether to change from another scheduler to FSRS; "" if there is no other."""
    fit = f.get_evidence(finding, f.Fit)
    scheduler = fit.current_scheduler
    if scheduler is None:
        return ""
    name = f"{_rival_name(scheduler)}, your scheduler"
    saving = _format_saving(scheduler.saved, name)
    defaults_note = {
        "worse": "; with its defaults alone, it would be worse",
        "as good": "; with its defaults alone, it would be no better",
        "can't tell yet": "; with its defaults alone, it may be no better",
    }.get(fit.defaults_verdict or "", "")
    if finding.probability is not None and finding.recommendation == Recommendation.TURN_FSRS_ON:
        certainty = say.format_certainty(finding.probability)
        if scheduler.verdict != "better":
            saving = (
                "better than SM-2, as it does for nearly everybody. On your reviews so far, it is "
                f"{saving}"
            )
        advice = "Turn FSRS on"
        if fit.excluded_majority:  # no card is in use, so there is nothing to turn on now
            advice = "If you learn such cards again, turn FSRS on"
        return (
            f"{advice} ({certainty}): once optimized, it would predict your answers {saving}"
            f"{defaults_note}."
        )
    if_better = (
        f"Yes: with parameters fitted to your reviews, it would predict your answers {saving}"
        f"{defaults_note}."
    )
    if not fit.seems_to_beat_average:
        if_better = (
            f"Not yet: it would predict your answers {saving}, but so far no better than guessing "
            "your average."
        )
    answer = {
        "better": if_better,
        "worse": f"No: it would predict your answers {saving}.",
        "as good": f"It makes no difference: it would predict your answers as well as {name}.",
        "can't tell yet": f"Can't tell yet: so far, it is {saving}.",
    }[scheduler.verdict]
    if finding.missing is not None and scheduler.verdict == "can't tell yet":
        answer = f"{say.capitalize(say.format_cant_tell(finding.missing))}."
    return f"Change to FSRS? {answer}"


def _fit_sentence(finding: f.Finding) -> str:
    fit = f.get_evidence(finding, f.Fit)
    verb = "would predict" if fit.fsrs_is_off else "predicts"
    if fit.conclusion == f.CANT_TELL:
        whether = f"whether FSRS {verb} your answers better than guessing your average"
        if finding.interval is not None and has_enough_data(finding.interval):
            so_far = f"so far, {_describe_saving(fit, '')}"
            if finding.missing is not None and not finding.missing.can_come:
                return f"Your reviews will not settle {whether}; {so_far}."
            return f"It is too early to tell {whether}; {so_far}."
        if finding.missing is None or not finding.missing.can_come:
            cant_tell = say.format_cant_tell(finding.missing, f" {whether}")
            return f"{say.capitalize(cant_tell)}."
        missing = say.format_missing_data(finding.missing)
        return f"It is too early to tell {whether}; that {missing}."
    subject = "FSRS is off; it" if fit.fsrs_is_off else "FSRS"
    if fit.conclusion == "well":
        saving = _describe_saving(fit, "guessing your average")
        return f"{subject} {verb} your answers well: {saving}."
    quality = "a little better" if fit.conclusion == "a little" else fit.conclusion
    return (
        f"{subject} {verb} your answers {quality} than guessing your average: "
        f"{_describe_saving(fit, '')}."
    )


def _describe_saving(fit: f.Fit, than: str) -> str:
    """Describe how much better FSRS predicts than the average, which `than` may name.

    Example: "with its defaults, it is 9 % better (5 to 12 %), and optimized, 12 % better".
    """
    parameters = {
        "stored": "with your parameters",
        "defaults": "with its defaults",
    }.get(fit.parameter_source, "with optimized parameters")
    verb = "would be" if fit.fsrs_is_off else "is"
    text = f"{parameters}, it {verb} {_format_saving(fit.saved, than)}"
    if fit.parameter_source != "optimized":
        average = fit.rivals_of_kind("average")[0]
        text += f", and optimized, {_format_saving(average.saved)}"
    return text


def _show_verdict(rival: f.Rival) -> str:
    """Return the verdict beside a difference; "too few days" where only days are missing."""
    difference = rival.difference
    is_clear = difference.low > 0 or difference.high < 0
    if rival.verdict == "can't tell yet" and is_clear and difference.days < MIN_DAYS:
        return "too few days"
    return rival.verdict


def describe_other_scheduler(finding: f.Finding) -> PaneLine | None:
    """Return how FSRS does beside SM-2 or another program's scheduler; None if that is unknown.

    Example: "Optimized FSRS predicts your answers 12 % better than SM-2". While FSRS is off
    in Anki, the first pane says it, unless no card is in use.
    """
    fit = f.get_evidence(finding, f.Fit)
    if fit.fsrs_is_off and not fit.excluded_majority:
        return None
    rival = fit.current_scheduler or fit.sm2
    if rival is None:
        return None
    name = "SM-2" if rival.kind == "older scheduler" else rival.name
    percent = f"{abs(100 * rival.saved.estimate):.0f} %"
    match rival.verdict:
        case "better":
            text = f"Optimized FSRS predicts your answers {percent} better than {name}"
            if fit.current_scheduler is not None and not fit.seems_to_beat_average:
                text += ", but so far no better than guessing your average"
                return PaneLine(text, "not yet", MARKS["not yet"])
            return PaneLine(text, "fine", MARKS["fine"])
        case "as good":
            text = f"Optimized FSRS predicts your answers as well as {name}"
            return PaneLine(text, "fine", MARKS["fine"])
        case "worse":
            text = f"{say.capitalize(name)} would predict your answers better than FSRS"
            return PaneLine(text, "look", MARKS["look"])
        case "can't tell yet" if fit.current_scheduler is not None:
            word = "better" if rival.saved.estimate > 0 else "worse"
            text = (
                f"Optimized FSRS predicts your answers {percent} {word} than {name}, which may be "
                "luck"
            )
            return PaneLine(text, "not yet", MARKS["not yet"])
    return None


def _fit_sentences(finding: f.Finding) -> list[str]:
    """Return whether to change to FSRS, how well it predicts, and what the figures rest on."""
    fit = f.get_evidence(finding, f.Fit)
    sentences = []
    if fit.current_scheduler is not None:
        change = _change_sentence(finding)
        if fit.conclusion in ("no better", "worse"):
            change += " Don't expect much from the change."
        sentences.append(change)
    sentences.append(_fit_sentence(finding))
    if fit.current_scheduler is None:
        for rival in fit.rivals_of_kind("older scheduler"):
            if has_enough_data(rival.difference):
                saving = _format_saving(rival.saved, "SM-2, the older scheduler")
                sentences.append(f"Optimized, FSRS is {saving}.")
    if fit.would_run_fsrs7:
        sentences.append("FSRS here is FSRS-6; once FSRS is on, your Anki runs FSRS-7.")
    missing = finding.missing
    if missing is not None and missing.can_come:
        is_said = any(say.says_missing_data(text, missing) for text in sentences)
        if not is_said:
            sentences.append(say.missing_data_sentence(missing))
    reviews = format_count(finding.reviews, "review")
    days = format_count(fit.log_loss.days, "day")
    basis = (
        f"This is measured by log loss on {reviews} from {days}; “optimized” means fitted to "
        "earlier reviews."
    )
    if fit.parameter_source == "stored":
        basis += (
            " Your parameters may have been fitted to these reviews, which makes them look better "
            "here. The advice for each preset judges them only by later reviews."
        )
    sentences.append(basis)
    return sentences


def _fit_tables(finding: f.Finding) -> list[Table]:
    """Return a table of the rivals' log losses, compared with FSRS-6."""
    fit = f.get_evidence(finding, f.Fit)
    rows: list[tuple[object, ...]] = [("FSRS-6, optimized", fit.log_loss, None, "")]
    for rival in fit.rivals:
        name = candidate_name(rival.name)
        rows.append((name, rival.log_loss, rival.difference, _show_verdict(rival)))
    columns = ("predicted by", LOG_LOSS, log_loss_difference("FSRS-6 minus it"), "verdict")
    return [
        make_evidence_table(
            "FSRS-6, fitted to earlier reviews, and what it was compared with", columns, rows
        )
    ]


# Is FSRS right for a preset?


NO_HEALTH_CHECK = (
    "Anki's health check does not run here: it needs FSRS-6, more than 300 reviews, some of them "
    "remembered and some forgotten, and enough cards with the same first interval."
)
_SCHEDULER_ADVICE = {
    Recommendation.KEEP: "FSRS is right for you",
    Recommendation.TURN_FSRS_ON: "turn FSRS on",
    Recommendation.STAY_WITH_SM2: "SM-2 is right for you",
}


def _health_line(findings: Sequence[f.Finding]) -> str:
    """Summarize whether FSRS is right, grouping presets with equal answers.

    Example: "FSRS is right: Maps (sure, 98 %); too few reviews: Words".
    """
    subjects: dict[str, list[tuple[str, str]]] = {}
    for finding in findings:
        advice, certainty = _health_advice(finding)
        subjects.setdefault(advice, []).append((finding.subject, certainty))
    if len(findings) > 1:
        return say.format_groups(subjects)
    return " ".join(_health_advice(findings[0])).rstrip()


def _health_advice(finding: f.Finding) -> tuple[str, str]:
    """Return the advice on the scheduler, and how sure it is: "(sure, 98 %)" or ""."""
    if finding.probability is None:
        return "too few reviews", ""
    certainty = f"({say.format_certainty(finding.probability)})"
    return _SCHEDULER_ADVICE[finding.recommendation], certainty


def _health_sentences(finding: f.Finding) -> list[str]:
    """Return the comparison with SM-2, and the result of Anki's own health check."""
    health = f.get_evidence(finding, f.Health)
    if health.sm2 is None:
        return [_health_check_sentence(health)]
    sentences = []
    if finding.probability is not None:
        advice = say.capitalize(_SCHEDULER_ADVICE[finding.recommendation])
        claim = "that FSRS predicts your future reviews better than SM-2"
        if finding.recommendation == Recommendation.STAY_WITH_SM2:
            claim = "that SM-2 predicts your future reviews better than FSRS"
        certainty = say.format_certainty(finding.probability, claim)
        sentences.append(f"{advice} ({certainty}).")
    sentences.append(_describe_fsrs_beside_sm2(finding, health.sm2))
    sentences.append(_health_check_sentence(health))
    return sentences


def _describe_fsrs_beside_sm2(finding: f.Finding, sm2: f.Rival) -> str:
    """Say how optimized FSRS-6 and SM-2 did on the learner's own reviews."""
    if not has_enough_data(sm2.difference):
        amount = f"you have only {format_count(finding.reviews, 'held-out review')} of your own"
        if finding.reviews >= MIN_REVIEWS:
            days = format_count(sm2.difference.days, "day")
            amount = f"your own held-out reviews cover only {days}"
        return (
            f"Nearly everybody gains from FSRS, and the advice rests on that: {amount}, too few to "
            "count on their own."
        )
    saving = _format_saving(sm2.saved, "SM-2")
    reviews = format_count(sm2.difference.reviews, "held-out review")
    difference = say.format_log_loss_difference(sm2.difference)
    comparison = f"FSRS-6 predicted {reviews} {saving}; its log loss was {difference}."
    is_fsrs_worse = sm2.difference.estimate > 0
    if is_fsrs_worse and finding.recommendation != Recommendation.STAY_WITH_SM2:
        return (
            f"Nearly everybody gains from FSRS. On your own reviews, though, optimized {comparison}"
        )
    return f"Optimized {comparison}"


def _health_check_sentence(health: f.Health) -> str:
    check = health.check
    if health.runs_fsrs7:
        condition = " once FSRS is on," if health.fsrs_is_off else ""
        return f"Anki's health check is for FSRS-6, and{condition} this preset runs FSRS-7."
    if check is None:
        return NO_HEALTH_CHECK
    result = "passes, because at least one of its figures is within the limit"
    if not check.passed:
        result = "fails, because neither of its figures is within the limit"
    return (
        f"Anki's health check (as in Anki {check.version}) {result}: FSRS's log loss is "
        f"{check.log_loss_ratio:.2f} times what is usual (limit {check.log_loss_limit}), and its "
        f"calibration error, RMSE(bins), {check.rmse_ratio:.2f} times (limit {check.rmse_limit})."
    )


# Which model predicts best?


def _models_sentences(finding: f.Finding) -> list[str]:
    """Return how the user's own models compare, the best model, and which data were left out."""
    comparison = f.get_evidence(finding, f.ModelComparison)
    sentences = []
    for model in comparison.models:
        if model.is_own and model.difference is not None and model.verdict is not None:
            reviews = format_count(model.difference.reviews, "held-out review")
            difference = say.format_log_loss_difference(model.difference)
            beginning = ""
            if model.verdict == "can't tell yet":
                beginning = "Can't tell yet whether "
                quality = "better than"
            elif model.verdict == "as good":
                quality = "as good as"
            else:
                quality = f"{model.verdict} than"
            sentences.append(
                f"{beginning}“{model.name}” predicts {quality} FSRS-6 fitted to earlier reviews: "
                f"on {reviews}, its log loss was {difference}."
            )
    reviews = format_count(finding.reviews, "held-out review")
    lowest = comparison.models[0].log_loss
    assert lowest is not None
    sentences.append(
        f"“{_name_model(comparison.models[0])}” has the lowest log loss on the {reviews}, "
        f"{lowest.estimate:.4f}."
    )
    if comparison.excluded_reviews:
        excluded = format_count(comparison.excluded_reviews, "held-out review")
        sentences.append(f"Left out: {excluded} that not every model predicted.")
    for name, count in comparison.unused_predictions.items():
        predictions = format_count(count, "prediction")
        verb = "is" if count == 1 else "are"
        sentences.append(f"{predictions} by “{name}” {verb} for reviews that are not held out.")
    return sentences


def _name_model(model: f.ComparedModel) -> str:
    """Return a model's name for people; the user's own models keep theirs."""
    return model.name if model.is_own else candidate_name(model.name)


def _models_tables(finding: f.Finding) -> list[Table]:
    """Return a table of all models, the best first."""
    rows = (
        (
            _name_model(model),
            model.log_loss,
            model.rmse_bins,
            model.auc,
            model.difference,
            model.verdict or "",
        )
        for model in f.get_evidence(finding, f.ModelComparison).models
    )
    title = format_count(finding.reviews, "held-out review")
    difference = difference_from(candidate_name(f.OPTIMIZED))
    columns = ("model", LOG_LOSS, "RMSE(bins)", "AUC", difference, "verdict")
    return [make_evidence_table(title, columns, rows)]


# Where do I stand?


_MAX_TELLING_RANGE = 60  # widest range of people, in per cent, that says anything


def percentile_line(findings: Sequence[f.Finding]) -> str:
    """Summarize how the learner compares with other learners.

    Example: "you are harder to predict than 63 to 75 % of people with about as many reviews and
    similar recall".
    """
    return _percentile_sentences(findings[0])[0].rstrip(".")


def _percentile_sentences(finding: f.Finding) -> tuple[str, ...]:
    """Return the percentile by log loss, and what the figures are based on."""
    log_loss = f.get_evidence(finding, f.Percentiles).metrics[0]
    fewest, most = log_loss.people_worse_range
    comparative = "easier"
    if fewest + most < 100:  # most people are predicted better
        comparative = "harder"
        fewest, most = 100 - most, 100 - fewest
    people = str(fewest)
    if fewest != most:
        people = f"{fewest} to {most}"
    basis = (
        f"This compares FSRS-5's log loss on your "
        f"{format_count(finding.reviews, 'held-out review')} with its log loss on those of 9,999 "
        "learners in a public data set. Those who have about as many reviews as you, and recall "
        "about as much, count most."
    )
    if fewest != most:
        basis += (
            f" If you had reviewed on other days, this share would lie between {fewest} and {most} "
            "% in 95 % of cases."
        )
    answer = (
        f"You are {comparative} to predict than {people} % of people with about as many reviews "
        "and similar recall"
    )
    if most - fewest > _MAX_TELLING_RANGE:
        answer = (
            "Your reviews do not show yet how predictable you are beside other people: you are "
            f"{comparative} to predict than {people} % of those with about as many reviews and "
            "similar recall"
        )
    return (
        f"{answer}.",
        basis,
    )


def _percentile_tables(finding: f.Finding) -> tuple[Table, ...]:
    """Return a table of each metric among those of other learners."""
    metrics = f.get_evidence(finding, f.Percentiles).metrics
    levels = (f"{100 * level:.0f} %" for level, _ in metrics[0].quantiles)
    rows = []
    for metric in metrics:
        name = "log loss" if metric.metric == "LogLoss" else metric.metric
        values = (value for _, value in metric.quantiles)
        rows.append((name, metric.figure, *values, metric.people_worse_of_100))
    title = (
        "Your figures among other people's (10 % of people have a lower figure than the one in "
        "column “10 %”; “less well” is the share of people predicted less well)"
    )
    return (make_evidence_table(title, ("metric", "yours", *levels, "less well"), rows),)


# Where a model errs

_ERROR_COLUMNS = ("reviews", RECALLED, EXPECTED, MINUS_EXPECTED, LOG_LOSS)
_ERROR_TITLES = {
    "days": "By days since the previous review",
    "reviews": "By earlier reviews of the card",
    "lapses": "By earlier lapses of the card",
    "hours": "By hours since the day began",
    "deck": "By deck",
    "first rating": "Forgetting curves: the first review on a later day, by first rating",
    "stability": "Forgetting curves by stability, as FSRS-6's defaults estimate it",
}
_CURVE_FEATURES = ("first rating", "stability")
_MAX_PARAMETER_TABLES = 12  # most presets or decks whose parameters are shown

# FSRS's parameters in words (open-spaced-repetition/fsrs4anki wiki: The Algorithm).
_FSRS_6_MEANINGS = (
    "first stability after Again, days",
    "first stability after Hard, days",
    "first stability after Good, days",
    "first stability after Easy, days",
    "first difficulty",
    "first difficulty, by rating",
    "difficulty, change by rating",
    "difficulty, pull to the mean",
    "recalled: growth",
    "recalled: less growth with stability",
    "recalled: more growth if due",
    "forgotten: stability after",
    "forgotten: by difficulty",
    "forgotten: by stability",
    "forgotten: by retrievability",
    "Hard, factor of growth",
    "Easy, factor of growth",
    "same day: growth",
    "same day: effect of the rating",
    "same day: less growth with stability",
    "decay of the forgetting curve",
)
_PARAMETER_MEANINGS = {
    "FSRS-6": _FSRS_6_MEANINGS,
    "FSRS-rs": _FSRS_6_MEANINGS,
    "FSRS-5": _FSRS_6_MEANINGS[:19],
}


@dataclass(frozen=True)
class RecallCurve:
    """Recall of some reviews by days since the previous review; k points, days ascending."""

    name: str
    days: tuple[float, ...]  # mean over the reviews of a point
    recalled: tuple[Interval, ...]
    expected: tuple[float, ...]  # mean prediction


@dataclass(frozen=True)
class CurvesTable(Table):
    """Table that can also be drawn as curves; a curve's reviews are in the rows with its name."""

    curves: tuple[RecallCurve, ...] = ()


def error_tables(model_errors: ModelErrors) -> list[Table]:
    """Return tables of errors by features of reviews, such as days or deck, and of the parameters.

    Forgetting curves are `CurvesTable`s. Parameters stand beside the defaults.
    """
    tables: list[Table] = []
    for feature, groups in model_errors.by_feature.items():
        title = _ERROR_TITLES[feature]
        if feature == "deck" and model_errors.deck_count > len(groups):
            title += f", the {len(groups)} largest of {model_errors.deck_count}"
        if feature in _CURVE_FEATURES:
            tables.append(_make_curves_table(title, feature, groups))
            continue
        columns = ("before" if feature == "reviews" else feature, *_ERROR_COLUMNS)
        rows = (
            (group.label or format_range(group.first, group.last), *_error_figures(group))
            for group in groups
        )
        tables.append(make_evidence_table(title, columns, rows))
    tables += _parameter_tables(model_errors)
    return tables


def _make_curves_table(title: str, feature: str, groups: Sequence[ErrorGroup]) -> CurvesTable:
    columns = (feature, "days", *_ERROR_COLUMNS)
    rows = [
        (group.label, format_range(group.first, group.last), *_error_figures(group))
        for group in groups
    ]
    table = CurvesTable.from_rows("", title, columns, rows)
    return replace(table, curves=_recall_curves(groups))


def _error_figures(group: ErrorGroup) -> tuple[object, ...]:
    """Return a group's figures in the order of `_ERROR_COLUMNS`."""
    return (
        group.recalled.reviews,
        group.recalled.estimate,
        group.expected,
        group.bias,
        group.log_loss,
    )


def _recall_curves(groups: Sequence[ErrorGroup]) -> tuple[RecallCurve, ...]:
    groups_by_label: dict[str, list[ErrorGroup]] = {}
    for group in groups:
        if group.has_enough_reviews:
            groups_by_label.setdefault(group.label, []).append(group)
    curves = []
    for label, points in groups_by_label.items():
        curve = RecallCurve(
            name=label,
            days=tuple(group.mean_days for group in points),
            recalled=tuple(group.recalled for group in points),
            expected=tuple(group.expected for group in points),
        )
        curves.append(curve)
    return tuple(curves)


def _parameter_tables(model_errors: ModelErrors) -> list[Table]:
    """Return a table for each preset or deck that has its own parameters."""
    if model_errors.is_own:
        title = "Parameters stored in Anki"
        value_column = "in Anki"
    else:
        title = "Parameters of the last fold, fitted to most of the reviews"
        value_column = "fitted"
    columns = ("parameter", "meaning", "default", value_column)
    meanings = _PARAMETER_MEANINGS.get(model_errors.model, ())
    defaults = model_errors.defaults
    tables = []
    for name, values in model_errors.parameters[:_MAX_PARAMETER_TABLES]:
        is_other_version = model_errors.is_own and len(values) != len(defaults)
        has_defaults = len(defaults) >= len(values) and not is_other_version
        rows = []
        for k, value in enumerate(values):
            has_meaning = k < len(meanings) and not is_other_version
            meaning = meanings[k] if has_meaning else ""
            default = defaults[k] if has_defaults else None
            rows.append((f"w{k}", meaning, default, value))
        full_title = f"{title}: {name}" if name else title
        tables.append(make_evidence_table(full_title, columns, rows))
    count = len(model_errors.parameters)
    if count > _MAX_PARAMETER_TABLES:
        note = f"the first {_MAX_PARAMETER_TABLES} of {count} {model_errors.partitions}s"
        tables[-1] = replace(tables[-1], title=f"{tables[-1].title} ({note})")
    return tables


# What a model's loss consists of

_LOSS_HEADS = (
    "reviews",
    LOG_LOSS,
    Column("average"),
    Column(
        "minus average", signed=True, round_by_interval=False, heading_note="below zero is better"
    ),
)


def list_loss_figures(breakdown: LossBreakdown) -> list[tuple[str, str, str]]:
    """Return the skill and the parts of the Brier score: name, figure and meaning of each."""
    parts = breakdown.brier_parts
    figures = []
    for name, value, loss in (
        ("skill", breakdown.log_loss_skill, "log loss"),
        ("Brier skill", breakdown.brier_skill, "Brier score"),
    ):
        if value is not None:
            meaning = f"{loss} that it saves, compared with the average"
            figures.append((name, _format_skill(value), meaning))
    chance = f"{parts.expected_reliability:.4f}"
    chance = "less than 0.0001" if float(chance) == 0 else f"about {chance}"
    for name, value, meaning in (
        (
            "Brier score",
            parts.brier,
            "mean squared error: reliability − resolution + uncertainty",
        ),
        (
            "reliability",
            parts.reliability,
            f"squared error of calibration; lower is better. Chance alone makes it {chance}",
        ),
        (
            "resolution",
            parts.resolution,
            "how well the model separates easy from hard reviews; higher is better",
        ),
        (
            "uncertainty",
            parts.uncertainty,
            "score of guessing your overall recall every time; the same for every model",
        ),
    ):
        figures.append((name, _with_minus(f"{value:.4f}"), meaning))
    return figures


def describe_skill(breakdowns: Mapping[str, LossBreakdown]) -> str:
    """Return how much log loss models save, by their names for people, compared with the average.

    Example: "log loss, compared with guessing your average: FSRS-6 9.7 % less". "" if unknown.
    """
    savings = []
    for model, breakdown in breakdowns.items():
        value = breakdown.log_loss_skill
        if value is None or math.isnan(value):
            continue
        more_or_less = "more" if value < 0 else "less"
        savings.append(f"{model} {100 * abs(value):.1f} % {more_or_less}")
    if not savings:
        return ""
    return f"log loss, compared with guessing your average: {say.join_names(savings)}"


def _format_skill(value: float) -> str:
    if math.isnan(value):
        return "–"
    return f"{_with_minus(f'{100 * value:.1f}')} %"


def _with_minus(number: str) -> str:
    """Return a number with a true minus sign; 0 has none."""
    return number.removeprefix("-") if float(number) == 0 else number.replace("-", "−")


def make_loss_parts_table(breakdowns: Mapping[str, LossBreakdown]) -> Table:
    """Return a row of skill and parts of the Brier score for each model, by its name for people."""
    share = Column("skill", digits=1, percent=True)
    heads = (
        "model",
        share,
        replace(share, title="Brier skill"),
        "Brier score",
        "reliability",
        Column("by chance", minor=True),
        "resolution",
        "uncertainty",
    )
    rows = []
    for model, breakdown in breakdowns.items():
        parts = breakdown.brier_parts
        row = (
            model,
            breakdown.log_loss_skill,
            breakdown.brier_skill,
            parts.brier,
            parts.reliability,
            parts.expected_reliability,
            parts.resolution,
            parts.uncertainty,
        )
        rows.append(row)
    title = "Skill against the average, and Brier score = reliability − resolution + uncertainty"
    return make_evidence_table(title, heads, rows)


def make_loss_by_reviews_table(breakdowns: Mapping[str, LossBreakdown]) -> Table:
    """Return the log loss of models, by their names for people, by earlier reviews of the card.

    Without names ("" for a single model), there is no column of models.
    """
    rows = [
        (model, format_range(group.first, group.last), *_loss_figures(group))
        for model, breakdown in breakdowns.items()
        for group in breakdown.by_reviews_before
    ]
    title = "Log loss by earlier reviews of the card"
    return _make_loss_table(title, "before", rows, any(breakdowns))


def make_loss_by_fold_table(breakdowns: Mapping[str, LossBreakdown]) -> Table:
    """Return the log loss of models, by their names for people, fold by fold.

    Without names ("" for a single model), there is no column of models.
    """
    rows = [
        (model, group.first, *_loss_figures(group))
        for model, breakdown in breakdowns.items()
        for group in breakdown.by_fold
    ]
    title = "Log loss as your history grew, part by part"
    return _make_loss_table(title, "reviews before", rows, any(breakdowns))


def _loss_figures(group: LossGroup) -> tuple[object, ...]:
    """Return a group's figures in the order of `_LOSS_HEADS`."""
    return group.reviews, group.log_loss, group.average_log_loss, group.difference


def _make_loss_table(
    title: str, heading: str, rows: Sequence[tuple[object, ...]], has_names: bool
) -> Table:
    """Return a table of losses without empty columns: the first cell of a row is the model."""
    heads: Sequence[str | Column] = ("model", heading, *_LOSS_HEADS)
    first_column = 0 if has_names else 1
    kept = [
        column
        for column in range(first_column, len(heads))
        if any(row[column] is not None for row in rows)
    ]
    return make_evidence_table(
        title, [heads[k] for k in kept], [[row[k] for k in kept] for row in rows]
    )


RENDERERS: Mapping[type[f.Evidence], Renderer] = {
    f.Fit: Renderer(_fit_sentences, tables=_fit_tables),
    f.Health: Renderer(_health_sentences, _health_line),
    f.ModelComparison: Renderer(
        _models_sentences, tables=_models_tables, are_tables_the_answer=True
    ),
    f.Percentiles: Renderer(_percentile_sentences, percentile_line, _percentile_tables),
}
