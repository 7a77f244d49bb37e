"""Sentences and tables about parameters, and about one preset or several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from srs_eval.advice import findings as f
from srs_eval.advice import sentences as say
from srs_eval.advice.findings import Belief, Recommendation
from srs_eval.advice.sentences import Renderer
from srs_eval.advice.shown.columns import (
    LOG_LOSS,
    VERDICT_OF_ACT,
    difference_from,
    log_loss_difference,
    make_evidence_table,
)
from srs_eval.data.errors import format_count
from srs_eval.stats.tables import Column, Table

_CANDIDATE_NAMES: Mapping[str, str] = {
    f.CURRENT: "current",
    f.RECENCY: "optimized, as Anki does it",
    f.OPTIMIZED: "optimized, all reviews counting equally",
    f.DEFAULTS: "FSRS's defaults",
    f.POOLED: "optimized, helped by the other presets",
    f.SHARED: "one set for all presets",
    f.ONE_FOR_ALL: "all presets optimized as one",
    f.TAUGHT: "suited to few reviews",
    f.FSRS_7: "FSRS-7, optimized",
    f.SM2: "SM-2",
    f.AVERAGE: "always your average",
    f.ONE_PER_DECK: "one set for each deck",
}
_SHORT_RECOMMENDATIONS: Mapping[Recommendation, str] = {
    Recommendation.KEEP: "keep the current parameters",
    Recommendation.OPTIMIZE: "press Optimize",
    Recommendation.POOLED: "paste new parameters",
    Recommendation.ONE_LINE: "paste the same new parameters",
    Recommendation.TAUGHT: "paste parameters suited to few reviews",
    Recommendation.CHANGE_TO_FSRS_7: "choose FSRS-7 and optimize",
    Recommendation.DEFAULTS: "go back to the defaults",
    Recommendation.LEFT_OUT: "repair the stored parameters",
    Recommendation.NONE: "see each preset",
}
_PRESET_ACTIONS = {
    Recommendation.ONE_LINE: "paste",
    Recommendation.POOLED: "paste",
    Recommendation.TAUGHT: "paste",
    Recommendation.CHANGE_TO_FSRS_7: "choose FSRS-7",
    Recommendation.DEFAULTS: "use defaults",
}
INSTRUCTIONS: Mapping[Recommendation, str] = {
    Recommendation.KEEP: "leave the parameters as they are",
    Recommendation.OPTIMIZE: "press Optimize",
    Recommendation.POOLED: "paste new parameters into this preset",
    Recommendation.ONE_LINE: (
        "paste into this preset the parameters fitted to all your presets together"
    ),
    Recommendation.TAUGHT: "paste parameters suited to few reviews into this preset",
    Recommendation.CHANGE_TO_FSRS_7: "choose FSRS-7 for this preset and press Optimize",
    Recommendation.DEFAULTS: "go back to the default parameters",
}
_PASTED = (Recommendation.POOLED, Recommendation.ONE_LINE, Recommendation.TAUGHT)
"""Recommendations whose parameters stand below them."""


_EVEN = 0.5  # a smaller chance that no change helps is told as that of the change
HARDLY_MATTERS = "it hardly matters"
_CHANGES: Mapping[str, str] = {
    f.RECENCY: "optimizing",
    f.POOLED: "pasting new parameters",
    f.SHARED: "pasting new parameters",
    f.TAUGHT: "pasting parameters suited to few reviews",
    f.FSRS_7: "changing to FSRS-7",
    f.DEFAULTS: "going back to the defaults",
}
"""Names of the changes, by candidate; each is the subject of a sentence."""
_TAUGHT_SENTENCE = (
    "You have few reviews. So FSRS was also fitted to the answers that three models predict for "
    "intervals that you have not had, and the resulting parameters were averaged with those that "
    "Optimize finds. In 22 of 25 trials on real people with as few reviews, such parameters "
    "predicted the next reviews better than those that Optimize finds. "
    f"{say.OPTIMIZE_OVERWRITES}"
)
_STILL_ADVISED_SENTENCE = (
    "This change was likely to help earlier, and your reviews since then do not clearly contradict "
    "that."
)
_TOO_FEW_TO_FIT_SENTENCE = (
    "Leave the parameters as they are: you have too few reviews for Anki to fit new ones."
)
_HAS_TO_CHOOSE_SENTENCE = (
    "Once FSRS is on, you use either the defaults or optimized parameters, so srs-eval names the "
    "better bet of the two, even if it is not likely."
)
_KEEP_UNLESS_LIKELY_SENTENCE = (
    "srs-eval recommends changing parameters that you already use only if the chance is at least "
    f"{round(100 * f.LIKELY)} %."
)
_CLAIM = "that this improves the predictions of your future reviews"
_CLAIM_OF_KEEPING = "that a change would gain you next to nothing"


def describe_doubt(finding: f.Finding) -> str:
    """Return the sentence on a change that may help or not, without figures of log loss.

    Example: "Optimizing may help or do harm: the chance that it helps at all is 57 %."

    The probability of an act to keep is another one: that no change helps noticeably.
    """
    change = say.capitalize(_CHANGES[_compared_candidate(finding).name])
    if finding.hardly_matters:
        return f"{change} would hardly change how well FSRS predicts your answers."
    belief = _compared_belief(finding)
    helped = say.round_down_percent(belief.probability)
    return f"{change} may help or do harm: the chance that it helps at all is {helped} %."


def _compared_candidate(finding: f.Finding) -> f.Candidate:
    """Return the best change of a preset's parameters."""
    evidence = f.get_evidence(finding, f.PresetParameters)
    return next(
        candidate
        for candidate in evidence.candidates
        if candidate.name == evidence.compared_candidate
    )


def _compared_belief(finding: f.Finding) -> f.Belief:
    belief = _compared_candidate(finding).belief
    assert belief is not None
    return belief


def preset_action(finding: f.Finding) -> str:
    """Return what to do with a preset: "optimize", "paste", "keep"."""
    if isinstance(finding.evidence, f.UnsupportedParameters):
        return "repair"
    if not finding.parameters:
        return "keep"
    return _PRESET_ACTIONS.get(finding.recommendation, finding.recommendation)


def candidate_name(candidate: str) -> str:
    """Return the name of a candidate for people."""
    return _CANDIDATE_NAMES.get(candidate, candidate)


def _parameter_line(findings: Sequence[f.Finding]) -> str:
    """Summarize how sure the recommendation is: "●●●●○ likely, 88 %".

    If nothing is to be changed because a change is not likely to help, the chance is that of the
    change: "●●●○○ not sure, 74 % chance that optimizing helps, too low to advise it". While FSRS is
    off, the recommendation is compared with FSRS's defaults.
    """
    finding = findings[0]
    evidence = finding.evidence
    if not isinstance(evidence, f.PresetParameters):
        return _parameter_sentences(finding)[0]
    if finding.probability is None:
        return "not evaluated"
    if not evidence.can_be_fitted and finding.recommendation == Recommendation.KEEP:
        return "too few reviews to fit new ones"
    probability, is_of_keeping = _choose_chance(finding, finding.probability)
    certainty = say.format_certainty(probability, has_to_choose=_has_to_choose(finding, evidence))
    claim = ""
    if not finding.parameters and not is_of_keeping:
        claim = f"that {_CHANGES[evidence.compared_candidate]} helps"
    chance = f" chance {claim}, too low to advise it" if claim else ""
    if evidence.fsrs_is_off:
        return f"once FSRS is on: {certainty}{chance}"
    if finding.hardly_matters and not finding.parameters:
        return HARDLY_MATTERS
    if f.lacks_own_evidence(finding):
        return _population_certainty(probability, claim)
    return f"{say.format_dots(probability)} {certainty}{chance}"


def _has_to_choose(finding: f.Finding, evidence: f.PresetParameters) -> bool:
    """Return whether parameters have to be chosen, however unsure they are.

    They have to be if FSRS is to be turned on with them, or if they were likely to help before.
    """
    return bool(finding.parameters) and (evidence.fsrs_is_off or evidence.is_still_advised)


def _choose_chance(finding: f.Finding, probability: float) -> tuple[float, bool]:
    """Return the chance to tell, and whether it is that of keeping the parameters.

    A small chance that no change helps noticeably would read as an advice to change: that of the
    best change is told instead.
    """
    if finding.recommendation != Recommendation.KEEP:
        return probability, False
    if probability >= _EVEN:
        return probability, True
    return _compared_belief(finding).probability, False


def _parameter_sentences(finding: f.Finding) -> tuple[str, ...]:
    """Return what to do and how sure that is, what it rests on, and caveats."""
    match finding.evidence:
        case f.UnsupportedParameters(sentence=sentence):
            return (sentence,)
        case f.ParameterSummary() as summary:
            return _summary_sentences(summary)
    evidence = finding.evidence
    assert isinstance(evidence, f.PresetParameters)
    if finding.probability is None:
        return ("Nothing to do.", *_caveats(evidence))
    if not evidence.can_be_fitted and finding.recommendation == Recommendation.KEEP:
        return (_TOO_FEW_TO_FIT_SENTENCE, *_caveats(evidence))
    instruction = INSTRUCTIONS[finding.recommendation]
    if finding.recommendation == Recommendation.OPTIMIZE and not evidence.is_known:
        instruction = "if you use FSRS, optimize its parameters"
    is_keep = finding.recommendation == Recommendation.KEEP
    change = _CHANGES[evidence.compared_candidate]
    probability, is_of_keeping = _choose_chance(finding, finding.probability)
    claim = _CLAIM_OF_KEEPING if is_of_keeping else _CLAIM
    rejected_chance = find_rejected_chance(finding)
    if is_of_keeping and rejected_chance is not None:
        claim = f"that {change} would gain you next to nothing"
    if not is_of_keeping and not finding.parameters:
        claim = f"that {change} improves the predictions of your future reviews"
    if not is_keep and not finding.parameters:
        if finding.recommendation in _PASTED:  # there is nothing below that could be pasted
            instruction = INSTRUCTIONS[Recommendation.KEEP]
        else:
            instruction = f"{INSTRUCTIONS[Recommendation.KEEP]}, or {instruction}"
    if not finding.parameters and finding.hardly_matters:
        instruction += f": {change} would hardly matter"
    elif not finding.parameters and finding.probability < f.LIKELY:
        outcome = say.format_gain_or_loss(_compared_belief(finding))
        instruction += f": {change} could {outcome}"
    if evidence.fsrs_is_off:
        if not is_of_keeping:
            claim += " compared with FSRS's defaults"
        instruction = f"once FSRS is on, {instruction}"
    if f.lacks_own_evidence(finding):
        certainty = _population_certainty(probability, claim)
    else:
        has_to_choose = _has_to_choose(finding, evidence)
        certainty = say.format_certainty(probability, claim, has_to_choose=has_to_choose)
    answer = f"{say.capitalize(instruction)} ({certainty})."
    sentences = [answer, _basis_sentence(finding, evidence)]
    if finding.parameters and evidence.fsrs_is_off and finding.probability < f.LIKELY:
        sentences.append(_HAS_TO_CHOOSE_SENTENCE)
    if not finding.parameters and not is_of_keeping and finding.probability < f.LIKELY:
        sentences.append(_KEEP_UNLESS_LIKELY_SENTENCE)
    if evidence.is_still_advised:
        sentences.append(_STILL_ADVISED_SENTENCE)
    if finding.recommendation == Recommendation.TAUGHT:
        sentences.append(_TAUGHT_SENTENCE)
    if rejected_chance is not None:
        rival = "your current ones" if evidence.is_fitted else "FSRS's defaults"
        sentences.append(
            "Parameters suited to few reviews might predict better, too: the chance that they beat "
            f"{rival} is {say.round_down_percent(rejected_chance)} %. You would have to paste "
            "them, and Optimize would overwrite them, so srs-eval recommends them only from "
            f"{round(100 * f.LIKELY)} % on."
        )
    return (*sentences, *_caveats(evidence))


def find_rejected_chance(finding: f.Finding) -> float | None:
    """Return the chance that taught parameters are better, though too small to advise them.

    None if they are advised, are no candidate, or are rather worse than better.
    """
    evidence = finding.evidence
    if finding.recommendation == Recommendation.TAUGHT:
        return None
    if not isinstance(evidence, f.PresetParameters):
        return None
    for candidate in evidence.candidates:
        if candidate.name == f.TAUGHT and candidate.belief is not None:
            chance = candidate.belief.probability
            return chance if 0.5 < chance < f.LIKELY else None
    return None


def _summary_sentences(summary: f.ParameterSummary) -> tuple[str, str]:
    """Return what to do with each preset, and the best candidate over all presets."""
    recommendations = [
        f"{say.join_names(names)}: {_SHORT_RECOMMENDATIONS[recommendation]}."
        for recommendation, names in summary.by_recommendation
    ]
    best = summary.held_out[0]
    assert best.log_loss is not None
    reviews = format_count(best.log_loss.reviews, "held-out review")
    return (
        " ".join(recommendations),
        f"Over all presets together, “{candidate_name(best.name)}” predicts best: its log loss is "
        f"{best.log_loss.estimate:.4f} on {reviews}.",
    )


def _population_certainty(probability: float, claim: str = "") -> str:
    """Format a probability that other people's reviews give: "judging by other people, 88 %"."""
    percent = f"{say.round_down_percent(probability)} %"
    if claim:
        return f"judging by other people, the chance {claim} is {percent}"
    return f"judging by other people, {percent}"


def _describe_expected_gain(belief: Belief) -> str:
    """Describe a gain: "log loss should fall by about 0.024 (95 % range: 0.011 to 0.037)".

    A range on both sides of zero is "(95 % range: from a rise of 0.011 to a fall of 0.024)".
    """
    low, high = (f"{abs(bound):.3f}" for bound in (belief.low, belief.high))
    change = "rise" if belief.gain < 0 else "fall"
    text = f"log loss should {change} by about {abs(belief.gain):.3f}"
    if belief.low > 0:
        return f"{text} (95 % range: {low} to {high})"
    if belief.high < 0:
        return f"{text} (95 % range: {high} to {low})"
    return f"{text} (95 % range: from a rise of {low} to a fall of {high})"


def _basis_sentence(finding: f.Finding, evidence: f.PresetParameters) -> str:
    candidate = _compared_candidate(finding)
    belief = _compared_belief(finding)
    expected = _describe_expected_gain(belief)
    if evidence.is_fitted:
        population = "what people gained by optimizing again"
        reference = "your current parameters"
    else:
        population = "what people with about as many reviews gained"
        reference = "FSRS's defaults"
    if (
        candidate.difference is None
        and finding.recommendation == Recommendation.KEEP
        and (finding.probability or 0.0) >= f.SURE
    ):
        return (
            "There is next to nothing new to learn from: optimizing today would give the same "
            "parameters."
        )
    if candidate.difference is None:
        too_few = "You have too few reviews to test this."
        if evidence.is_fitted:
            too_few = "Too few of your reviews are known to be newer than your parameters."
        return f"{too_few} Judging by {population}, {expected}."
    name = candidate_name(candidate.name)
    count = candidate.difference.reviews
    reviews = f"{format_count(count, 'held-out review')} of your own"
    if evidence.is_fitted:
        reviews = f"{format_count(count, 'review')} since your current parameters were set"
    difference = say.format_log_loss_difference(candidate.difference, f"that of {reference}")
    return (
        f"On {reviews}, the log loss of “{name}” was {difference}. Judging by this and "
        f"by {population}, {expected}."
    )


def _caveats(evidence: f.PresetParameters) -> tuple[str, ...]:
    caveats = []
    if evidence.excluded_majority:
        caveats.append(
            f"Most of your reviews are of cards that are now {evidence.excluded_majority}, so "
            "presets cannot be evaluated."
        )
    elif not evidence.is_known:
        caveats.append(
            "The file does not say which parameters you use, so the comparison is with FSRS's "
            "defaults."
        )
    if evidence.search:
        caveats.append(
            f"Anki optimizes this preset on the cards found by the search “{evidence.search}”; "
            "srs-eval uses all of the preset's cards that are not suspended."
        )
    return tuple(caveats)


def _parameter_tables(finding: f.Finding) -> tuple[Table, ...]:
    """Return tables of candidates on reviews since the last change and on all held-out reviews.

    The second table omits candidates that the first shows on the same reviews.
    """
    evidence = finding.evidence
    tables = []
    omitted: set[str] = set()
    has_reviews = isinstance(evidence, f.PresetParameters) and finding.reviews > 0
    if isinstance(evidence, f.PresetParameters) and not evidence.excluded_majority and has_reviews:
        tables.append(_candidate_table(finding, evidence))
        if not evidence.is_fitted:  # the held-out reviews are the same
            omitted = {candidate.name for candidate in evidence.candidates} - {f.OPTIMIZED}
    if isinstance(evidence, f.PresetParameters | f.ParameterSummary) and evidence.held_out:
        rows = (
            (
                candidate_name(candidate.name),
                candidate.log_loss,
                candidate.difference,
                candidate.verdict or "",
            )
            for candidate in evidence.held_out
            if candidate.name not in omitted
        )
        log_loss = evidence.held_out[0].log_loss
        count = 0 if log_loss is None else log_loss.reviews
        title = f"{finding.subject}: all {format_count(count, 'held-out review')}"
        if count == 1:
            title = f"{finding.subject}: its only held-out review"
        difference = difference_from(candidate_name(f.OPTIMIZED))
        columns = ("candidate", LOG_LOSS, difference, VERDICT_OF_ACT)
        tables.append(make_evidence_table(say.capitalize(title), columns, rows))
    return tuple(tables)


def _candidate_table(finding: f.Finding, evidence: f.PresetParameters) -> Table:
    """Return the table of a preset's candidates on reviews since the last change."""
    if not evidence.is_known or evidence.fsrs_is_off:
        current_name = "FSRS's defaults"
    elif evidence.is_fitted:
        current_name = "current"
    else:
        current_name = "FSRS's defaults (current)"
    rows = []
    for candidate in evidence.candidates:
        if candidate.name == f.DEFAULTS and not evidence.is_fitted:
            continue  # the defaults are in force
        row = (
            current_name if candidate.name == f.CURRENT else candidate_name(candidate.name),
            candidate.log_loss,
            candidate.difference,
            candidate.verdict or "",
            None
            if candidate.belief is None or not evidence.can_be_fitted
            else f"{say.round_down_percent(candidate.belief.probability)} %",
        )
        rows.append(row)
    reviews = format_count(finding.reviews, "held-out review")
    if evidence.is_fitted:
        first = f"the first {format_count(finding.reviews, 'review')}"
        reviews = f"{first} since these parameters were set"
    difference = difference_from(current_name)
    chance = Column("chance", heading_note="that it predicts your future reviews better")
    columns = ("candidate", LOG_LOSS, difference, VERDICT_OF_ACT, chance)
    return make_evidence_table(f"{finding.subject}: {reviews}", columns, rows)


# One preset or several?

_SHARING_LINES: Mapping[Recommendation, str] = {
    Recommendation.KEEP_SHARED: "one set of parameters is enough for all",
    Recommendation.SPLIT: "each should keep parameters of its own",
    Recommendation.POOLED: "a set for each, which also learns from the others",
}
_SHARING_SENTENCES: Mapping[Recommendation, str] = {
    Recommendation.KEEP_SHARED: (
        "You {forget} at much the same rate in your {units}: one set of parameters is enough"
    ),
    Recommendation.SPLIT: (
        "You {forget} differently in your {units}: give each parameters of its own"
    ),
    Recommendation.POOLED: (
        "Give each of your {units} parameters of its own, which also learn from the others"
    ),
}
"""Sentences that get their certainty in brackets at the end."""
_SHARING_NAMES: Mapping[str, str] = {
    "split": "a set for each",
    "pooled": "sets that learn from each other",
}


def _sharing_line(findings: Sequence[f.Finding]) -> str:
    """Summarize whether presets can share parameters.

    Example: "one set of parameters is enough for all ●●●●● sure, 98 %".
    """
    finding = findings[0]
    if finding.probability is None:
        return _sharing_sentences(finding)[0]
    answer = _SHARING_LINES[finding.recommendation]
    dots = say.format_dots(finding.probability)
    return f"{answer} {dots} {say.format_certainty(finding.probability)}"


def describe_single_preset(finding: f.Finding) -> str:
    """Return the answer on presets if only one of them has usable reviews."""
    sharing = f.get_evidence(finding, f.Sharing)
    name = say.quote_name(finding.subject)
    if sharing.has_unused_presets:
        return f"Only {name} has usable reviews, so there is nothing to compare yet."
    if sharing.has_unreviewed_presets:
        return f"All your reviews are in {name}, so there are no presets to compare."
    return "You have one. Keep it."


def _sharing_sentences(finding: f.Finding) -> tuple[str, ...]:
    evidence = f.get_evidence(finding, f.Sharing)
    if evidence.conclusion == f.RUNS_FSRS_7:
        return (
            "Whether presets that run FSRS-7 could share parameters is unknown: srs-eval can "
            "check this only for FSRS-6.",
        )
    if evidence.unit_count == 1:
        return (describe_single_preset(finding),)
    units = f"{evidence.unit_count} {evidence.unit}s"
    if not evidence.differences:
        reviews = format_count(finding.reviews, "held-out review")
        verb = "is" if finding.reviews == 1 else "are"
        return (f"Keep your {units} for now: {reviews} {verb} too few for a comparison.",)
    assert finding.probability is not None
    forget = say.choose_forget_verb(finding.probability)
    answer = _SHARING_SENTENCES[finding.recommendation].format(units=units, forget=forget)
    claim = "that separate parameters predict at least as well as shared ones"
    if finding.recommendation == Recommendation.KEEP_SHARED:
        claim = "that separate ones would gain you next to nothing"
    sentences = [f"{answer} ({say.format_certainty(finding.probability, claim)})."]
    if finding.recommendation == Recommendation.POOLED:
        sentences.append(
            "On average, this lowers log loss by 0.005 if presets differ, and raises it by 0.0003 "
            "if they do not."
        )
    if evidence.groups and len(evidence.groups) not in (1, evidence.unit_count):
        groups = "; ".join(map(say.join_names, evidence.groups))
        sentences.append(
            f"Judging by how well each predicts the others' reviews, these go together: {groups}."
        )
    return tuple(sentences)


def _sharing_tables(finding: f.Finding) -> tuple[Table, ...]:
    evidence = f.get_evidence(finding, f.Sharing)
    if not evidence.differences:
        return ()
    rows = []
    for unit in evidence.differences:
        reviews = unit.difference.reviews
        parameters = _SHARING_NAMES.get(unit.parameters, unit.parameters)
        rows.append((unit.subject, parameters, reviews, unit.difference, unit.decision))
    difference = log_loss_difference("minus one set")
    decision = replace(VERDICT_OF_ACT, title="decision")
    columns = ("reviews of", "parameters", "reviews", difference, decision)
    title = f"A set of parameters for each {evidence.unit}, or one set for all"
    if finding.subject != f.ALL_PRESETS:
        title = f"{finding.subject}: {title}"
    tables = [make_evidence_table(title, columns, rows)]
    if evidence.pairs:
        title = "Parameters of one preset on reviews of another"
        difference = log_loss_difference("minus own")
        pair_columns = ("parameters of", "reviews of", difference, "verdict")
        tables.append(make_evidence_table(title, pair_columns, evidence.pairs))
    return tuple(tables)


RENDERERS: Mapping[type[f.Evidence], Renderer] = {
    **dict.fromkeys(
        (f.PresetParameters, f.ParameterSummary, f.UnsupportedParameters),
        Renderer(_parameter_sentences, _parameter_line, _parameter_tables),
    ),
    f.Sharing: Renderer(_sharing_sentences, _sharing_line, _sharing_tables),
}
