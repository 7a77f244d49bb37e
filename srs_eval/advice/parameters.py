"""Are my parameters good? The present ones against what else there could be.

They are judged only on reviews done after they were last touched, for on the reviews that they
were fitted to they look better than they are. Rivals are fitted anew before each of five
blocks of these, as somebody would who optimizes now and then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from srs_eval.advice.candidates import (
    ACROSS_PRESETS,
    CONFIGURATIONS,
    NOW,
    POOLED,
    SM2,
    TOGETHER,
    Learner,
)
from srs_eval.advice.findings import Finding, best, phrased
from srs_eval.advice.refitting import cost_of_age
from srs_eval.advice.sentences import (
    FEWEST_DAYS_SHOWN,
    FEWEST_SHOWN,
    better_by,
    needs,
    on_days,
    sure,
    what_is_missing,
)
from srs_eval.advice.shown import conclusion as conclusion_of
from srs_eval.advice.split import one_is_enough_for
from srs_eval.advice.tables import Cell, Table
from srs_eval.data.errors import NotEnoughData, counted
from srs_eval.data.reviews import FloatArray, IntArray, ReviewLog
from srs_eval.models.own_parameters import as_anki_runs, left_out, version_of, why_left_out
from srs_eval.stats.intervals import FEWEST_REVIEWS, Interval, Verdict, verdicts

_THE_SAME = "the same"  # what two candidates are that predict the same of every review
RIVALS = ("optimized", "optimized, recency", "defaults", "one for all presets", POOLED)
"""What the present parameters are held against; the verdicts on these are one question."""
_HELD_OUT = (*CONFIGURATIONS, POOLED, TOGETHER, SM2)
_UNSEEN = "that no fit had seen"
_WORDED = {
    "optimized": ("optimized parameters", "optimize", "Optimize this preset"),
    "optimized, recency": (
        "optimized parameters, newer reviews weighing more,",
        "optimize",
        "Optimize this preset",
    ),
    "defaults": ("FSRS's defaults", "use the defaults", "Use the default parameters"),
    "one for all presets": (
        "parameters optimized for all presets together",
        "use one preset",
        "Use the same parameters for all presets",
    ),
    POOLED: (
        "parameters drawn towards those of all presets",
        "paste parameters",
        "Paste the parameters below, drawn towards those of all presets",
    ),
    TOGETHER: (
        "one line for all presets",
        "paste one line for all",
        "Paste the line below, fitted to all presets together",
    ),
}
"""Candidates in a sentence, what to do to get them as a conclusion, and in full."""


@dataclass(frozen=True, eq=False)
class Compared:
    """Candidates on the same reviews (k,), and what their differences from one say."""

    reference: str
    index: IntArray  # positions in the trials
    losses: Mapping[str, FloatArray]  # nats (k,)
    log_loss: Mapping[str, Interval]
    difference: Mapping[str, Interval]  # of each but the reference; negative: better than it
    says: Mapping[str, Verdict]

    @property
    def ordered(self) -> list[str]:
        """The candidates' names, the lowest log loss first."""
        return sorted(self.losses, key=lambda name: self.log_loss[name].estimate)

    def _says(self, name: str) -> str:
        difference = self.difference.get(name)
        if difference is not None and difference.estimate == difference.half_width == 0:
            return _THE_SAME  # one deck in the preset, say: no wider basis would tell them apart
        return self.says.get(name, "")

    def table(self, title: str) -> Table:
        rows: list[tuple[Cell, ...]] = [
            (name, self.log_loss[name], self.difference.get(name), self._says(name))
            for name in self.ordered
        ]
        return Table(
            title, ("candidate", "log loss", f"minus {self.reference}", "verdict"), tuple(rows)
        )


def compared(
    interval: Callable[[FloatArray, IntArray], Interval],
    losses: Mapping[str, FloatArray],
    index: IntArray,
    reference: str,
    *,
    asked: Sequence[str] | None = None,
    equivalence: float,
) -> Compared:
    """Intervals of all candidates, verdicts on those `asked` (default: all but the reference).

    `interval` is of the mean of values (k,) over the reviews at the positions (k,).
    """
    difference = {
        name: interval(each - losses[reference], index)
        for name, each in losses.items()
        if name != reference
    }
    wanted = {name: difference[name] for name in (asked or tuple(difference)) if name in difference}
    return Compared(
        reference=reference,
        index=index,
        losses=losses,
        log_loss={name: interval(each, index) for name, each in losses.items()},
        difference=difference,
        says=verdicts(wanted, equivalence=equivalence),
    )


def held_out(
    learner: Learner, given: Mapping[str, FloatArray], equivalence: float
) -> dict[int | None, Compared]:
    """All candidates but the present parameters on the held-out reviews of the five folds.

    By preset, None for all. `given` are others' losses for these reviews (k,).
    """
    index = learner.trials.test_index
    losses = {
        **{name: learner.held_out_losses(name) for name in _possible(_HELD_OUT, learner)},
        **given,
    }
    found: dict[int | None, Compared] = {}
    for group in (None, *learner.groups):
        mine = learner.trials.partition[index] == group if group is not None else slice(None)
        if not len(index[mine]):
            continue
        found[group] = compared(
            learner.interval,
            {name: each[mine] for name, each in losses.items()},
            index[mine],
            "optimized",
            equivalence=equivalence,
        )
    return found


def _possible(candidates: Sequence[str], learner: Learner) -> list[str]:
    """Without what needs several presets, where there is one: no candidates of their own there."""
    single = len(learner.groups) == 1
    return [name for name in candidates if not (single and name in ACROSS_PRESETS)]


def since_optimized(learner: Learner, group: int, equivalence: float) -> Compared | None:
    """The present parameters and their rivals on the reviews since; None for too few of them."""
    index = learner.since_optimized(group)
    if index is None or len(index) < FEWEST_SHOWN or learner.days_of(index) < FEWEST_DAYS_SHOWN:
        return None
    folds = learner.renewed(index)
    losses = {NOW: learner.losses(learner.predict(NOW, folds), index)}
    for name, p in learner.other_versions(group, index).items():
        losses[name] = learner.losses(p, index)
    if learner.log.receipt.fsrs_enabled is False:
        losses[SM2] = learner.losses(learner.predict(SM2, folds), index)
    for name in _possible((*RIVALS, TOGETHER), learner):
        try:
            losses[name] = learner.losses(learner.predict(name, folds), index)
        except NotEnoughData:
            continue
    return compared(learner.interval, losses, index, NOW, asked=RIVALS, equivalence=equivalence)


def are_my_parameters_good(
    learner: Learner,
    groups: Sequence[int],
    lines: Mapping[str, Sequence[float]],
    given: Mapping[str, FloatArray],
    equivalence: float,
) -> Iterator[Finding]:
    """One answer for each preset, as it is known, then one over all.

    `lines` are parameters of one's own, by name; `given` others' predictions for the held-out
    reviews.
    """
    index = learner.trials.test_index
    own = {name: learner.with_parameters(values, index) for name, values in lines.items()}
    losses = {name: learner.losses(p, index) for name, p in {**own, **given}.items()}
    everything = held_out(learner, losses, equivalence)
    sharing = one_is_enough_for(learner, groups, equivalence)
    answers = []
    for group in groups:
        can_share = group in sharing
        answers.append(_answer(learner, group, everything.get(group), can_share, equivalence))
        yield answers[-1]
    if len(groups) > 1:
        yield _all_presets(learner, answers, everything[None])


def what_is_left_out(log: ReviewLog) -> list[Finding]:
    """An answer for each preset whose stored parameters Anki does not run."""
    faults, sentences = left_out(log), why_left_out(log)
    return [
        phrased("parameters", log.name_of_preset(key), "left out", (sentences[key],), why=fault)
        for key, fault in faults.items()
    ]


def _answer(
    learner: Learner,
    group: int,
    elsewhere: Compared | None,
    can_share: bool,
    equivalence: float,
) -> Finding:
    name = learner.name_of(group)
    preset = learner.log.presets.get(group)
    stored = () if preset is None else preset.parameters_in_force
    now = f"the parameters in force ({version_of(stored)})"
    if learner.log.receipt.fsrs_enabled is False:
        now = f"the parameters stored ({version_of(stored)}; FSRS is off)"
    if preset is not None and not preset.is_told:
        now = "FSRS-6's defaults (the file does not tell your parameters)"
    since = since_optimized(learner, group, equivalence)
    tables = []
    sentences: list[str] = []
    conclusion, chosen, why = "can't tell", None, ""
    if since is not None:
        which = "since they were last changed" if stored else "that no fit had seen"
        conclusion, chosen, sentences = _judged_since(since, now, which, can_share)
        which = "since the last change" if stored else _UNSEEN
        tables.append(since.table(f"{name}: the {len(since.index):,} reviews {which}"))
    else:
        positions = np.flatnonzero(learner.trials.partition == group)
        p = learner.with_parameters(as_anki_runs(stored), positions)
        flattering = learner.interval(learner.losses(p, positions), positions)
        reason, why = _why_not_judged(learner, group)
        young = learner.since_optimized(group)  # reviews that they cannot have been fitted to
        unseen = young is not None and len(young) == len(positions)
        sentences = [
            f"Can't tell yet: {reason}",
            f"{now[0].upper()}{now[1:]} have log loss {flattering.estimate:.4f} on the preset's "
            + counted(len(positions), "review")
            + (
                ", which flatters them: a fit looks better by 0.002 to 0.009 on its own reviews."
                if stored and not unseen
                else "."
            ),
        ]
        if stored and young is not None:
            sentences += cost_of_age(learner, group)
    if elsewhere is not None:
        tables.append(
            elsewhere.table(f"{name}: {counted(len(elsewhere.index), 'review')} {_UNSEEN}")
        )
    if preset is not None and preset.search:
        sentences.append(
            f"Anki optimizes this preset on a search of its own, {preset.search!r}; here all of "
            "the preset's cards count that are not suspended."
        )
    parameters = None
    if chosen is not None and conclusion != "keep":
        fitted = learner.fitted(chosen, group)
        parameters = None if fitted is None else tuple(fitted)
    return phrased(
        *("parameters", name, conclusion, tuple(sentences), tuple(tables), parameters),
        difference=None if since is None else _deciding(since, chosen),
        why=why,
    )


def _deciding(since: Compared, chosen: str | None) -> Interval | None:
    """The difference that the conclusion rests on: of what is open the one that may gain most."""
    if chosen is None:
        open_ = [name for name, says in since.says.items() if says == "can't tell yet"]
        chosen = best((name, since.difference[name]) for name in open_) if open_ else "optimized"
    return since.difference.get(chosen)


def _judged_since(
    since: Compared,
    now: str,
    which: str = "since they were last changed",
    can_share: bool = False,
) -> tuple[str, str | None, list[str]]:
    """Conclusion, the candidate to take instead, and the sentences; `which` reviews in words.

    Where the preset `can_share` and shared parameters help here as well, nobody is sent to paste
    a line for each preset.
    """
    better = [name for name, says in since.says.items() if says == "better"]
    count, days = len(since.index), since.log_loss[NOW].days
    basis = f"on the {count:,} reviews of {days} days {which}"
    if better:
        chosen = best((name, since.difference[name]) for name in better)
        shared = since.difference.get(TOGETHER)
        pasted = chosen in (POOLED, "one for all presets")
        if pasted and can_share and shared is not None and shared.high < 0:
            chosen = TOGETHER
        gain = since.difference[chosen]
        in_words, advice, act = _WORDED[chosen]
        lost = f"{now} lose {-gain.estimate:.4f} log loss to {in_words} {basis} {sure(gain)}"
        return advice, chosen, [f"{act}: {lost}."]
    settled = {name: since.says[name] for name in RIVALS if name in since.says}
    if settled and all(says in ("worse", "as good") for says in settled.values()):
        return "keep", None, [f"Keep them: {now} are as good as any {basis}."]
    open_ = [name for name, says in settled.items() if says == "can't tell yet"]
    nearest = best((name, since.difference[name]) for name in open_)
    difference = since.difference[nearest]
    sentence = (
        f"Can't tell yet whether {_WORDED[nearest][0]} would predict better than {now}: so far "
        f"log loss {better_by(difference.estimate)} {basis} {sure(difference)}."
    )
    return "can't tell", None, [sentence, what_is_missing(difference, len(since.says))]


def _why_not_judged(learner: Learner, group: int) -> tuple[str, str]:
    """In a sentence, and in a few words."""
    since = learner.since_optimized(group)
    if since is None:
        reason = "the file does not say when the parameters were last changed."
        return reason, "unknown when last changed"
    days = learner.days_of(since)
    preset = learner.log.presets.get(group)
    short = needs(len(since), FEWEST_SHOWN)
    if len(since) >= FEWEST_SHOWN:
        short = needs(days, FEWEST_DAYS_SHOWN, "day")
    needed = f"{FEWEST_SHOWN} on {FEWEST_DAYS_SHOWN} days are needed for a figure."
    size = f"only {on_days(len(since), days)}"
    if preset is not None and not preset.parameters_in_force:
        return f"{size} can be held out; {needed}", short
    return f"{size} came after the preset's last change; {needed}", f"changed lately, {short}"


def _all_presets(learner: Learner, answers: Sequence[Finding], everything: Compared) -> Finding:
    by_conclusion: dict[str, list[str]] = {}
    for answer in answers:
        by_conclusion.setdefault(conclusion_of(answer), []).append(answer.subject)
    sentences = [
        f"{conclusion[0].upper()}{conclusion[1:]}: {', '.join(names)}."
        for conclusion, names in by_conclusion.items()
    ]
    ahead = best(everything.log_loss.items())
    sentences.append(
        f"Over all presets “{ahead}” has the lowest log loss on the "
        f"{len(everything.index):,} held-out reviews, {everything.log_loss[ahead].estimate:.4f}."
    )
    conclusion = next(iter(by_conclusion)) if len(by_conclusion) == 1 else "see each preset"
    title = f"All presets: {len(everything.index):,} reviews {_UNSEEN}"
    return phrased(
        "parameters", "all presets", conclusion, tuple(sentences), (everything.table(title),)
    )


def fresh_parameters(learner: Learner) -> Finding:
    """What FSRS would start with, were it fitted to these reviews today."""
    if len(learner.trials.test_index) < FEWEST_REVIEWS:
        few = counted(len(learner.trials), "review")
        keep = (
            "Too few reviews to fit FSRS to: keep the defaults until there are more.",
            f"There are {few} of later days, and {FEWEST_REVIEWS:,} that can be judged are needed.",
        )
        return phrased("fresh", "all reviews", "too few", keep, ())
    fitted = learner.fitted("FSRS-6 recency", int(learner.trials.partition[0]))
    sentences = (
        f"parameters for Anki, fitted to all your {len(learner.trials):,} reviews of later days.",
    )
    return phrased(
        "fresh", "all reviews", "copy", sentences, (), None if fitted is None else tuple(fitted)
    )
