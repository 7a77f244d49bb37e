"""Find what is wrong with a model, on simulated learners: `srs-eval models check`.

Each check takes a configuration, or its training, and yields findings; docs/adding-a-model.md
lists them. `foresight` finds models that read the future, `convergence` those that are hardly
trained.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import fields, replace
from functools import cache, wraps
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from srs_eval.data.errors import NotEnoughData, NotInstalled
from srs_eval.data.protocol import Protocol
from srs_eval.data.readers.features import with_made_up_features
from srs_eval.data.reviews import FloatArray, IntArray, ReviewLog, arrays_in
from srs_eval.data.trials import Trials
from srs_eval.engine import foresight
from srs_eval.engine.altered_logs import columns_of, with_columns
from srs_eval.engine.convergence import can_be_continued, find_poor_training
from srs_eval.engine.evaluate import demo_learner, evaluate, in_words
from srs_eval.engine.gradient_check import wrong_gradient, wrong_gradients
from srs_eval.engine.model_findings import Finding, Findings
from srs_eval.engine.replay import FoldedSession, Folds, Training, predict_again, train
from srs_eval.engine.run import Finished
from srs_eval.engine.session import Result, Session, fit_and_predict, listed, require_array
from srs_eval.models import Model
from srs_eval.models.configurations import Configuration, listed_names, resolve
from srs_eval.training.hyperparameters import Cancelled, Context, Hyperparameter, Value

# Rows as Anki's optimizer takes them: which reviews are evaluated depends on no outcome. The
# benchmark's outlier filter looks at all outcomes, so that a changed one could change the rows.
_AS_IN_A_RUN = Protocol(rows="anki")
PROTOCOL = replace(_AS_IN_A_RUN, n_splits=2, batch_size=64)
"""Of the short learner, on which most checks are made."""
_SAME_DAYS = (replace(PROTOCOL, short=True, secs=True), replace(PROTOCOL, short=True))
"""Under which models of somebody's own are looked at, too: same-day reviews are in histories."""
CONTEXT = Context(user=7)
_SMALL_BATCHES = replace(PROTOCOL, batch_size=48)
_SAME = 1e-9  # probabilities within this are the same
_ROUNDED = 1e-6  # probabilities within this are the same where sums have another order

_SHORT = 300  # reviews of the learner of most checks
_MIDDLE = 2_000
_LONG = 8_000  # for models that do otherwise with long logs: over 5,000 are evaluated or trained on
_ALL = 1_000_000
_CUTS = 8  # places where the short learner's log is cut, and half as many within days
_CUTS_OF_SAME_DAYS = 4  # the same, where same-day reviews are in histories
_ROUNDS_OF_LONG_LOGS = 2  # the same, where cards have more reviews than can be changed
_ROUNDS = 8  # of answers that are changed, of one review of each card
_PRETRAINED_ON = 3  # learners
_PRETRAINING_FAILS = "pretraining fails"


# The learners: the demo's cards, with a person's table of features if there is one

_TABLE: ContextVar[Path | None] = ContextVar("_TABLE", default=None)


def _learner(reviews: int = _SHORT, after: int = 0) -> ReviewLog:
    return with_made_up_features(demo_learner(reviews, after), _TABLE.get())


# What is trained


def _probabilities(training: Training) -> Findings:
    """Find predictions of 0 or 1, and trainings that were given up."""
    p = training.result.p
    certain = p[(p == 0) | (p == 1)]
    if len(certain):
        yield Finding(training.name, "certain", found=float(certain[0]))
    for note in training.result.notes:
        yield Finding(training.name, "not trained", note)


# What is the same again


def _differing(kind: str, training: Training, other: Result, within: float) -> Findings:
    """Yield the first review that another result predicts otherwise than the training's."""
    result = training.result
    differing = np.flatnonzero(np.abs(other.p - result.p) > within)
    if len(differing):
        first = int(differing[0])
        review = int(result.review_th[first])
        found = float(other.p[first])
        expected = float(result.p[first])
        yield Finding(training.name, kind, review=review, found=found, expected=expected)


def _repeats(training: Training, again: Training) -> Findings:
    """Compare with a training made after others and in another session."""
    yield from _differing("repeats", training, again.result, _SAME)


def _order(training: Training) -> Findings:
    """Ask for predictions in another order and in two parts: they must stay the same."""
    predict = training.configuration.model.predict
    if predict is None:
        return

    def in_parts(trials: Trials, fitted: object, index: IntArray, context: Context) -> FloatArray:
        shuffled = np.random.default_rng(1).permutation(len(index))
        p = np.empty(len(index))
        for part in np.array_split(shuffled, 2):
            if len(part):
                p[part] = predict(trials, fitted, index[part], context)
        return p

    session = foresight.session_like(training, training.log)
    after = predict_again(training, session, predict=in_parts)
    yield from _differing("order", training, after, _ROUNDED)


def _workers(training: Training) -> Findings:
    """Train in a process of its own, in which nothing else has run."""
    configuration = training.configuration
    events = evaluate(_learner(), [configuration], jobs=1, context=CONTEXT, use_cache=False)
    for event in events:
        if isinstance(event, Finished):
            yield from _differing("workers", training, event.result, _SAME)
        elif reason := getattr(event, "reason", ""):
            yield Finding(configuration.name, "fails", reason)


def _writes(configuration: Configuration) -> Findings:
    """Find changes to the arrays that a model is given, by torch and compiled code, too."""
    if configuration.model.members:  # it is given predictions
        return
    trials = Session(_learner()).trials(configuration.protocol)
    arrays = list(arrays_in(trials))
    before = [array.copy() for array in arrays]
    within = replace(configuration, model=replace(configuration.model, file=None))  # not on a copy
    fit_and_predict(within, trials, CONTEXT)
    if any(a.tobytes() != b.tobytes() for a, b in zip(arrays, before, strict=True)):
        yield Finding(configuration.name, "writes")


# What seldom happens


def _few_reviews(configuration: Configuration, reviews: int) -> Findings:
    """Fit to hardly any reviews: usable parameters must come of it, or NotEnoughData."""
    model = configuration.model
    if model.predict is None:
        return
    trials = Session(_learner()).trials(configuration.protocol)
    train = trials.folds[-1].train[:reviews]
    test = trials.folds[-1].test
    for fit in filter(None, (model.fit, model.fit_s0)):
        try:
            fitted = fit(trials, train, np.ones(len(train)), CONTEXT)
            if not np.isfinite(listed(fitted) or [0.0]).all():
                raise ArithmeticError("parameters that are no finite numbers")
            predicted = model.predict(trials, fitted, test, CONTEXT)
            p = require_array(f"{model.name}: predict", predicted, test)
            if not ((p >= 0) & (p <= 1)).all():
                raise ArithmeticError("predictions that are no probabilities")
        except NotEnoughData:
            continue
        except Exception as error:
            yield Finding(configuration.name, "few reviews", in_words(error)[0], found=reviews)


def _one_outcome(configuration: Configuration, rating: int) -> Findings:
    """Evaluate on a log where all failed (1) or all passed (3)."""
    rating_of_all = np.full_like(columns_of(_learner())["rating"], rating)
    log = with_columns(_learner(), {"rating": rating_of_all})
    try:
        Session(log).run(configuration, CONTEXT)
    except Exception as error:
        yield Finding(configuration.name, "one outcome", in_words(error)[0], found=rating)


# What a training can be set to


def _other_value(hyperparameter: Hyperparameter) -> Value:
    """Return a value that is far enough from the default for its effect to be seen."""
    if hyperparameter.choices:
        others = (choice for choice in hyperparameter.choices if choice != hyperparameter.default)
        return next(others)
    if hyperparameter.name == "batch_size":
        return 32
    if hyperparameter.name == "iterations":
        return 2
    number = hyperparameter.default_under(_SMALL_BATCHES)
    assert not isinstance(number, str)
    return number + 3 if hyperparameter.whole else number * 5


def _hyperparameters(model: Model) -> Findings:
    """Set each: its default must change no figure, and another value some."""
    if not model.hyperparameters:
        return
    (plain,) = resolve(model.name, _SMALL_BATCHES)
    session = Session(_learner(_SHORT if model.needs else 2 * _SHORT))
    defaults = {each.name: each.default_under(_SMALL_BATCHES) for each in plain.tunable}

    @cache
    def predictions(values: tuple[tuple[str, Value], ...]) -> FloatArray:
        return session.run(plain.trained_with(dict(values)), CONTEXT).p

    as_published = session.run(plain, CONTEXT).p
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
            kind = "idle seed" if each.name == "seed" else "hyperparameter"
            yield Finding(plain.name, kind, each.name)


# Gradients


def _gradients(configuration: Configuration, context: Context = CONTEXT) -> Findings:
    """Check gradients of the losses that `fit` gives to a trainer, and of `Model.loss`."""
    model = configuration.model
    if model.fit is None:
        return
    trials = Session(_learner()).trials(configuration.protocol)
    train = trials.folds[-1].train
    weights = np.ones(len(train))
    wrong = wrong_gradients(model.fit, trials, train, weights, context)
    loss = model.loss
    if loss is not None:

        def objective(w: FloatArray) -> tuple[float, FloatArray]:
            return loss(trials, w, train, weights, context)

        own = wrong_gradient("Model.loss", objective, model.default(context))
        if own is not None:
            wrong.append(own)
    for where, parameter, slope, difference in wrong:
        yield Finding(configuration.name, "gradient", where, 0, parameter, slope, difference)


# What training is for


def _poor_training(model: Model) -> Findings:
    """Look under the protocol of a run, on all reviews of the demo.

    Models without a list of parameters are only compared with the average, on fewer reviews.
    """
    (configuration,) = _configurations_of([model], Protocol())[:1]
    session = Session(_learner(_MIDDLE))
    if can_be_continued(configuration, session, CONTEXT):
        session = Session(_learner(_ALL))
    yield from find_poor_training(configuration, session, CONTEXT)


# Other learners


def _with_same_days(model: Model) -> Findings:
    """Look for reads of the future where same-day reviews are in histories or evaluated."""
    if model.file is None:  # the package's have such configurations where they can take the flags
        return
    seen = [_configurations_of([model])[0].protocol]
    for protocol in _SAME_DAYS:
        (configuration,) = resolve(model.name, protocol)
        if configuration.protocol in seen:
            continue
        seen.append(configuration.protocol)
        as_benchmark = replace(configuration.protocol, rows="benchmark")
        training = train(_under(as_benchmark, model), Session(_learner()), CONTEXT)
        for check in _OF_SAME_DAYS:
            wrong = list(check(training))
            if wrong:
                yield from wrong
                return


def _in_all_kinds_of_reviews(
    model: Model, context: Context = CONTEXT, protocol: Protocol = _AS_IN_A_RUN
) -> Findings:
    """Look for reads of the own answer that are made in some kinds of reviews alone."""
    session = FoldedSession(_learner(_MIDDLE), foresight.wide_fold)
    training = train(_under(protocol, model), session, context)
    yield from foresight.find_own_answers(training, _ROUNDS)
    yield from foresight.find_own_answers_in_fits(training)


def _on_a_middle_log(model: Model) -> Findings:
    """Look for reads of the future under the protocol that a run has."""
    (configuration,) = _configurations_of([model], _AS_IN_A_RUN)[:1]
    training = train(configuration, Session(_learner(_MIDDLE)), CONTEXT)
    yield from foresight.find_future_inputs(training, cuts=3)


def _on_a_long_log(
    model: Model, context: Context = CONTEXT, protocol: Protocol = _AS_IN_A_RUN
) -> Findings:
    """Look for reads of the future by models that do otherwise with long logs."""
    training = _trained_on_a_long_log(model, foresight.late_fold, context, protocol)
    yield from foresight.find_own_answers(training, _ROUNDS_OF_LONG_LOGS)
    yield from foresight.find_future_inputs(training, cuts=2)
    yield from foresight.find_future_fits(training)


def _with_a_long_training(model: Model) -> Findings:
    """Look for reads of the future by models that do otherwise with much to train on."""
    training = _trained_on_a_long_log(model, foresight.last_fold, CONTEXT)
    yield from foresight.find_future_inputs(training, cuts=2)
    if training.fits:
        yield from foresight.find_future_fits(training, most=1)


def _trained_on_a_long_log(
    model: Model,
    folds_of: Callable[[Trials], Folds],
    context: Context,
    protocol: Protocol = _AS_IN_A_RUN,
) -> Training:
    configuration = _under(protocol, model)
    return train(configuration, FoldedSession(_learner(_LONG), folds_of), context)


def _after_pretraining(
    model: Model, context: Context = CONTEXT, protocol: Protocol = PROTOCOL
) -> Findings:
    """Look for reads of the future where a model starts from weights of other learners.

    Its predictions without a training of its own are looked at, too.
    """
    if model.pretrain is None:
        return
    others = [
        Session(_learner(_SHORT, after=number * _SHORT)) for number in range(1, _PRETRAINED_ON + 1)
    ]
    try:
        weights = model.pretrain([each.trials(protocol) for each in others], context)
    except (Cancelled, NotInstalled):
        raise
    except Exception as error:
        yield Finding(model.name, _PRETRAINING_FAILS, in_words(error)[0], found=len(others))
        return
    for name in (model.name, f"{model.name}-dry-run"):
        (configuration,) = resolve(name, protocol)
        of_weights = replace(configuration.model, pretrain=None)  # the context has them already
        training = train(
            replace(configuration, model=of_weights),
            Session(_learner()),
            replace(context, pretrained=weights),
        )
        found = [*foresight.find_outcome_leaks(training)]
        found += foresight.find_future_inputs(training, cuts=3)
        if training.fits:
            found += foresight.find_leaky_fits(training)
            found += foresight.find_future_fits(training)
        if found:
            yield found[0]
            return


# All of it


def _configurations_of(
    models: Iterable[Model], protocol: Protocol = PROTOCOL
) -> list[Configuration]:
    """Return all that the group `all` means by these models."""
    names = [name for model in models for name in listed_names(model)]
    return [configuration for name in names for configuration in resolve(name, protocol)]


def short_protocol(protocol: Protocol) -> Protocol:
    """Return the protocol of the short learner that has another protocol's flags."""
    return replace(protocol, n_splits=2, batch_size=64, max_seq_len=64, train_equals_test=False)


def _under(protocol: Protocol, model: Model) -> Configuration:
    """Return the first configuration of a model under a protocol.

    It is prepared with Anki's rows. The model is told which rows the protocol has.
    """
    configuration = _configurations_of([model])[0]
    prepared = replace(protocol, rows="anki", train_equals_test=False)
    for flag in fields(Protocol):  # a model may need some, as LogisticRegression needs --secs
        needed = getattr(configuration.protocol, flag.name)
        if needed != getattr(PROTOCOL, flag.name):
            prepared = replace(prepared, **{flag.name: needed})
    if protocol.rows != prepared.rows:
        configuration = replace(configuration, model=_told_rows(model, protocol))
    return replace(configuration, protocol=prepared)


def _told_rows(model: Model, protocol: Protocol) -> Model:
    """Return a model whose functions find a protocol's rows in `trials.protocol`."""

    def telling(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def told(trials: Trials, *arguments: Any) -> Any:
            seen = replace(trials.protocol, rows=protocol.rows)
            return function(replace(trials, protocol=seen), *arguments)

        return told

    changed: dict[str, Any] = {}
    for name in ("fit", "fit_s0", "predict", "online", "loss"):
        function = getattr(model, name)
        if function is not None:
            changed[name] = telling(function)
    return replace(model, **changed)


def findings(models: Iterable[Model], features: Path | None = None) -> Findings:
    """Find what is wrong with models, each alone, with a table of features.

    Raises:
        NotInstalled: Something that a model needs is missing.
    """
    _TABLE.set(features)
    for model in models:
        seen = set[tuple[str, str, str, int]]()
        for finding in _of_model(model):
            key = finding.configuration, finding.kind, finding.what, finding.parameter
            if key not in seen:
                seen.add(key)
                yield finding


def _of_model(model: Model) -> Findings:
    configurations = _configurations_of([model])
    trainings = dict[str, Training]()
    again = dict[str, Training]()
    first = configurations[0]
    other = Session(_learner(_MIDDLE // 4))
    for one_way, kept in ((configurations, trainings), (configurations[::-1], again)):
        session = Session(_learner())
        for configuration in one_way:
            yield from _checked(configuration, _trained, configuration, session, kept)
        yield from _checked(first, _trained, first, other, {})  # an earlier run on somebody else
    if trainings.keys() != again.keys() or first.name not in trainings:
        return
    writes = list(_checked(first, _writes, first))
    if writes:  # then nothing else can be believed
        yield from writes
        return
    differing = [f for name in trainings for f in _repeats(trainings[name], again[name])]
    yield from differing
    knows_too_much = False
    for training in trainings.values():
        yield from _probabilities(training)
        for check in _WHAT_IS_KNOWN_WHEN if not differing else ():
            wrong = list(_checked(training.configuration, check, training))
            yield from wrong
            if wrong:  # the others would say it again in their way
                knows_too_much = True
                break
    if not differing:  # else every comparison differs
        if not knows_too_much:
            yield from _on_other_learners(model, first)
        yield from _checked(first, _workers, trainings[first.name])
        yield from _checked(first, _hyperparameters, model)
    yield from _checked(first, _gradients, first)
    yield from _checked(first, _poor_training, model)
    for reviews in (0, 1, 6):
        yield from _checked(first, _few_reviews, first, reviews)
    for rating in (1, 3):
        yield from _checked(first, _one_outcome, first, rating)


_WHAT_IS_KNOWN_WHEN: tuple[Callable[[Training], Findings], ...] = (
    foresight.find_outcome_leaks,
    foresight.find_leaky_fits,
    foresight.find_learning,
    lambda training: foresight.find_own_answers(training, _ROUNDS),
    _order,
    lambda training: foresight.find_future_inputs(training, _CUTS),
    foresight.find_future_fits,
)


_OF_SAME_DAYS: tuple[Callable[[Training], Findings], ...] = (
    foresight.find_outcome_leaks,
    foresight.find_learning,
    lambda training: foresight.find_own_answers(training, _ROUNDS_OF_LONG_LOGS),
    lambda training: foresight.find_future_inputs(training, _CUTS_OF_SAME_DAYS),
    lambda training: foresight.find_future_fits(training, most=1),
)


def _on_other_learners(model: Model, first: Configuration) -> Findings:
    """Look for reads of the future until one is found.

    On longer logs, after a pretraining, and with same-day reviews.
    """
    for check in (
        _after_pretraining,
        _in_all_kinds_of_reviews,
        _with_same_days,
        _on_a_middle_log,
        _on_a_long_log,
        _with_a_long_training,
    ):
        wrong = list(_checked(first, check, model))
        if wrong:
            yield from wrong
            return


class _TimeIsUp(Cancelled):
    """A check has taken as long as it may."""


class _Stopped(Cancelled):
    """A person has cancelled the run that a check is part of."""


def first_mistake(
    model: Model,
    features: Path | None = None,
    protocol: Protocol = _AS_IN_A_RUN,
    *,
    seconds: float = math.inf,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> Finding | None:
    """Look for what makes figures meaningless: reads of the future, a wrong gradient, NaN.

    `protocol` has the flags of the run. Returns what is found first, and a finding of the kind
    "unfinished" where `seconds` are over before.

    Raises:
        NotInstalled: Something that the model needs is missing.
        Cancelled: `is_cancelled` was true.
    """
    _TABLE.set(features)
    configuration = _under(short_protocol(protocol), model)
    end = time.monotonic() + seconds

    def tick(fraction: float) -> None:
        if is_cancelled():
            raise _Stopped
        if time.monotonic() > end:
            raise _TimeIsUp

    look = _most_important(model, configuration, replace(CONTEXT, tick=tick), protocol)
    try:
        return next(_checked(configuration, lambda: islice(look, 1)), None)
    except _TimeIsUp:
        return Finding(configuration.name, "unfinished")


def _most_important(
    model: Model, configuration: Configuration, context: Context, protocol: Protocol
) -> Findings:
    """Yield what a few trainings tell, what is quick to find first."""
    training = train(configuration, Session(_learner()), context)
    yield from _repeats(training, train(configuration, Session(_learner()), context))
    for check in _WHAT_IS_KNOWN_WHEN:
        if check is not _order:  # it makes no figure meaningless
            yield from check(training)
    # What the model keeps of one learner must not be taken for another's.
    other = Session(_learner(_MIDDLE // 4))
    yield from _checked(configuration, _trained, configuration, other, {}, context)
    yield from _repeats(training, train(configuration, Session(_learner()), context))
    yield from _in_all_kinds_of_reviews(model, context, protocol)
    yield from _gradients(configuration, context)
    yield from _on_a_long_log(model, context, protocol)
    for finding in _after_pretraining(model, context, configuration.protocol):
        if finding.kind != _PRETRAINING_FAILS:  # it may be made for more users
            yield finding


def _trained(
    configuration: Configuration,
    session: Session,
    into: dict[str, Training],
    context: Context = CONTEXT,
) -> Findings:
    into[configuration.name] = train(configuration, session, context)
    yield from ()


def _checked(
    configuration: Configuration, check: Callable[..., Iterator[Finding]], *arguments: object
) -> Findings:
    """Yield the findings of a check; what it raises is one.

    Warnings are not shown, as in a run: checks try what seldom happens, such as a fit to no
    reviews, and what numpy warns of there is a mistake only where a prediction shows it.

    Raises:
        NotInstalled: Something that the model needs is missing.
        Cancelled: The time is up, or a person has cancelled.
    """
    try:
        with warnings.catch_warnings(), configuration.model.code_kept_apart():
            warnings.simplefilter("ignore")
            found = list(check(*arguments))
    except BaseException as error:
        if isinstance(error, NotInstalled | KeyboardInterrupt | _TimeIsUp | _Stopped):
            raise
        kind = "no probability" if type(error) is ArithmeticError else "fails"
        found = [Finding(configuration.name, kind, in_words(error)[0])]
    yield from found
