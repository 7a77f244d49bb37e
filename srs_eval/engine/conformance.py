"""Finds what is wrong with a model, on a simulated learner: `srs-eval models check`.

Each check takes a configuration, or its training, and yields findings; docs/adding-a-model.md
lists them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from srs_eval.data.errors import NotEnoughData, NotInstalled
from srs_eval.data.protocol import Protocol
from srs_eval.data.readers.features import with_made_up_features
from srs_eval.data.reviews import FloatArray, IntArray, ReviewLog, Rows, arrays_in
from srs_eval.data.trials import Trials
from srs_eval.engine.evaluate import demo_learner, evaluate, in_words
from srs_eval.engine.gradient_check import wrong_gradient, wrong_gradients
from srs_eval.engine.run import Finished
from srs_eval.engine.session import Result, Session, fit_and_predict
from srs_eval.metrics import log_losses
from srs_eval.models import Model
from srs_eval.models.configurations import Configuration, listed_names, resolve
from srs_eval.training.hyperparameters import Context, Hyperparameter, Value

# Rows as Anki's optimizer takes them: which reviews are evaluated depends on no outcome. The
# benchmark's outlier filter looks at all outcomes, so that a changed one could change the rows.
_PROTOCOL = Protocol(rows="anki", n_splits=2, batch_size=64)
_CONTEXT = Context(user=7)
_SMALL_BATCHES = replace(_PROTOCOL, batch_size=48)
_SAME = 1e-9  # probabilities within this are the same
_ROUNDED = 1e-6  # the same where single precision is added in another order
_MANY = 2_000  # reviews on which training is worth it
_WORSE = 0.01  # log loss above the average's that is no chance
_GAIN = 0.005  # log loss that no single parameter has left to gain
_MOST_MOVED = 100  # parameters; networks have more


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong with a configuration.

    Its kind, with the fields that say more: "fails" and "no probability" (what: the reason),
    "certain" (found: 0 or 1), "not trained" (what: the note); "own outcome", "later outcome",
    "fit sees test", "learns", "order", "repeats" and "workers" (review; found and expected:
    probabilities); "writes"; "few reviews" (what: the reason; found: how many) and "one outcome"
    (what; found: the grade of all); "hyperparameter" and "default" (what: its name); "gradient"
    (what: whose; parameter; found and expected); "idle parameter" and "not converged" (parameter;
    found: log loss to be gained); "worse than average" (found and expected: log losses).
    """

    configuration: str
    kind: str
    what: str = ""
    review: int = 0  # number of the review that shows it
    parameter: int = 0  # its position
    found: float = np.nan
    expected: float = np.nan


_Findings = Iterator[Finding]


# The learner: the demo's, with a person's table of features if there is one

_TABLE: ContextVar[Path | None] = ContextVar("_TABLE", default=None)


def _learner(reviews: int = 300) -> ReviewLog:
    return with_made_up_features(demo_learner(reviews), _TABLE.get())


def _rows() -> Rows:
    rows = _learner().rows
    assert rows is not None
    return rows


def _answering(**changed: NDArray[Any]) -> ReviewLog:
    return replace(_learner(), rows=replace(_rows(), **changed))


def _with_other_outcomes(at: IntArray) -> ReviewLog:
    """The learner with passes for failures and failures for passes in these rows.

    What a scheduler makes of them is another before each later one of these on the same card.
    """
    rows, names = _rows(), ("rating", "state", "scheduled_interval", "ease")
    changed = {name: getattr(rows, name).copy() for name in names}
    rating, state, days, ease = changed.values()
    rating[at] = np.where(rating[at] == 1, 3, 1)
    follows = np.delete(at, np.unique(rows.card_id[at], return_index=True)[1])
    state[follows], days[follows], ease[follows] = 5 - state[follows], 77.0, 1300
    return _answering(**changed)


# Trainings


@dataclass(frozen=True, eq=False)
class _Training:
    """A configuration on the learner: what was fitted, fit after fit, and what was predicted."""

    configuration: Configuration
    fits: tuple[Any, ...]  # parameters, or the NotEnoughData that was raised
    result: Result


def _train(configuration: Configuration, session: Session | None = None) -> _Training:
    """Fit and evaluate on the demo's learner, or in a session of another one."""
    fits: list[Any] = []

    def recording(fit: Callable[..., Any]) -> Callable[..., Any]:
        def recorded(*given: Any) -> Any:
            try:
                fits.append(fit(*given))
            except NotEnoughData as reason:
                fits.append(reason)
                raise
            return fits[-1]

        return recorded

    result = (session or Session(_learner())).run(_with_fits(configuration, recording), _CONTEXT)
    return _Training(configuration, tuple(fits), result)


def _predicted_again(training: _Training, log: ReviewLog, **changed: Any) -> Result:
    """The fitted parameters on another learner; nothing is trained."""
    fits = iter(training.fits)

    def replay(*given: Any) -> Any:
        fitted = next(fits)
        if isinstance(fitted, NotEnoughData):
            raise fitted
        return fitted

    replayed = _with_fits(training.configuration, lambda fit: replay)
    return Session(log).run(replace(replayed, model=replace(replayed.model, **changed)), _CONTEXT)


def _with_fits(configuration: Configuration, change: Callable[..., Any]) -> Configuration:
    model = configuration.model
    fits = {name: getattr(model, name) for name in ("fit", "fit_s0")}
    changed = {name: change(fit) for name, fit in fits.items() if fit is not None}
    return replace(configuration, model=replace(model, **changed))


def _probabilities(training: _Training) -> _Findings:
    """Between 0 and 1, of what was trained; where a training fails, nothing else can be known."""
    name, p = training.configuration.name, training.result.p
    certain = p[(p == 0) | (p == 1)]
    if len(certain):
        yield Finding(name, "certain", found=float(certain[0]))
    for note in training.result.notes:
        yield Finding(name, "not trained", note)


# What is known when


def _differing(
    name: str, kind: str, one: Result, other: Result, among: Any = True, within: float = _SAME
) -> _Findings:
    """The first review whose prediction is another."""
    differ = (np.abs(one.p - other.p) > within) & among
    if differ.any():
        first = int(np.flatnonzero(differ)[0])
        review = int(one.review_th[first])
        found, expected = float(one.p[first]), float(other.p[first])
        yield Finding(name, kind, review=review, found=found, expected=expected)


def _late_review(result: Result) -> int:
    """Within the last fold, so that no fit has its outcome, of a card that comes again."""
    late, card = np.sort(result.review_th)[result.size * 3 // 4 :], _rows().card_id
    return int(next((each for each in late if card[each - 1] in card[each:]), late[0]))


def _with_another_end(result: Result) -> ReviewLog:
    """The outcomes of the late review, and all later ones, changed."""
    return _with_other_outcomes(np.arange(_late_review(result) - 1, len(_rows())))


def _foresight(training: _Training) -> _Findings:
    """Outcomes of a review and of all later ones change no prediction so far.

    This holds for models that learn while they are evaluated, too.
    """
    before, name = training.result, training.configuration.name
    after = _predicted_again(training, _with_another_end(before))
    at = _late_review(before)
    later = list(_differing(name, "later outcome", after, before, before.review_th < at))
    yield from later or _differing(name, "own outcome", after, before, before.review_th == at)


def _fit_foresight(training: _Training) -> _Findings:
    """Outcomes after the training part change no fit."""
    name, log = training.configuration.name, _with_another_end(training.result)
    known = training.result.review_th <= _late_review(training.result)
    after = _train(training.configuration, Session(log)).result
    yield from _differing(name, "fit sees test", after, _predicted_again(training, log), known)


def _learning(training: _Training) -> _Findings:
    """Other cards' outcomes since the training part change no prediction of the last fold."""
    if training.configuration.model.online is not None:
        return
    before, rows = training.result, _rows()
    last = before.fold == before.fold.max()
    card = rows.card_id[before.review_th - 1]
    others = np.isin(rows.card_id, np.unique(card[last])[::2])
    others[: int(before.review_th[last].min()) - 1] = False
    after = _predicted_again(training, _with_other_outcomes(np.flatnonzero(others)))
    kept = last & ~np.isin(card, rows.card_id[others])
    yield from _differing(training.configuration.name, "learns", after, before, kept)


def _repeats(training: _Training, again: _Training) -> _Findings:
    """Trained once more, after others and on another session."""
    name = training.configuration.name
    yield from _differing(name, "repeats", again.result, training.result)


def _order(training: _Training) -> _Findings:
    """A prediction depends neither on the order of rows nor on which others are asked for."""
    predict = training.configuration.model.predict
    if predict is None:
        return

    def in_parts(trials: Trials, fitted: Any, index: IntArray, context: Context) -> FloatArray:
        shuffled = np.random.default_rng(1).permutation(len(index))
        p = np.empty(len(index))
        for part in np.array_split(shuffled, 2):
            if len(part):
                p[part] = predict(trials, fitted, index[part], context)
        return p

    after = _predicted_again(training, _learner(), predict=in_parts)
    name, before = training.configuration.name, training.result
    yield from _differing(name, "order", after, before, within=_ROUNDED)


def _workers(training: _Training) -> _Findings:
    """A process of its own, which nothing has run in, comes to the same."""
    configuration = training.configuration
    events = evaluate(_learner(), [configuration], jobs=1, context=_CONTEXT, use_cache=False)
    for event in events:
        if isinstance(event, Finished):
            name = configuration.name
            yield from _differing(name, "workers", event.result, training.result)
        elif reason := getattr(event, "reason", ""):
            yield Finding(configuration.name, "fails", reason)


def _writes(configuration: Configuration) -> _Findings:
    """What a model is given stays as it is, also where torch or compiled code writes."""
    if configuration.model.members:  # it is given predictions
        return
    trials = Session(_learner()).trials(configuration.protocol)
    arrays = list(arrays_in(trials))
    before = [array.copy() for array in arrays]
    within = replace(configuration, model=replace(configuration.model, file=None))  # not on a copy
    fit_and_predict(within, trials, _CONTEXT)
    if any(a.tobytes() != b.tobytes() for a, b in zip(arrays, before, strict=True)):
        yield Finding(configuration.name, "writes")


def _few_reviews(configuration: Configuration, reviews: int) -> _Findings:
    """A fit ends with usable parameters, or says that there is not enough data."""
    model = configuration.model
    if model.predict is None:
        return
    trials = Session(_learner()).trials(configuration.protocol)
    train, test = trials.folds[-1].train[:reviews], trials.folds[-1].test
    for fit in filter(None, (model.fit, model.fit_s0)):
        try:
            fitted = fit(trials, train, np.ones(len(train)), _CONTEXT)
            if isinstance(fitted, list) and not np.isfinite(fitted).all():
                raise ArithmeticError("parameters that are no finite numbers")
            p = model.predict(trials, fitted, test, _CONTEXT)
            if p.shape != test.shape or not ((p >= 0) & (p <= 1)).all():
                raise ArithmeticError("predictions that are no probabilities")
        except NotEnoughData:
            continue
        except Exception as error:
            yield Finding(configuration.name, "few reviews", in_words(error)[0], found=reviews)


def _one_outcome(configuration: Configuration, rating: int) -> _Findings:
    """All failed (1) or all passed (3)."""
    log = _answering(rating=np.full_like(_rows().rating, rating))
    try:
        Session(log).run(configuration, _CONTEXT)
    except Exception as error:
        yield Finding(configuration.name, "one outcome", in_words(error)[0], found=rating)


def _other_value(each: Hyperparameter) -> Value:
    """Another than the default, far enough from it to be seen."""
    if each.choices:
        return next(choice for choice in each.choices if choice != each.default)
    if each.name in ("batch_size", "iterations"):
        return {"batch_size": 32, "iterations": 2}[each.name]
    number = each.default_under(_SMALL_BATCHES)
    assert not isinstance(number, str)
    return number + 3 if each.whole else number * 5


def _hyperparameters(model: Model) -> _Findings:
    """The default of each changes no figure, and another value changes some."""
    if not model.hyperparameters:
        return
    (plain,) = resolve(model.name, _SMALL_BATCHES)
    session = Session(_learner(300 if model.needs else 600))
    defaults = {each.name: each.default_under(_SMALL_BATCHES) for each in plain.tunable}

    @cache
    def predictions(values: tuple[tuple[str, Value], ...]) -> FloatArray:
        return session.run(plain.trained_with(dict(values)), _CONTEXT).p

    as_published = session.run(plain, _CONTEXT).p
    if (predictions(tuple(defaults.items())) != as_published).any():
        single = ((each,) for each in defaults.items())
        wrong = (each[0][0] for each in single if (predictions(each) != as_published).any())
        yield Finding(plain.name, "default", next(wrong, ", ".join(defaults)))
    # The last epoch of a calm training is its best, and the order of one batch is no order.
    rate = float(defaults.get("learning_rate", 1))
    wild = [("learning_rate", faster * rate) for faster in (1, 10, 100)]
    besides: dict[str, Sequence[tuple[tuple[str, Value], ...]]] = {
        "keep": [*((each,) for each in wild), *((each, ("batch_size", 16)) for each in wild)],
        "seed": [(), (("batch_size", 32),)],
    }
    for each in plain.tunable:
        value = (each.name, _other_value(each))
        settings = [
            others
            for others in besides.get(each.name, [()])
            if {name for name, _ in others} <= set(defaults)
        ]
        if all((predictions((*o, value)) == predictions(o)).all() for o in settings):
            yield Finding(plain.name, "hyperparameter", each.name)


def _gradients(configuration: Configuration) -> _Findings:
    """Of the losses that `fit` gives to a trainer, and of `Model.loss`."""
    model, name = configuration.model, configuration.name
    if model.fit is None:
        return
    trials = Session(_learner()).trials(configuration.protocol)
    train = trials.folds[-1].train
    weights = np.ones(len(train))
    found: list[Any] = [*wrong_gradients(model.fit, trials, train, weights, _CONTEXT)]
    loss = model.loss
    if loss is not None:
        start = model.default(_CONTEXT)
        found.append(
            wrong_gradient("Model.loss", lambda w: loss(trials, w, train, weights, _CONTEXT), start)
        )
    for where, parameter, slope, difference in filter(None, found):
        yield Finding(name, "gradient", where, 0, parameter, slope, difference)


# What training is for


def _convergence(configuration: Configuration) -> _Findings:
    """Trained on some two thousand reviews, it predicts these better than their average does.

    And no parameter that is moved by a tenth lowers the loss of these clearly.
    """
    model, name = configuration.model, configuration.name
    if model.predict is None or model.fit is None:
        return
    session = Session(_learner(_MANY))
    fits = _train(configuration, session).fits
    trials = session.trials(configuration.protocol)
    if len(fits) != len(trials.folds):  # of nothing, or of partitions
        return
    fitted = fits[-1]
    index = trials.folds[-1].train
    y, predict = trials.y[index], model.predict

    def loss(w: Any) -> float:
        return float(log_losses(y, predict(trials, w, index, _CONTEXT)).mean())

    if isinstance(fitted, NotEnoughData):
        return
    found, expected = loss(fitted), float(log_losses(y, np.full(len(y), y.mean())).mean())
    if found > expected + _WORSE:
        yield Finding(name, "worse than average", found=found, expected=expected)
    if not isinstance(fitted, list) or not 0 < len(fitted) <= _MOST_MOVED:
        return

    def gain(k: int) -> float:
        step = 0.1 * abs(fitted[k]) or 0.01
        return max(
            found - loss([*fitted[:k], fitted[k] + h, *fitted[k + 1 :]]) for h in (-step, step)
        )

    gains = [gain(k) for k in range(len(fitted))]
    default = list(model.default(_CONTEXT))
    for k, gained in enumerate(gains):
        if gained > _GAIN and len(default) == len(fitted) and fitted[k] == default[k]:
            yield Finding(name, "idle parameter", parameter=k, found=gained)
        elif gained > _GAIN and gained == max(gains):
            yield Finding(name, "not converged", parameter=k, found=gained)


# All of it


def _configurations_of(models: Iterable[Model]) -> list[Configuration]:
    """All that the group `all` means by these models, on the protocol of the checks."""
    names = [name for model in models for name in listed_names(model)]
    return [each for name in names for each in resolve(name, _PROTOCOL)]


def findings(models: Iterable[Model], features: Path | None = None) -> _Findings:
    """What is wrong with models, each alone, with a table of features. Raises NotInstalled."""
    _TABLE.set(features)
    for model in models:
        seen = set[tuple[str, str, str, int]]()
        for finding in _of_model(_configurations_of([model])):
            key = finding.configuration, finding.kind, finding.what, finding.parameter
            if key not in seen:
                seen.add(key)
                yield finding


def _of_model(configurations: Sequence[Configuration]) -> _Findings:
    trainings, again = dict[str, _Training](), dict[str, _Training]()
    first, other = configurations[0], Session(_learner(_MANY // 4))
    for one_way, kept in ((configurations, trainings), (configurations[::-1], again)):
        session = Session(_learner())
        for each in one_way:
            yield from _checked(each, _trained, each, session, kept)
        yield from _checked(first, _trained, first, other, {})  # an earlier run on somebody else
    if trainings.keys() != again.keys() or first.name not in trainings:
        return
    if writes := list(_checked(first, _writes, first)):  # then nothing else can be believed
        yield from writes
        return
    differing = [f for name in trainings for f in _repeats(trainings[name], again[name])]
    yield from differing
    for training in trainings.values():
        yield from _probabilities(training)
        for check in (_foresight, _fit_foresight, _learning, _order) if not differing else ():
            yield from (wrong := list(_checked(training.configuration, check, training)))
            if wrong:  # the others would say it again in their way
                break
    if not differing:  # else every comparison differs
        yield from _checked(first, _workers, trainings[first.name])
        yield from _checked(first, _hyperparameters, first.model)
    for look in (_gradients, _convergence):
        yield from _checked(first, look, first)
    for reviews in (0, 1, 6):
        yield from _checked(first, _few_reviews, first, reviews)
    for rating in (1, 3):
        yield from _checked(first, _one_outcome, first, rating)


def first_mistake(model: Model, features: Path | None = None) -> Finding | None:
    """What a few trainings tell: foresight, a wrong gradient, NaN. Raises NotInstalled."""
    _TABLE.set(features)
    configuration = _configurations_of([model])[0]

    def looked() -> _Findings:
        training, again = _train(configuration), _train(configuration)
        yield from _repeats(training, again)
        yield from _foresight(training)
        yield from _fit_foresight(training)
        yield from _gradients(configuration)

    return next(_checked(configuration, lambda: islice(looked(), 1)), None)


def _trained(each: Configuration, session: Session, into: dict[str, _Training]) -> _Findings:
    into[each.name] = _train(each, session)
    yield from ()


def _checked(each: Configuration, check: Callable[..., _Findings], *given: Any) -> _Findings:
    """Its findings; what it raises is one. Raises NotInstalled."""
    try:
        found = list(check(*given))
    except BaseException as error:
        if isinstance(error, NotInstalled | KeyboardInterrupt):
            raise
        kind = "no probability" if type(error) is ArithmeticError else "fails"
        found = [Finding(each.name, kind, in_words(error)[0])]
    yield from found
