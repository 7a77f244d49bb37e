"""The interface for notebooks: the engine that the app and the command line use.

import srs_eval
log = srs_eval.load("collection.anki2")
results = srs_eval.evaluate(log, models="fast")
results.frame()
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from srs_eval.comparison import EQUIVALENT
from srs_eval.configurations import resolve
from srs_eval.context import Context
from srs_eval.engine import Event, Failed, Finished, Skipped
from srs_eval.engine import evaluate as engine_evaluate
from srs_eval.errors import InputError
from srs_eval.protocol import Protocol
from srs_eval.results import Result
from srs_eval.reviews import ReviewLog

if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas

    from srs_eval.presets.answers import Answer


@dataclass(frozen=True, eq=False)
class Results(Mapping[str, Result]):
    """Results by configuration name, best log loss first, and why others are missing."""

    results: Mapping[str, Result]
    failed: Mapping[str, str]
    skipped: Mapping[str, str]

    def __getitem__(self, name: str) -> Result:
        """By canonical name or alias, in any case. Raises KeyError for what has no result."""
        if name not in self.results:
            try:
                name = resolve([name])[0].name
            except InputError as error:
                raise KeyError(str(error)) from None
        return self.results[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    def frame(self) -> pandas.DataFrame:
        """One row for each configuration: number of parameters, size and all metrics."""
        import pandas as pd

        rows = [
            {
                "configuration": name,
                "parameters": resolve([name])[0].parameters,
                "size": result.size,
                **result.metrics.to_upstream(),
            }
            for name, result in self.results.items()
        ]
        return pd.DataFrame(rows).set_index("configuration") if rows else pd.DataFrame()

    def predictions(self) -> pandas.DataFrame:
        """One row for each judged review and configuration: review_th, fold, y and p."""
        import pandas as pd

        parts = [
            pd.DataFrame(
                {
                    "configuration": name,
                    "review_th": result.review_th,
                    "fold": result.fold,
                    "y": result.y,
                    "p": result.p,
                }
            )
            for name, result in self.results.items()
        ]
        return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def load(
    path: str | Path,
    *,
    timezone: str | None = None,
    rollover: int | None = None,
    user: int | None = None,
) -> ReviewLog:
    """Read a collection, package, revlog, CSV or one user of an anki-revlogs-10k folder.

    The file is never written to. Raises srs_eval.errors.InputError.
    """
    from srs_eval.anki_import import load_log

    return load_log(Path(path), timezone=timezone, rollover=rollover, user=user)


def compare(
    log: ReviewLog,
    questions: str | Iterable[str] = "all",
    *,
    parameters: Mapping[str, Sequence[float]] | None = None,
    equivalence: float = EQUIVALENT,
    context: Context | None = None,
) -> list[Answer]:
    """Answers to questions about presets, each with sentences and frames (srs_eval.presets).

    `parameters` are lists of one's own to compare, by name. Raises InputError and
    NotEnoughData (srs_eval.errors).
    """
    from srs_eval import presets

    if isinstance(questions, str):
        questions = presets.QUESTIONS if questions == "all" else (questions,)
    return presets.compare(
        log,
        questions=questions,
        parameters=parameters,
        equivalence=equivalence,
        context=context,
    )


def evaluate(
    log: ReviewLog,
    models: str | Iterable[str] = "fast",
    protocol: Protocol | None = None,
    *,
    jobs: int = 0,
    context: Context | None = None,
    use_cache: bool = True,
    on_event: Callable[[Event], None] | None = None,
) -> Results:
    """Evaluate models (names, aliases or groups) on a review log.

    `jobs` worker processes, 0 for none; scripts that set it need the usual
    `if __name__ == "__main__":` guard of multiprocessing.
    """
    results: dict[str, Result] = {}
    failed: dict[str, str] = {}
    skipped: dict[str, str] = {}
    for event in engine_evaluate(
        log, models, protocol, jobs=jobs, context=context, use_cache=use_cache
    ):
        if on_event is not None:
            on_event(event)
        match event:
            case Finished():
                results[event.configuration.name] = event.result
            case Failed():
                failed[event.configuration.name] = event.reason
            case Skipped():
                skipped[event.configuration.name] = event.reason
    ranked = sorted(results.items(), key=lambda item: item[1].metrics.log_loss)
    return Results(dict(ranked), failed, skipped)
