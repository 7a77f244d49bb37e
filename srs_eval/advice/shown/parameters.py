"""What is said of parameters, and of one preset or several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from srs_eval.advice import findings as f
from srs_eval.advice import sentences as say
from srs_eval.advice.sentences import Cell, Renderer, Table
from srs_eval.data.errors import counted
from srs_eval.stats.intervals import FEWEST_REVIEWS

_NAMES: Mapping[str, str] = {
    f.NOW: "current",
    f.RECENCY: "optimized, as Anki does it",
    f.OPTIMIZED: "optimized, all reviews alike",
    f.DEFAULTS: "FSRS's defaults",
    f.POOLED: "optimized, drawn towards all presets",
    f.TOGETHER: "one line for all presets",
    f.SM2: "SM-2",
}
_IN_SHORT: Mapping[str, str] = {
    f.KEEP: "keep",
    "optimize": "optimize",
    "pooled": "paste a line",
    "one line": "paste one line",
    "defaults": "use the defaults",
    "left out": "repair",
    "": "see each preset",
}
_TO_DO = {"one line": "copy a line", "pooled": "copy a line", "defaults": "default numbers"}
DO: Mapping[str, str] = {
    f.KEEP: "leave the parameters as they are",
    "optimize": "press Optimize",
    "pooled": "copy the line below into this preset",
    "one line": "copy the line below into this preset, the same for all that say so",
    "defaults": "go back to the default parameters",
}


def what_to_do(finding: f.Finding) -> str:
    """ "optimize", "copy a line", "leave": with a preset."""
    if isinstance(finding.evidence, f.LeftOut):
        return "repair"
    return _TO_DO.get(finding.act, finding.act) if finding.parameters else "leave"


def named(candidate: str) -> str:
    """A candidate as a person reads it."""
    return _NAMES.get(candidate, candidate)


def _in_line(findings: Sequence[f.Finding]) -> str:
    """ "●●●●○ likely, 88 of 100"; while FSRS is off, how sure that is is told of turning it on."""
    (finding,) = findings[:1]
    evidence = finding.evidence
    if not isinstance(evidence, f.OfPreset):
        return _sentences(finding)[0]
    if finding.probability is None:
        return "nothing to schedule"
    if evidence.fsrs_is_off:
        return "once FSRS is on"
    if is_unjudged(finding):
        return _by_others(finding.probability)
    return f"{say.dots(finding.probability)} {say.of_100(finding.probability)}"


def _sentences(finding: f.Finding) -> tuple[str, ...]:
    """What to do and how sure that is, what it rests on, and what is missing."""
    match finding.evidence:
        case f.LeftOut(sentence=sentence):
            return (sentence,)
        case f.OfAll(by_act=by_act, held_out=held_out):
            each = [f"{_IN_SHORT[act]}: {say.listed(names)}" for act, names in by_act]
            best = held_out[0]
            assert best.log_loss is not None
            return (
                f"{say.capital('; '.join(each))}.",
                f"Best over all presets: {named(best.name)}, log loss "
                f"{best.log_loss.estimate:.4f} on {counted(best.log_loss.reviews, 'review')} that "
                "no candidate had seen.",
            )
    evidence = finding.evidence
    assert isinstance(evidence, f.OfPreset)
    if finding.probability is None:
        return ("Nothing to do.", *_more(evidence))
    do, sure = DO[finding.act], f" ({say.of_100(finding.probability)})"
    if finding.act == "optimize" and not evidence.known:
        do = "let FSRS optimize its parameters"
    if finding.act != f.KEEP and not finding.parameters:
        do = f"{DO[f.KEEP]}, or {DO['optimize']}: neither is a mistake"
    if is_unjudged(finding):
        sure = f" ({_by_others(finding.probability)})"
    if evidence.fsrs_is_off:  # how sure that is is told of turning it on
        do, sure = f"once FSRS is on: {do}", ""
    return (f"{say.capital(do)}{sure}.", _basis(finding, evidence), *_more(evidence))


def is_unjudged(finding: f.Finding) -> bool:
    """Whether nothing of the learner's own speaks for a preset's parameters."""
    evidence = finding.evidence
    if finding.act != f.KEEP or not isinstance(evidence, f.OfPreset):
        return False
    held_out = evidence.held_out[0].log_loss if evidence.held_out else None
    few = held_out is None or held_out.reviews < FEWEST_REVIEWS
    return few and all(each.difference is None for each in evidence.candidates)


def _by_others(probability: float) -> str:
    return f"by other people's reviews {say.times_in_100(probability)} of 100"


def _basis(finding: f.Finding, evidence: f.OfPreset) -> str:
    chosen = next(each for each in evidence.candidates if each.name == evidence.about)
    belief = chosen.belief
    assert belief is not None
    low, high = (say.signed(each, 3) for each in (belief.low, belief.high))
    others = "what people with as many reviews gained"
    reference = "FSRS's defaults"
    if evidence.stored:
        others, reference = "what people gained by optimizing again", "yours"
    name = named(chosen.name)
    expected = f"expect {say.signed(belief.gain, 3)} log loss gained ({low} to {high})"
    if (
        chosen.difference is None
        and finding.act == f.KEEP
        and (finding.probability or 0.0) >= f.SURE
    ):
        return "There is next to nothing new to learn from: a fit of today would be the same."
    if chosen.difference is None:
        return f"Too few reviews that neither had seen: by {others}, {expected}."
    own = say.figures(chosen.difference, "unseen review", f" than {reference}")
    return f"On your own reviews: {name}, {own}. Together with {others}, {expected}."


def _more(evidence: f.OfPreset) -> tuple[str, ...]:
    said = []
    if evidence.gone:
        said.append(
            f"Most of what you reviewed is {evidence.gone}: nothing is left to schedule, and "
            "presets cannot be evaluated."
        )
    elif not evidence.known:
        said.append("The file does not say which parameters are in force: the defaults stand here.")
    if evidence.search:
        said.append(
            f"Anki optimizes this preset on a search of its own, {evidence.search!r}; here all of "
            "the preset's cards count that are not suspended."
        )
    return tuple(said)


def _tables(finding: f.Finding) -> tuple[Table, ...]:
    """Candidates on reviews since the last change; on all held-out ones those not told yet."""
    evidence = finding.evidence
    made, told_above = [], set()
    if isinstance(evidence, f.OfPreset) and not evidence.gone:
        in_force = "current" if evidence.stored else "FSRS's defaults, in force"
        is_run = evidence.known and not evidence.fsrs_is_off
        names = {f.NOW: in_force if is_run else "FSRS's defaults"}
        rows: list[tuple[Cell, ...]] = []
        for each in evidence.candidates:
            if each.name == f.DEFAULTS and not evidence.stored:
                continue  # they are what is in force
            chance = None if each.belief is None else say.times_in_100(each.belief.probability)
            name = names.get(each.name, named(each.name))
            rows.append((name, each.log_loss, each.difference, each.verdict or "", chance))
        since = " since these were set, which" if evidence.stored else " that"
        reviews = f"{counted(finding.reviews, 'review')}{since} no candidate had seen"
        columns = ("candidate", "log loss", "minus current", "verdict", "better, of 100")
        made.append(Table(f"{finding.subject}: {reviews}", columns, tuple(rows)))
        if not evidence.stored and finding.reviews:  # the held-out reviews are the same
            told_above = {each.name for each in evidence.candidates} - {f.OPTIMIZED}
    if isinstance(evidence, f.OfPreset | f.OfAll) and evidence.held_out:
        untold = [each for each in evidence.held_out if each.name not in told_above]
        held_out = tuple((named(e.name), e.log_loss, e.difference, e.verdict or "") for e in untold)
        log_loss = evidence.held_out[0].log_loss
        count = 0 if log_loss is None else log_loss.reviews
        title = f"{finding.subject}: all {counted(count, 'evaluated review')}"
        minus = f"minus {f.OPTIMIZED}"
        held_out_columns = ("candidate", "log loss", minus, "verdict")
        made.append(Table(say.capital(title), held_out_columns, held_out))
    return tuple(made)


# One preset or several?

_LINE: Mapping[str, str] = {
    "keep shared": "one line of parameters is enough for all",
    "split": "a line of its own for each is better",
    "pooled": "a line for each, drawn to each other",
}
_SENTENCE: Mapping[str, str] = {
    "keep shared": "Your {parts} forget alike: one set of parameters is enough.",
    "split": "Your {parts} forget differently: each needs parameters of its own.",
    "pooled": "Give each of your {parts} parameters that are drawn to each other.",
}


def _sharing_line(findings: Sequence[f.Finding]) -> str:
    """ "one line of parameters is enough for all ●●●●● sure, 98 of 100"."""
    first = findings[0]
    if first.probability is None:
        return _sharing_sentences(first)[0]
    return f"{_LINE[first.act]} {say.dots(first.probability)} {say.of_100(first.probability)}"


def _sharing_sentences(finding: f.Finding) -> tuple[str, ...]:
    evidence = f.of(finding, f.Sharing)
    if evidence.says == f.RUNS_FSRS_7:
        return (
            "Whether presets that run FSRS-7 could share parameters is not told: what presets "
            "share is computed for FSRS-6.",
        )
    if evidence.parts == 1:
        return ("You have one preset with reviews. Keep it.",)
    parts = f"{evidence.parts} {evidence.part}s"
    if not evidence.differences:
        few = counted(finding.reviews, "evaluated review")
        return (f"Let your {parts} share parameters for now: {few}, too few to compare.",)
    assert finding.probability is not None
    sentence = _SENTENCE[finding.act].format(parts=parts)
    said = [f"{sentence[:-1]} ({say.of_100(finding.probability)})."]
    if finding.act == "pooled":
        said.append("That saves about 0.005 log loss if they differ and costs 0.0003 if not.")
    if len(evidence.groups) not in (1, evidence.parts) and evidence.groups:
        together = "; ".join(say.listed(each) for each in evidence.groups)
        said.append(
            f"By what each one's parameters predict of the others, these go together: {together}."
        )
    return tuple(said)


def _sharing_tables(finding: f.Finding) -> tuple[Table, ...]:
    evidence = f.of(finding, f.Sharing)
    if not evidence.differences:
        return ()
    rows: list[tuple[Cell, ...]] = [
        (each.of, each.parameters, each.difference.reviews, each.difference, each.decision)
        for each in evidence.differences
    ]
    columns = ("reviews of", "parameters", "reviews", "minus shared", "decision")
    subject = "" if finding.subject == "all presets" else f"{finding.subject}: "
    made = [Table(f"{subject}Parameters of their own or one set for all", columns, tuple(rows))]
    if evidence.pairs:
        title = "Parameters of one preset on reviews of another"
        of_pairs = ("parameters of", "reviews of", "minus its own", "verdict")
        made.append(Table(title, of_pairs, evidence.pairs))
    return tuple(made)


RENDERERS: Mapping[type[f.Evidence], Renderer] = {
    **dict.fromkeys((f.OfPreset, f.OfAll, f.LeftOut), Renderer(_sentences, _in_line, _tables)),
    f.Sharing: Renderer(_sharing_sentences, _sharing_line, _sharing_tables),
}
