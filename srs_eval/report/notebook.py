"""The interface for notebooks: the engine that the app and the command line use.

import srs_eval
log = srs_eval.load("collection.anki2")
results = srs_eval.evaluate(log, models="fast")
results.frame()
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from srs_eval.data.errors import InputError, require
from srs_eval.data.protocol import Protocol
from srs_eval.data.reviews import IntArray, ReviewLog
from srs_eval.data.rows import select_rows
from srs_eval.engine.evaluate import evaluate as engine_evaluate
from srs_eval.engine.ranking import REFERENCE, Group, with_baselines
from srs_eval.engine.run import Event, Run
from srs_eval.engine.session import Result
from srs_eval.engine.shared import with_file, with_given
from srs_eval.models.configurations import resolve
from srs_eval.report.export import DIFFERENCES
from srs_eval.stats.intervals import EQUIVALENT
from srs_eval.training.hyperparameters import Context

if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas

    from srs_eval.advice.findings import Finding


@dataclass(frozen=True, eq=False)
class Results(Mapping[str, Result]):
    """Results by configuration name, as ranked, and why others are missing."""

    groups: Sequence[Group]
    """The ranking, with AVG as the baseline also where it was not asked for."""
    results: Mapping[str, Result]
    failed: Mapping[str, str]
    skipped: Mapping[str, str]
    review_id: Mapping[str, IntArray] = field(default_factory=dict)
    """Anki's ids of the evaluated reviews, by name; empty where a source has no times."""

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
        """One row for each configuration, as ranked: place, standing, intervals, all metrics.

        `group` counts the sets of reviews that models are ranked on (`groups`); the baseline has
        no place. Half-widths are those of 95 % intervals; differences are of log loss.
        """
        require("pandas", "A frame")
        import pandas as pd

        rows = []
        for number, group in enumerate(self.groups):
            for line in group.lines:
                if line.configuration.name not in self.results:
                    continue
                row = {
                    "configuration": line.configuration.name,
                    "words": line.configuration.words,
                    "group": number,
                    "place": line.place,
                    "standing": line.standing,
                    "parameters": line.configuration.parameters,
                    "size": line.result.size,
                    **line.result.metrics.to_upstream(),
                    "log_loss_half_width": line.log_loss.half_width,
                }
                intervals = {name: getattr(line, name) for name in DIFFERENCES}
                for end, figure in (("", "estimate"), ("_half_width", "half_width")):
                    for name, each in intervals.items():
                        row[f"{name}{end}"] = math.nan if each is None else getattr(each, figure)
                rows.append(row)
        if not rows:
            return pd.DataFrame()
        return pd.DataFrame(rows).set_index("configuration").astype({"place": "Int64"})

    def predictions(self) -> pandas.DataFrame:
        """One row for each evaluated review and configuration: review_th, fold, y and p.

        And review_id, where the source has times.
        """
        require("pandas", "A frame")
        import pandas as pd

        columns = ("review_th", "fold", "y", "p")
        parts = [
            pd.DataFrame(
                {"configuration": name, **{each: getattr(result, each) for each in columns}}
                | ({"review_id": self.review_id[name]} if name in self.review_id else {})
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

    The file is never written to. Raises srs_eval.data.errors.InputError.
    """
    from srs_eval.anki_import import load_log

    return load_log(Path(path), timezone=timezone, rollover=rollover, user=user)


def compare(
    log: ReviewLog,
    questions: str | Iterable[str] = "all",
    *,
    parameters: Mapping[str, Sequence[float]] | None = None,
    predictions: str | Path | None = None,
    equivalence: float = EQUIVALENT,
    context: Context | None = None,
) -> list[Finding]:
    """Answers to questions about presets, each with sentences and frames (`advice.questions`).

    `parameters` are lists of one's own to compare, by name, `predictions` a CSV or parquet file
    with others' predictions. Raises InputError and
    NotEnoughData (srs_eval.data.errors).
    """
    from srs_eval.advice import questions as presets

    if isinstance(questions, str):
        questions = presets.questions_for(log) if questions == "all" else (questions,)
    return presets.compare(
        log,
        questions=questions,
        parameters=parameters,
        predictions=None if predictions is None else Path(predictions),
        equivalence=equivalence,
        context=context,
    )


def evaluate(
    log: ReviewLog,
    models: str | Iterable[str] = "fast",
    protocol: Protocol | None = None,
    *,
    jobs: int = 0,
    reference: str = REFERENCE,
    context: Context | None = None,
    use_cache: bool = True,
    on_event: Callable[[Event], None] | None = None,
    predictions: str | Path | None = None,
    features: str | Path | None = None,
) -> Results:
    """Evaluate models (names, aliases or groups) on a review log, beside `predictions` of a file.

    `features` is a table about cards or notes for models of one's own (`Trials.features`).

    AVG is evaluated along as the baseline. `reference` is the configuration that others are
    held against besides the best.

    `jobs` worker processes, 0 for none; scripts that set it need the usual
    `if __name__ == "__main__":` guard of multiprocessing.
    """
    configurations = resolve(models, protocol)
    if features is not None:
        context = replace(context or Context(), features=Path(features).absolute())
    log = with_file(log, None if predictions is None else Path(predictions))
    configurations = with_given(configurations, log, protocol or Protocol())
    evaluated = with_baselines(configurations, leaves_out=log.leaves_out)
    run = Run.of(evaluated, reference=resolve(reference, protocol)[0].name)
    for event in engine_evaluate(
        log, evaluated, protocol, jobs=jobs, context=context, use_cache=use_cache
    ):
        if on_event is not None:
            on_event(event)
        run.apply(event)
    asked = {each.name for each in configurations}
    groups = run.groups()
    review_id = dict[str, IntArray]()
    if log.entries is not None:
        kinds = {each.protocol.rows for each in evaluated}
        time_ms = {rows: log.entries.time_ms[select_rows(log, rows).entry_index] for rows in kinds}
        review_id = {
            line.configuration.name: time_ms[line.configuration.protocol.rows][
                line.result.review_th - 1
            ]
            for line in run.ranked()
        }
    return Results(
        groups,
        {
            line.configuration.name: line.result
            for line in run.ranked()
            if line.configuration.name in asked
        },
        {name: model.reason for name, model in run.failed.items() if name in asked},
        {name: model.reason for name, model in run.skipped.items() if name in asked},
        review_id,
    )
