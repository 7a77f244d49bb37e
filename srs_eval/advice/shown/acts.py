"""Put acts into words: what to do, what it brings, where Anki has the setting."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from srs_eval.advice import findings as f
from srs_eval.advice import sentences as say
from srs_eval.advice.acts import HABITS, Act, ActKind, Backlog, SameDesire
from srs_eval.advice.sentences import ACT_MARK, LineLevel, PaneLine
from srs_eval.advice.shown.habits import describe_learning_from_hard
from srs_eval.advice.shown.parameters import (
    HARDLY_MATTERS,
    describe_doubt,
    find_rejected_chance,
)
from srs_eval.advice.workload.ranges import EqualMemory
from srs_eval.data.errors import format_count

_MAX_NAMES = 3  # most presets that an act names
_BETTER = "better predictions"
_BETTER_FOR_MOST = "better predictions for nearly everybody"  # one's own reviews do not settle it
_INDENT = "  "
_DETAILS_DROP_ORDER = 10  # details go before any act
_MAX_DETAILS = 9  # fewer than this come with any act
_ACTS_OF_KEEPING = (ActKind.CHANGE_NOTHING, ActKind.WAIT_FOR_REVIEWS)


def render_acts(acts: Sequence[Act]) -> tuple[PaneLine, ...]:
    """Return a line for each act, each followed by its details; the last acts are dropped first."""
    gains = [describe_gain(act) for act in acts]
    gain_width = max(map(len, gains), default=0)  # so that the badges stand below each other
    lines: list[PaneLine] = []
    for position, (act, gain) in enumerate(zip(acts, gains, strict=True)):
        columns = [_describe_probability(act)]
        if gain_width:
            columns.append(gain.ljust(gain_width))
        line = PaneLine(
            describe_act(act, is_first=position == 0, is_only=len(acts) == 1),
            _choose_level(act),
            ACT_MARK,
            right_text="  ".join(filter(None, columns)),
            drop_order=position,
        )
        lines.append(line)
        details = list(_describe_details(act))
        acts_after = acts[position + 1 :]
        if not acts_after or list(_describe_details(acts_after[0])) != details:
            lines += details  # acts with the same details have them once
        if act.at_same_desire is not None:
            text = f"{_INDENT}{_describe_same_desire(act.at_same_desire)}"
            lines.append(PaneLine(text, drop_order=_DETAILS_DROP_ORDER + _MAX_DETAILS))
    return tuple(lines)


def describe_act(act: Act, *, is_first: bool = True, is_only: bool = True) -> str:
    """Return what to do as a sentence: "Press Optimize for “Maps”."."""
    names = _name_presets(act)
    match act.kind:
        case ActKind.REPAIR_PARAMETERS:
            assert act.finding is not None
            return f.get_evidence(act.finding, f.UnsupportedParameters).sentence
        case ActKind.CLEAR_BACKLOG:
            return "Clear the backlog first." if is_first else "Clear the backlog."
        case ActKind.FORGET_LESS:
            return "Learn fewer new cards a day."
        case ActKind.REVIEW_ON_TIME:
            return "Review cards when they are due."
        case ActKind.RAISE_REVIEW_LIMIT:
            if act.review_limit is None:
                return f"Raise the daily review limits of {names}."
            limit = f"limit of {format_count(act.review_limit, 'review')} a day"
            return f"Raise the {limit} of {names}." if names else f"Raise your {limit}."
        case ActKind.PRESS_AGAIN:
            return "Press Again for what you have forgotten."
        case ActKind.EMPTY_IGNORE_DATE:
            return f"Empty “Ignore cards reviewed before” in {say.quote_name(act.subjects[0])}."
        case ActKind.TURN_FSRS_ON:
            return "Turn FSRS on."
        case ActKind.LEAVE_FSRS_OFF:
            return "Leave FSRS off."
        case ActKind.CHANGE_TO_FSRS:
            return f"Change from {_name_other_scheduler(act)} to FSRS."
        case ActKind.FIT_FSRS:
            return f"Stay with {_name_other_scheduler(act)} for now."
        case ActKind.STAY_WITH_SCHEDULER:
            return f"Stay with {_name_other_scheduler(act)}."
        case ActKind.CHANGE_NOTHING | ActKind.WAIT_FOR_REVIEWS if act.follows_fsrs:
            return "Then keep the default parameters."
        case ActKind.CHANGE_NOTHING:
            return "Change nothing." if is_only else "Leave the settings as they are."
        case ActKind.WAIT_FOR_REVIEWS:
            return "Change nothing yet." if is_only else "Otherwise, change nothing yet."
        case ActKind.OPTIMIZE:
            instruction = f"press Optimize for {names}" if names else "press Optimize"
        case ActKind.PASTE_PARAMETERS:
            into = f" into {names}" if names else ""
            instruction = f"paste new parameters{into}"
        case ActKind.PASTE_TAUGHT_PARAMETERS:
            into = f" into {names}" if names else ""
            instruction = f"paste parameters suited to few reviews{into}"
        case ActKind.CHANGE_TO_FSRS_7:
            of = f" in {names}" if names else ""
            instruction = f"choose FSRS-7{of} and press Optimize"
        case ActKind.USE_DEFAULTS:
            into = f" in {names}" if names else ""
            instruction = f"go back to the default parameters{into}"
    if act.follows_fsrs:
        return f"Then {instruction}."
    if not act.is_known:
        return f"If FSRS is on in Anki, {instruction}."
    return f"{say.capitalize(instruction)}."


def _name_other_scheduler(act: Act) -> str:
    assert act.scheduler is not None
    return act.scheduler.name


def _name_presets(act: Act) -> str:
    """Return the presets' names if there are several presets: "“Maps” and “Words”"."""
    if act.preset_count == 1:
        return ""
    names = [say.quote_name(name) for name in act.subjects]
    if len(names) > _MAX_NAMES:
        names = [*names[: _MAX_NAMES - 1], f"{len(names) - _MAX_NAMES + 1} more"]
    return say.join_names(names)


def describe_gain(act: Act) -> str:
    """Return what an act brings, in the learner's terms; "" if it changes nothing."""
    match act.kind:
        case ActKind.CLEAR_BACKLOG:
            assert act.backlog is not None
            return _describe_work(act.backlog)
        case ActKind.FORGET_LESS:
            return f"you forget {say.format_share(act.forgotten or 0.0)}"
        case ActKind.REVIEW_ON_TIME:
            return f"{_format_points(act.recall_gain or 0.0)} % more remembered"
        case ActKind.RAISE_REVIEW_LIMIT:
            recalled = say.format_share(act.recalled or 0.0)
            if act.desired is None:
                return f"{recalled} remembered"
            return f"{recalled} remembered, {say.format_share(act.desired)} asked for"
        case ActKind.PRESS_AGAIN:
            return f"Hard is {say.format_share(act.worth)} of your answers"
        case ActKind.EMPTY_IGNORE_DATE:
            return "it leaves out every card"
        case ActKind.REPAIR_PARAMETERS | ActKind.WAIT_FOR_REVIEWS | ActKind.FIT_FSRS:
            return ""
        case ActKind.CHANGE_NOTHING:
            return HARDLY_MATTERS if act.hardly_matters else ""
    if act.hardly_matters:
        return HARDLY_MATTERS
    if act.equal_memory is None:
        return _BETTER_FOR_MOST if act.is_by_other_people else _BETTER
    minutes = _format_minutes(abs(act.equal_memory.extra_minutes.estimate))
    if act.saves_minutes:
        return f"{minutes} a day less for the same memory"
    if act.costs_minutes:
        return f"{_BETTER}, but {minutes} a day more"
    if act.is_by_other_people:
        return _BETTER_FOR_MOST
    gain = f"{_BETTER}, about the same minutes"
    if act.kind == ActKind.TURN_FSRS_ON:
        gain += f" at {say.format_share(act.equal_memory.retention)} retention"
    return gain


def _describe_work(backlog: Backlog) -> str:
    """Describe the work of a backlog: "3 hours of work, or 9 days at your usual pace".

    If the learner stopped long ago, "3 hours of work as of your last review".
    """
    work = say.format_work_time(backlog.minutes)
    if backlog.last_review_date is not None:
        return f"{work} of work as of your last review"
    if backlog.days is None or backlog.days < 2:
        return f"{work} of work"
    return f"{work} of work, or {backlog.days} days at your usual pace"


def _format_points(share: float) -> str:
    return f"{max(1, round(100 * share))}"


def _format_minutes(minutes: float) -> str:
    """Format minutes, with a decimal if they are few: "0.8 minutes", "12 minutes"."""
    if minutes < 9.95:
        return f"{minutes:.1f} minutes"
    return f"{minutes:.0f} minutes"


def _describe_probability(act: Act) -> str:
    if act.kind == ActKind.FIT_FSRS:
        return ""  # it is about parameters for FSRS, which may be no better than the scheduler
    if act.probability is None or (act.hardly_matters and act.kind == ActKind.CHANGE_NOTHING):
        return ""
    has_to_choose = act.follows_fsrs or act.is_still_advised
    certainty = say.describe_certainty(act.probability, has_to_choose=has_to_choose)
    if has_to_choose and act.probability < f.LIKELY:
        # One dot of five beside "best bet" would read as a chance of a fifth.
        return f"{certainty}, {say.round_down_percent(act.probability)} %"
    return f"{certainty} {say.format_dots(act.probability)}"


def _choose_level(act: Act) -> LineLevel:
    match act.kind:
        case ActKind.WAIT_FOR_REVIEWS:
            return "not yet"
        case ActKind.CHANGE_NOTHING | ActKind.STAY_WITH_SCHEDULER:
            return "fine"
        case ActKind.FIT_FSRS:
            return ""
        case ActKind.REPAIR_PARAMETERS:
            return "look"
    if act.kind in HABITS:
        return "look"
    return "fine" if (act.probability or 0.0) >= f.LIKELY else ""


# Details, below an act if there is room


def _describe_details(act: Act) -> Iterator[PaneLine]:
    for number, (text, key_hint) in enumerate(_list_details(act)):
        yield PaneLine(
            f"{_INDENT}{text}", key_hint=key_hint, drop_order=_DETAILS_DROP_ORDER + number
        )


def _list_details(act: Act) -> Iterator[tuple[str, str]]:
    """Yield lines, each with its hint about a key: where the setting is, then reasons."""
    match act.kind:
        case ActKind.CLEAR_BACKLOG:
            assert act.backlog is not None
            yield _describe_backlog(act.backlog), ""
        case ActKind.FORGET_LESS:
            yield "Or split the cards that you keep forgetting.", ""
        case ActKind.REVIEW_ON_TIME:
            yield (
                "You remember that much less because of late reviews, and no setting can fix it.",
                "",
            )
        case ActKind.RAISE_REVIEW_LIMIT:
            yield "Deck options › Daily Limits › Maximum reviews/day", ""
        case ActKind.CHANGE_NOTHING | ActKind.WAIT_FOR_REVIEWS:
            yield _explain_keeping(act), ""
        case ActKind.PRESS_AGAIN:
            yield (
                "You probably press Hard for some of it, which makes recall look better than it "
                "is.",
                "",
            )
            if act.check is not None and act.check.learning is not None:
                yield describe_learning_from_hard(act.check.learning), ""
        case ActKind.EMPTY_IGNORE_DATE:
            yield "Deck options › FSRS › Ignore cards reviewed before", ""
        case ActKind.FIT_FSRS:
            assert act.scheduler is not None
            yield _describe_fsrs_beside(act.scheduler), ""
            yield (
                "If you try FSRS in Anki, paste the parameters fitted to your reviews.",
                "y copies the parameters",
            )
        case ActKind.CHANGE_TO_FSRS:
            yield (
                "Anki has FSRS. Paste the parameters fitted to your reviews.",
                "y copies the parameters",
            )
        case ActKind.TURN_FSRS_ON:
            yield "Deck options › FSRS", ""
            if act.equal_memory is not None:
                yield _describe_equal_retention(act.equal_memory), ""
        case ActKind.OPTIMIZE:
            yield f"{_locate_parameters(act)}Optimize", "y copies the parameters"
        case ActKind.CHANGE_TO_FSRS_7:
            yield f"{_locate_parameters(act)}FSRS version", "y copies the parameters"
        case ActKind.PASTE_PARAMETERS | ActKind.PASTE_TAUGHT_PARAMETERS | ActKind.USE_DEFAULTS:
            yield f"{_locate_parameters(act)}FSRS parameters", "y copies the parameters"
    if act.kind in _CLAIMS:
        verb = "should" if (act.probability or 0.0) >= f.LIKELY else "may"
        yield _CLAIMS[act.kind].format(verb=verb), ""
    if act.sm2 is not None:
        percent = round(100 * act.sm2.saved.estimate)
        yield (
            f"If FSRS is off, turn it on first: it predicts your answers {percent} % better than "
            "SM-2.",
            "",
        )
    if act.kind == ActKind.CHANGE_TO_FSRS_7:
        yield (
            "To see how many cards would move, and the minutes a day, run srs-eval compare FILE "
            "--question fsrs-7.",
            "",
        )
    if act.kind == ActKind.PASTE_TAUGHT_PARAMETERS:
        yield (
            "These parameters are based on your reviews and on three models. With few "
            "reviews, they usually predict better than Optimize's. If you press Optimize later, it "
            "overwrites them.",
            "",
        )


def _describe_fsrs_beside(scheduler: f.Rival) -> str:
    """Say why FSRS is no reason to leave another program's scheduler, or not yet."""
    if scheduler.verdict == "as good":
        return "FSRS would predict your answers about as well."
    if scheduler.verdict == "better":
        percent = round(100 * scheduler.saved.estimate)
        return (
            f"FSRS surely predicts your answers {percent} % better than {scheduler.name} does, but "
            "so far no better than guessing your average: too little to change programs for."
        )
    return "Whether FSRS would predict your answers better is not settled."


_CLAIMS: Mapping[ActKind, str] = {
    ActKind.TURN_FSRS_ON: (
        "Once optimized, FSRS {verb} predict your future reviews better than SM-2."
    ),
    ActKind.LEAVE_FSRS_OFF: "SM-2 {verb} predict your future reviews better than FSRS.",
    ActKind.OPTIMIZE: "FSRS {verb} then predict your future reviews better.",
    ActKind.PASTE_PARAMETERS: "FSRS {verb} then predict your future reviews better.",
    ActKind.PASTE_TAUGHT_PARAMETERS: "FSRS {verb} then predict your future reviews better.",
    ActKind.CHANGE_TO_FSRS_7: "FSRS-7 {verb} then predict your future reviews better.",
    ActKind.USE_DEFAULTS: "FSRS {verb} then predict your future reviews better.",
}
"""What the probability of an act is about; the verb says whether it is at least likely."""


def _describe_equal_retention(equal: EqualMemory) -> str:
    """Say what to ask FSRS for so as to remember as much as with SM-2, and what it takes."""
    retention = say.format_share(equal.retention)
    minutes = _format_minutes(equal.minutes)
    minutes_now = _format_minutes(equal.minutes - equal.extra_minutes.estimate)
    text = f"Set desired retention to {retention} to remember as much as with SM-2"
    if minutes == minutes_now:
        return f"{text}; it also takes as long: about {minutes} a day."
    doubt = "" if equal.extra_minutes.is_beyond_zero else ": too close to call"
    amount_now, _, _ = minutes_now.partition(" ")
    return f"{text}. FSRS takes about {minutes} a day for that, SM-2 {amount_now}{doubt}."


def _describe_same_desire(change: SameDesire) -> str:
    """Say what new parameters change in minutes if the learner asks for the same as now.

    Example: "If you kept asking for 90 %, you would spend about 5.3 minutes a day instead of 3.1,
    and remember 89 % instead of 82 %."
    """
    desired = say.format_share(change.desired)
    if change.is_average:
        desired += " on average"
    recalled, recalled_now = map(say.format_share, (change.recalled, change.recalled_now))
    memory = f"remember {recalled} as now"
    if recalled != recalled_now:
        memory = f"remember {recalled} instead of {recalled_now}"
    minutes = _format_minutes(change.minutes)
    minutes_now = _format_minutes(change.minutes_now).partition(" ")[0]
    return (
        f"If you kept asking for {desired}, you would spend about {minutes} a day instead of "
        f"{minutes_now}, and {memory}."
    )


def _describe_backlog(backlog: Backlog) -> str:
    """Say how many cards are overdue: "412 of your 2,355 cards are overdue."."""
    verb = "is" if backlog.cards == 1 else "are"
    when = ""
    if backlog.last_review_date is not None:
        verb = "was" if backlog.cards == 1 else "were"
        when = " when you last reviewed"
    return f"{backlog.cards:,} of your {format_count(backlog.total, 'card')} {verb} overdue{when}."


def _explain_keeping(act: Act) -> str:
    """Say why nothing is to be changed."""
    if act.kind == ActKind.WAIT_FOR_REVIEWS:
        text = "You have too few reviews to judge your parameters by. Keep reviewing."
        evidence = None if act.finding is None else act.finding.evidence
        if isinstance(evidence, f.PresetParameters) and not evidence.can_be_fitted:
            text = (
                "You have too few reviews to judge your parameters by: a preset needs at least "
                f"{f.MIN_REVIEWS_TO_FIT} usable reviews. Keep reviewing."
            )
        if act.is_known and not act.follows_fsrs:
            text += " FSRS predicts nearly everybody's answers better than SM-2."
        return text
    assert act.finding is not None
    is_sure_enough = (act.probability or 0.0) >= f.LIKELY
    if is_sure_enough and not act.hardly_matters:
        if find_rejected_chance(act.finding) is not None:
            return "Your parameters are as good as those that Optimize would give."
        return "Other parameters would not predict noticeably better."
    reason = describe_doubt(act.finding)
    if act.preset_count == 1:
        return reason
    name = say.quote_name(act.finding.subject)
    return f"In {name}, {reason[0].lower()}{reason[1:]}"


def _locate_parameters(act: Act) -> str:
    """Return where Anki has the parameters; it names the preset if it is the only one."""
    name = act.subjects[0]
    if act.preset_count > 1 or name == f.ALL_REVIEWS:
        return "Deck options › FSRS › "
    return f"Deck options › preset {name} › FSRS › "
