"""Build a made-up world for the app's tests: a small collection and an engine without models."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from textual import events
from textual.app import App
from textual.screen import Screen

from srs_eval.advice.findings import (
    Belief,
    ButtonPreview,
    Calibration,
    Candidate,
    DayEffect,
    Finding,
    Fit,
    HardButton,
    Health,
    Month,
    Months,
    OptimizationFrequency,
    ParameterNoise,
    PresetParameters,
    RecallGroup,
    Retention,
    RetentionCause,
    RetentionPart,
    Rival,
    Sharing,
    SharingDifference,
    TypicalCard,
)
from srs_eval.advice.questions import TASKS_WITH_PRESETS
from srs_eval.advice.workload.estimate import RETENTIONS, Workload, WorkloadQuestion
from srs_eval.advice.workload.today import OverdueCards
from srs_eval.app import AppOptions, SrsEvalApp
from srs_eval.data.reviews import Cards, DayGrid, Deck, Entries, ImportSummary, Preset, ReviewLog
from srs_eval.data.trials import compute_rmse_bin_ids
from srs_eval.engine import result as engine
from srs_eval.engine.result import Result
from srs_eval.engine.run import Event, Failed, Finished, Prepared, Progress, Skipped, Started
from srs_eval.metrics import compute_metrics
from srs_eval.models import fsrs6
from srs_eval.models.configurations import Configuration, resolve_configurations
from srs_eval.stats.intervals import Interval
from srs_eval.tui.widgets.ranking import RankingTable

REVIEWS = 3_000
NOW = 1_717_200_000.0  # 1 June 2024
FILE = Path("collection.anki2")

AnyScreen = TypeVar("AnyScreen", bound=Screen[Any])

# Name, how well it separates (0: not at all), how far it is off, and whether same-day
# reviews are evaluated too.
MODELS = {
    "AVG": (0.0, 0.0, False),
    "MOVING-AVG": (0.3, 0.0, False),
    "SM2": (0.1, 0.15, False),
    "DASH": (0.6, 0.03, False),
    "FSRS-6-dry-run": (0.9, 0.05, False),
    "FSRS-6": (1.0, 0.02, False),
    "FSRS-6-recency": (1.02, 0.0, False),
    "FSRS-5-secs": (0.9, 0.02, True),
}


OWN = {"FSRS-6-own": (1.0, 0.03, False)}  # in no made-up run unless it is asked for


def make_log() -> ReviewLog:
    """Make 4,000 entries of 200 cards in two decks: a few are manual, a few of deleted cards."""
    random = np.random.default_rng(7)
    n = 4_000
    card = 1_000 + (np.arange(n) * 7919) % 200
    time_ms = 1_700_000_000_000 + np.arange(n) * 3_600_000
    rating = np.where(random.random(n) < 0.15, 1, 3)
    kind = np.where(np.arange(n) < 200, 0, 1)
    rating[::97] = 0
    kind[::97] = 4
    cards = np.arange(1_000, 1_190)
    return ReviewLog(
        import_summary=ImportSummary(
            path="collection.anki2",
            format="Anki collection, schema 18",
            entries_read=n,
            notes=("Reviews that Anki has not yet written back to the file are included.",),
            fsrs_enabled=True,
        ),
        entries=Entries(time_ms, card, rating, kind, np.full(n, 2500), np.full(n, 6_000)),
        cards=Cards(cards, cards, np.where(cards % 3, 10, 11), np.zeros(len(cards), np.bool_)),
        decks={
            10: Deck(10, "Japanese::Words", 1),
            11: Deck(11, "Geography [rivers]", 2, desired_retention=0.85),
        },
        presets={
            1: Preset(1, "Default", {6: tuple(np.linspace(0.1, 3, 21).tolist())}, 0.9),
            2: Preset(2, "Maps", {}, 0.92, ignore_before="2023-12-01"),
        },
        day_grid=DayGrid(1_717_200_000, "rollover 4:00 (from the collection)"),
    )


def make_costs(
    preset: str = "French",
    desired: float = 0.9,
    scale: float = 1.0,
    done: int = 2,
    retentions: tuple[float, ...] = RETENTIONS,
    unchanged_presets: tuple[str, ...] = (),
) -> Workload:
    """Make costs that grow with the retention, and from 0.97 on without measure.

    `done` of the two draws exist; they lie a tenth below and above.
    """

    def figures(times: float) -> tuple[tuple[float, ...], ...]:
        reviews = [
            2 / (1 - retention) if retention <= 0.971 else 9_000.0 for retention in retentions
        ]
        return tuple(
            (
                times * scale * reviews_a_day,
                times * scale * reviews_a_day / 8,
                times * (1_000 + 400 * at),
                at,
                0.0,
            )
            for at, reviews_a_day in zip(retentions, reviews, strict=True)
        )

    return Workload(
        preset=preset,
        question=WorkloadQuestion(draws=2),
        retentions=retentions,
        reviews=3_000,
        desired=desired,
        presets=((preset, desired),),
        learned_cards=1_000,
        unseen_cards=400,
        overdue=OverdueCards(0, 1_000, 0.0),
        new_a_day=5,
        pace_days=90,
        recent_reviews_a_day=24,
        recent_minutes_a_day=3.5,
        schedule="your current parameters",
        observed_retentions=(0.84, 0.93),
        excluded_preset_sentences=(),
        estimates=figures(1.0),
        draws=(figures(0.9), figures(1.1))[:done],
        unchanged_presets=unchanged_presets,
    )


def make_result(name: str) -> Result:
    """Make the result of a model on made-up reviews, always the same; its name says how good."""
    separates, off, same_day = (MODELS | OWN)[name]
    random = np.random.default_rng(11 if same_day else 5)
    n = REVIEWS // 2 if same_day else REVIEWS
    logit = 1.7 + 1.1 * (random.random(n) + random.random(n) + random.random(n) - 1.5) * 2
    y = (random.random(n) < 1 / (1 + np.exp(-logit))).astype(np.float64)
    noise = 0.4 * (random.random(n) - 0.5)
    p = 1 / (1 + np.exp(-(1.7 + separates * (logit - 1.7) + separates * noise)))
    p = np.clip(p - off, 0.01, 0.99)
    steps = np.arange(n)
    bins = compute_rmse_bin_ids(1.0 + steps % 40, 1 + steps % 9, steps % 3)
    return Result(
        configuration=name,
        metrics=compute_metrics(y, p, bins),
        parameters={0: [0.2 + 0.31 * w for w in range(21)]} if name.startswith("FSRS") else None,
        p=p,
        tests=engine.TestSet(
            y=y,
            review_th=1 + 2 * steps + same_day,
            fold=1 + steps * 5 // n,
            partition=np.zeros(n, np.int64),
            day=steps * 100 // n,
            bin=bins,
            reviews_before=1 + steps % 9,
        ),
        seconds=0.4,
        in_sample_reviews=1_200 if name in OWN else 0,
        notes=("may have been fitted to 1,200 of these 3,000 reviews",) if name in OWN else (),
    )


def configurations(names: Iterable[str]) -> tuple[Configuration, ...]:
    """Return the configurations of all names, in their order."""
    return tuple(chain.from_iterable(map(resolve_configurations, names)))


class FakeEngine:
    """Replace `evaluate` of the app.

    It waits for `go` at the model and fold of `hold_at`, and obeys `cancel`.
    """

    def __init__(
        self,
        names: Iterable[str] = tuple(MODELS),
        *,
        hold_at: tuple[str, int] | None = None,
        failing: Iterable[str] = (),
        skipping: Iterable[str] = (),
        error: Exception | None = None,
    ) -> None:
        self.names = list(names)
        self.hold_at = hold_at
        self.error = error
        self.failing = set(failing)
        self.skipping = set(skipping)
        self.holding = threading.Event()
        self.go = threading.Event()
        self.closed = threading.Event()
        self.requests: list[Any] = []

    def __call__(
        self, log: ReviewLog, names: Any, protocol: Any, *, cancel: threading.Event, **_: Any
    ) -> Iterator[Event]:
        self.requests.append([configuration.name for configuration in names])
        try:
            yield from self._events(names, cancel)
        finally:
            self.closed.set()

    def _events(self, names: Any, cancel: threading.Event) -> Iterator[Event]:
        if self.error is not None:
            raise self.error
        requested = [configuration.name for configuration in names]
        # Whoever asks for a group gets what there is; who runs again gets what was missing.
        chosen = configurations(requested if set(requested) <= set(self.names) else self.names)
        yield Prepared(3_900, REVIEWS, chosen)
        for configuration in chosen:
            name = configuration.name
            yield Started(configuration)
            for fold in range(1, 6):
                if self.hold_at == (name, fold):
                    self.holding.set()
                    while not self.go.wait(0.01):
                        if cancel.is_set():
                            return
                if cancel.is_set():
                    return
                yield Progress(configuration, fold / 5)
            if name in self.failing:
                yield Failed(configuration, "ZeroDivisionError: float division", "Traceback ...")
            elif name in self.skipping:
                yield Skipped(configuration, "only 3 usable reviews (at least 6 are needed)")
            else:
                yield Finished(configuration, make_result(name))


def make_answers() -> list[Finding]:
    """Make the answers of a learner with two presets, always the same."""

    def interval(estimate: float, half_width: float, reviews: int = 2_300) -> Interval:
        return Interval(estimate, half_width, reviews, 60, ((half_width / 2, 59),))

    def of_preset(
        subject: str, current_loss: float, gain: float, half: float, better: float, act: str
    ) -> Finding:
        """Make the finding of a preset with a refit that gains `gain` ± `half`.

        `better` is the probability that the refit is better.
        """
        refit = Candidate(
            "recency", interval(current_loss - gain, 0.021), interval(-gain, half), "better"
        )
        sm2 = Candidate("sm2", interval(current_loss + 0.06, 0.02), interval(0.06, 0.015))
        defaults = Candidate(
            "defaults", interval(current_loss + 0.02, 0.023), interval(0.02, 0.01), "worse"
        )
        optimized = Candidate("optimized", interval(current_loss - gain, 0.021))
        evaluated = (
            Candidate("now", interval(current_loss, 0.024)),
            replace(refit, belief=Belief(better, gain, gain - half, gain + half)),
            replace(defaults, belief=Belief(0.05, -0.02, -0.03, -0.01)),
            replace(sm2, belief=Belief(0.02, -0.06, -0.075, -0.045)),
        )
        keeps = act == "keep"
        return Finding(
            "parameters",
            subject,
            act,
            probability=1 - better if keeps else better,
            gain=0.0 if keeps else gain,
            interval=refit.difference,
            parameters=None if keeps else fsrs6.DEFAULT,
            reviews=2_300,
            probabilities={
                candidate.name: candidate.belief.probability
                for candidate in evaluated
                if candidate.belief
            },
            evidence=PresetParameters(
                is_fitted=True,
                is_known=True,
                fsrs_is_off=False,
                candidates=evaluated,
                held_out=(optimized, defaults, sm2),
            ),
        )

    saved = interval(0.13, 0.03)
    average = Rival(
        "average", "average", interval(0.501, 0.024), interval(-0.065, 0.016), "better", saved
    )
    older = Rival(
        "SM-2 as scheduled",
        "older scheduler",
        interval(0.46, 0.02),
        interval(-0.024, 0.013),
        "better",
        interval(0.05, 0.03),
    )
    fit = Fit(
        "well", "stored", interval(0.11, 0.03), interval(0.436, 0.02), (average, older), False
    )
    by_month = tuple(
        Month(f"2024-0{number}", interval(0.84, 0.03), 0.86, interval(0.43, 0.03))
        for number in (4, 5)
    )
    apart = SharingDifference("all", "split", interval(0.006, 0.004), "keep shared")
    shared = Sharing("preset", 2, (apart,))
    cards = (
        TypicalCard("new", 0, (60.0, 360.0, 600.0, 691_200.0)),
        TypicalCard("young", 9, (600.0, 1.2e6, 1.8e6, 3.4e6)),
    )
    all_reviews = RecallGroup("all", interval(0.847, 0.012), 0.87)
    near = RecallGroup("88–92 %", interval(0.88, 0.02), 0.9)
    remembered = Retention(
        "below",
        (all_reviews,),
        0.9,
        False,
        expectation_gap=interval(-0.023, 0.03),
        timing_gap=interval(-0.03, 0.01),
        parts=(RetentionPart(RetentionCause.LATE, interval(-0.03, 0.01)),),
    )
    costs = make_costs("Default", scale=2.7, done=0, retentions=(0.85, 0.9))
    costs = replace(costs, estimates=((41.0, 6.0, 900.0, 0.85, 0.0), costs.estimates[1]))
    return [
        Finding("fit", "all reviews", interval=average.difference, reviews=2_300, evidence=fit),
        of_preset("Default", 0.470, 0.029, 0.012, 0.97, "optimize"),
        of_preset("Maps", 0.452, 0.0005, 0.02, 0.52, "keep"),
        Finding("buttons", "Default", evidence=ButtonPreview(0.9, (("in force", cards),))),
        Finding("noise", "Default", evidence=ParameterNoise("0 of 21")),
        Finding("health", "Default", "keep", 0.98, evidence=Health(older, None)),
        Finding("split", "all presets", "keep shared", 0.98, reviews=4_000, evidence=shared),
        costs.glance_finding,
        Finding("often", "Default", "every +25 %", evidence=OptimizationFrequency("as good")),
        Finding(
            "often", "Maps", "every +10 %", reviews=725, evidence=OptimizationFrequency("safe")
        ),
        Finding(
            "says", "all presets", evidence=Calibration("below", near, all_reviews, (near,), False)
        ),
        Finding(
            "time",
            "2024-05",
            interval=interval(0.002, 0.015),
            reviews=400,
            evidence=Months("no matter", by_month),
        ),
        Finding("retention", "Default", evidence=remembered),
        Finding(
            "day", "your reviews", evidence=DayEffect("hardly matters", interval(0.012, 0.005))
        ),
        Finding("hard", "all presets", evidence=HardButton("seldom", 0.003)),
    ]


class FakeAnswers:
    """Replace `answer` of the app.

    It waits for `go` before the question `hold_at`, and obeys `cancel`.
    """

    def __init__(self, *, hold_at: str = "", error: Exception | None = None) -> None:
        self.hold_at = hold_at
        self.error = error
        self.holding = threading.Event()
        self.go = threading.Event()
        self.requests: list[ReviewLog] = []

    def __call__(
        self, log: ReviewLog, *, cancel: threading.Event, **_: Any
    ) -> Iterator[tuple[tuple[Finding, ...], tuple[str, ...]]]:
        self.requests.append(log)
        if self.error is not None:
            raise self.error
        answers = make_answers()
        for question in dict.fromkeys(finding.question for finding in answers):
            while question == self.hold_at and not self.go.wait(0.01):
                self.holding.set()
                if cancel.is_set():
                    return
            if cancel.is_set():
                return
            yield tuple(finding for finding in answers if finding.question == question), (question,)
        answered = {finding.question for finding in answers}
        unanswered = []
        for task in TASKS_WITH_PRESETS:
            for question in task:
                if question not in answered:
                    unanswered.append(question)
        yield (), tuple(unanswered)


async def to_import_summary(pilot: Any) -> None:
    """Go from the answers of a file that is being opened to its import summary."""
    await wait_until(pilot, is_on_screen(pilot.app, "AnswersScreen"))
    await pilot.press("i")
    await wait_until(pilot, is_on_screen(pilot.app, "ImportSummaryScreen"))


async def to_results(pilot: Any, app: SrsEvalApp) -> None:
    """Go from the start with a path to the finished ranking."""
    await wait_until(pilot, is_on_screen(app, "AnswersScreen"))
    await pilot.press("m")
    await wait_until(pilot, is_on_screen(app, "RunScreen"))
    await wait_until(pilot, lambda: not app.session.models.run.is_running)
    await wait_until(pilot, lambda: app.screen.query_one(RankingTable).chosen is not None)


class WatchedApp(SrsEvalApp):
    """Record the screens and messages of the app, however fast or slow the machine is."""

    CSS_PATH = Path(inspect.getfile(SrsEvalApp)).parent / "tui" / "app.tcss"

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.opened: list[str] = []
        """Classes of the screens in the order of their opening, those closed again too."""

        self.notices: list[str] = []
        """All notifications, also those that are no longer visible."""

    def notify(self, message: str, **named: Any) -> None:
        self.notices.append(message)
        super().notify(message, **named)

    def push_screen(self, screen: Any, *arguments: Any, **named: Any) -> Any:
        self.opened.append(type(screen).__name__)
        return super().push_screen(screen, *arguments, **named)

    async def _press_keys(self, keys: Iterable[str]) -> None:
        """Press each key and wait until its effects have appeared.

        Textual waits until the process does nothing for a moment, which on a busy machine says
        little.
        """
        for key in keys:
            await super()._press_keys([key])
            is_handled = asyncio.Event()
            self.call_later(is_handled.set)
            while self.is_running and not is_handled.is_set() and not self._exit:
                await asyncio.sleep(0.001)
            while self.is_running and self._input.waiting and not self._exit:
                await asyncio.sleep(0.01)


def make_app(
    folder: Path, path: Path | None = None, *, folds_models: bool = False, **keywords: Any
) -> WatchedApp:
    """Make an app whose surroundings are made up and whose state is saved in `folder`.

    The ranking lists all models, as if the user had unfolded it; with `folds_models`, it is as
    `folder` has it, and at the first start folded.
    """
    settings: dict[str, Any] = {
        "evaluate": FakeEngine(),
        "answer": FakeAnswers(),
        "load": lambda path, **_: make_log(),
        "profiles": lambda: [],
        "profile_folders": lambda home: [],
        "monotonic": lambda: 100.0,
        "now": lambda: NOW,
    }
    settings.update(keywords)
    options = settings.pop("options", AppOptions())
    app = WatchedApp(path, options, state_folder=folder, **settings)
    if not folds_models:
        app.session.state = replace(app.session.state, shows_all_models=True)
    return app


async def wait_until(pilot: Any, condition: Callable[[], Any], seconds: float = 120.0) -> None:
    """Let the app work until a condition is true and stays true.

    A condition that is true for a moment only may be missed.
    """
    for _ in range(int(seconds / 0.02)):
        await pilot.pause(0.02)
        if pilot.app._exception is not None:
            raise pilot.app._exception
        if condition():
            await pilot.pause()
            return
    raise AssertionError(f"never came true on {pilot.app.screen}")


def is_on_screen(app: SrsEvalApp, name: str) -> Callable[[], bool]:
    """Return a condition: the app shows the screen of that class, and it is mounted."""
    return lambda: type(app.screen).__name__ == name and app.screen.is_mounted


def screen_of(app: App[int], kind: type[AnyScreen]) -> AnyScreen:
    """Return the app's screen, which must be of this class."""
    assert isinstance(app.screen, kind)
    return app.screen


def screen_text(app: SrsEvalApp) -> str:
    """Return the screen as lines of text."""
    width, height = app.size
    strips = app.screen._compositor.render_strips()
    return "\n".join(strip.text[:width] for strip in strips[:height])


def type_at_once(app: SrsEvalApp, keys: str) -> None:
    """Send keys one right after another, as a terminal does while the app is busy."""
    names = {
        "/": "slash",
        "?": "question_mark",
        " ": "space",
        "\r": "enter",
        "\x1b": "escape",
        "\x0f": "ctrl+o",
        "\x10": "ctrl+p",
        "\x14": "ctrl+t",
    }
    for key in keys:
        app.post_message(events.Key(names.get(key, key), key))


def mouse(kind: type[events.MouseEvent], x: int, y: int, button: int = 1) -> events.MouseEvent:
    """Make a mouse event at a position of the screen, as a terminal's driver does."""
    return kind(None, x, y, 0, 0, button, False, False, False, x, y)


def click_at_once(app: SrsEvalApp, x: int, y: int, times: int = 1) -> None:
    """Click several times before the app has done anything about the first one."""
    for _ in range(times):
        app.post_message(mouse(events.MouseDown, x, y))
        app.post_message(mouse(events.MouseUp, x, y))
