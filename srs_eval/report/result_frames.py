"""Evaluate whole data sets from a notebook, and return the results of many users as frames.

results = srs_eval.evaluate_dataset("anki-revlogs-10k", ["FSRS-6", "LSTM"], out="results")
srs_eval.leaderboard("results")
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import permutations
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from srs_eval.benchmark.leaderboard import WEIGHTINGS, Comparison, compare_files
from srs_eval.benchmark.result_files import ResultFile, read_folders
from srs_eval.benchmark.seeds import compare_seeds, select_first_seeds
from srs_eval.benchmark.setup import repeat_with_seeds
from srs_eval.benchmark.user_parts import refuse_idle_user_split
from srs_eval.data.arguments import (
    A_FILE_OR_FOLDER,
    NAMES,
    argument_error,
    check_flag,
    check_function,
    check_path,
    check_texts,
    check_type,
    check_whole_number,
    describe_value,
)
from srs_eval.data.datasets import open_dataset, select_users
from srs_eval.data.errors import InputError, require
from srs_eval.data.protocol import Protocol
from srs_eval.engine.ranking import add_baselines
from srs_eval.models.configurations import Configuration, resolve_configurations
from srs_eval.report.comparison import DEFAULT_METRICS, SIGNIFICANCE_LEVEL
from srs_eval.report.console import BatchProgress
from srs_eval.report.dataset import find_files, find_name, restrict_files
from srs_eval.report.notebook import (
    ModelArgument,
    flatten_intervals,
    refuse_in_memory,
    resolve_names,
)
from srs_eval.training.hyperparameters import Context

if TYPE_CHECKING:
    import pandas

    from srs_eval.benchmark.plan import BatchEvent

_Users = str | Iterable[int] | None
_USER_IDS = "a list of users' numbers, or ranges such as '1-100,205'"


def evaluate_dataset(
    dataset: str | Path,
    models: ModelArgument = "fast",
    protocol: Protocol | None = None,
    *,
    out: str | Path,
    users: _Users = None,
    seeds: int = 1,
    jobs: int | None = None,
    engine: str = "local",
    raw: bool = False,
    fresh: bool = False,
    context: Context | None = None,
    on_event: Callable[[BatchEvent], None] | None = None,
) -> pandas.DataFrame:
    """Evaluate models on the users of a data set, as `srs-eval batch` does, and read the results.

    Results are written into the folder `out`, unit by unit: the same call continues after an
    interruption, and evaluates only what the folder lacks. The frame is that of `read_results`,
    with the rows of these users and configurations.

    `models` are as `evaluate` takes them, but not made in the notebook itself: workers read a
    model's file. AVG is added as the baseline. Settings of the protocol that differ from the
    defaults end the names of configurations: FSRS-6-gamma-0.5. `seeds` is the number of seeds,
    counted from `protocol.seed`, with which each configuration whose training draws random numbers
    is evaluated. `users` are numbers, or a string such as "1-100,205"; by default, all users.
    `jobs` is the number of worker processes, by default one for each core; `engine` may be a Dask
    cluster ("dask://HOST:PORT"). `raw` also stores each review's predictions, and `fresh` deletes
    earlier results first. `on_event` is called with each event of the batch (`benchmark.plan`)
    instead of showing progress on stderr. Scripts need the usual `if __name__ == "__main__":` guard
    of multiprocessing. Raises InputError; units that fail are in the folder `failed`.
    """
    from srs_eval.batch import run_batch
    from srs_eval.benchmark.result_files import render_raw_parquet

    check_path("dataset", A_FILE_OR_FOLDER, dataset)
    check_path("out", "the path of a folder", out)
    check_type("protocol", "an srs_eval.Protocol", protocol, Protocol, type(None))
    check_type("context", "an srs_eval.Context", context, Context, type(None))
    check_type("engine", "local, dask-local or dask://HOST:PORT", engine, str)
    check_flag("raw", raw)
    check_flag("fresh", fresh)
    check_whole_number("seeds", seeds, "a number of seeds, at least 1", least=1)
    if jobs is not None:
        check_whole_number("jobs", jobs, "a number of worker processes, at least 1", least=1)
    if on_event is not None:
        check_function("on_event", "a function of an event", on_event)
    names = resolve_names(models)
    require("pandas", "A frame")
    if raw:
        require("pyarrow", "raw=True")
    protocol = protocol or Protocol()

    def resolve_with_seed(seed: int) -> list[Configuration]:
        resolved = resolve_configurations(names, replace(protocol, seed=seed))
        return add_baselines(resolved, excludes_deleted=False)

    configurations = repeat_with_seeds(resolve_with_seed, "", protocol.seed, seeds)
    refuse_in_memory(configurations)
    refuse_idle_user_split(protocol.split, configurations)
    opened_dataset = open_dataset(dataset)
    selected_users = _select_users(opened_dataset.users, users)
    folder = Path(out).expanduser().absolute()
    events = run_batch(
        opened_dataset,
        configurations,
        folder,
        users=selected_users,
        jobs=jobs,
        engine=engine,
        file_makers={"raw": render_raw_parquet} if raw else {},
        fresh=fresh,
        context=context,
    )
    with closing(events):  # ends the workers, whatever stops this loop
        if on_event is not None:
            for event in events:
                on_event(event)
        else:
            with BatchProgress() as progress:
                for event in events:
                    progress.show(event)
    frame = read_results(folder)
    is_asked = frame["user"].isin(selected_users)
    is_asked &= frame["configuration"].isin(
        [configuration.name for configuration in configurations]
    )
    return frame[is_asked].reset_index(drop=True)


def read_results(*folders: str | Path) -> pandas.DataFrame:
    """Read result files of `srs-eval batch` or srs-benchmark: a row per configuration and user.

    The other columns are `label`, `size` and the metrics of the files. Raises InputError.
    """
    require("pandas", "A frame")
    import pandas as pd

    frames = []
    for file in _read_files(folders):
        columns = {
            "configuration": file.name,
            "label": file.label,
            "user": file.users,
            "size": file.sizes.astype(int),
            **file.metrics,
        }
        frames.append(pd.DataFrame(columns))
    return pd.concat(frames, ignore_index=True)


def leaderboard(
    *folders: str | Path,
    metrics: Sequence[str] = DEFAULT_METRICS,
    models: str | Iterable[str] | None = None,
    users: _Users = None,
) -> pandas.DataFrame:
    """Return the first tables of `srs-eval report`: a row per configuration and weighting.

    The best come first. Columns are the means of `metrics` over the users that all configurations
    share, with 99 % intervals (`LogLoss`, `LogLoss_low`, `LogLoss_high`), and the difference from
    the best in the first metric (`to_best`); `group` numbers the sets of reviews. `models` and
    `users` select some of the results. Raises InputError.
    """
    check_texts("metrics", NAMES, metrics)
    if not metrics:
        raise argument_error("metrics", NAMES, metrics)
    require("pandas", "A frame")
    import pandas as pd

    rows = []
    comparisons, metrics = _compare(folders, metrics, models, users)
    for group, comparison in enumerate(comparisons):
        for table in comparison.leaderboards:
            for line in table.rows:
                row: dict[str, Any] = {
                    "configuration": line.file.name,
                    "label": line.file.label,
                    "group": group,
                    "weighting": table.weighting,
                    "place": line.rank,
                    "users": line.users,
                }
                means = {metric: line.means[metric] for metric in metrics}
                row |= flatten_intervals(means, "estimate", "low", "high")
                row |= flatten_intervals({"to_best": line.to_best}, "estimate", "low", "high")
                rows.append(row)
    return pd.DataFrame(rows).set_index("configuration").astype({"place": "Int64"})


def pairs(
    *folders: str | Path,
    metric: str = "LogLoss",
    models: str | Iterable[str] | None = None,
    users: _Users = None,
) -> pandas.DataFrame:
    """Compare each configuration with each other one: a row per ordered pair, as in `pairs.csv`.

    `superiority` is the share of users for whom the configuration has the better metric;
    `difference_by_reviews`, `difference_by_users` and `difference_by_log_reviews` are mean paired
    differences, configuration minus other, with 99 % intervals (`_low`, `_high`). `wilcoxon_r` and
    `cohens_d` are above 0 where the configuration is better, with p-values and those adjusted for
    all pairs (`_p`, `_p_holm`). Sources: docs/reports.md. Raises InputError.
    """
    check_type("metric", "the name of a metric", metric, str)
    require("pandas", "A frame")
    import pandas as pd

    rows = []
    comparisons, _ = _compare(folders, [metric], models, users)
    for group, comparison in enumerate(comparisons):
        for row, column in permutations(range(len(comparison.files)), 2):
            pair: dict[str, Any] = {
                "configuration": comparison.files[row].name,
                "other": comparison.files[column].name,
                "group": group,
                "superiority": comparison.superiority[row, column],
            }
            differences = {
                f"difference_by_{weighting.replace(' ', '_')}": matrix[row][column]
                for weighting, matrix in zip(WEIGHTINGS, comparison.differences, strict=True)
            }
            pair |= flatten_intervals(differences, "estimate", "low", "high")
            tests = {"wilcoxon_r": comparison.wilcoxon_test, "cohens_d": comparison.t_test}
            for name, test in tests.items():
                pair[name] = test.effects[row, column]
                pair[f"{name}_p"] = test.p_values[row, column]
                pair[f"{name}_p_holm"] = test.adjusted_p_values[row, column]
            rows.append(pair)
    return pd.DataFrame(rows)


def confidence_set(
    *folders: str | Path,
    metric: str = "LogLoss",
    models: str | Iterable[str] | None = None,
    users: _Users = None,
) -> pandas.DataFrame:
    """Return which configurations may be the best: a row per configuration and weighting.

    `p_value` is that of the model confidence set (Hansen, Lunde and Nason, 2011), nan for fewer
    users than it needs; `is_in_set` is False where it is below 0.01. The mean of the metric stands
    beside it. Raises InputError.
    """
    check_type("metric", "the name of a metric", metric, str)
    require("pandas", "A frame")
    import pandas as pd

    rows = []
    comparisons, _ = _compare(folders, [metric], models, users)
    for group, comparison in enumerate(comparisons):
        for table in comparison.leaderboards:
            for line in table.rows:
                p_value = line.confidence_set_p_value
                rows.append(
                    {
                        "configuration": line.file.name,
                        "group": group,
                        "weighting": table.weighting,
                        comparison.metric: line.means[comparison.metric].estimate,
                        "p_value": p_value,
                        "is_in_set": None if math.isnan(p_value) else p_value >= SIGNIFICANCE_LEVEL,
                    }
                )
    return pd.DataFrame(rows).set_index("configuration").astype({"is_in_set": "boolean"})


def seed_spread(
    *folders: str | Path,
    metric: str = "LogLoss",
    models: str | Iterable[str] | None = None,
    users: _Users = None,
) -> pandas.DataFrame:
    """Return how far means move from seed to seed: a row per configuration and weighting.

    Configurations are those that a folder holds with several seeds (`evaluate_dataset(seeds=5)`).
    Columns are the mean of `metric` over seeds and users with its 99 % interval, the standard
    deviation (`spread`), `least` and `greatest` of the means over seeds, and the standard deviation
    as a share of half of the interval (`spread_of_half_width`). Raises InputError.
    """
    check_type("metric", "the name of a metric", metric, str)
    require("pandas", "A frame")
    import pandas as pd

    comparisons, _ = _compare(folders, [metric], models, users)
    files = _restrict(_read_files(folders), users)
    rows = []
    for comparison in comparisons:
        for spread in compare_seeds(comparison, files):
            row: dict[str, Any] = {
                "configuration": spread.file.name,
                "weighting": spread.weighting,
                "seeds": len(spread.seeds),
                "users": spread.users,
            }
            row |= flatten_intervals({comparison.metric: spread.mean}, "estimate", "low", "high")
            row |= {
                "spread": spread.deviation,
                "least": spread.means.min(),
                "greatest": spread.means.max(),
                "spread_of_half_width": spread.share_of_half_width,
            }
            rows.append(row)
    if not rows:
        raise InputError(
            "No configuration has results with several seeds: evaluate_dataset(seeds=5) makes them."
        )
    return pd.DataFrame(rows).set_index("configuration")


def _compare(
    folders: Sequence[str | Path],
    metrics: Sequence[str],
    models: str | Iterable[str] | None,
    users: _Users,
) -> tuple[list[Comparison], list[str]]:
    """Compare the selected results in some folders; the first metric is the chosen one.

    Return the metrics, too, spelled as in the files.
    """
    files = _select_files(folders, models, users)
    available = dict.fromkeys(metric for file in files for metric in file.metrics)
    metrics = [find_name("metrics", metric, available) for metric in metrics]
    return compare_files(files, metrics[0], metrics=metrics), metrics


def _select_files(
    folders: Sequence[str | Path], models: str | Iterable[str] | None, users: _Users
) -> list[ResultFile]:
    """Read the selected results in some folders; without `models`, those of the first seeds."""
    names = None if models is None else _check_names("models", models)
    files = _read_files(folders)
    files = select_first_seeds(files) if names is None else _find(names, files)
    return _restrict(files, users)


def _find(names: Sequence[str], files: Sequence[ResultFile]) -> list[ResultFile]:
    return find_files("models", ",".join(names), files)


def _restrict(files: list[ResultFile], users: _Users) -> list[ResultFile]:
    if users is None:
        return files
    available_users = sorted({user for file in files for user in file.users.tolist()})
    return restrict_files(files, _select_users(available_users, users))


def _read_files(folders: Sequence[str | Path]) -> list[ResultFile]:
    if not folders:
        raise InputError("Name a folder of results.")
    for folder in folders:
        if not isinstance(folder, str | PathLike):
            raise InputError(f"folders are paths of folders; {describe_value(folder)} is not one.")
    paths = [Path(folder) for folder in folders]
    return [file for folder in read_folders(paths) for file in folder.files]


def _check_names(argument: str, names: str | Iterable[str]) -> list[str]:
    """Return names given as a list, or as a text with commas."""
    if isinstance(names, str):
        return names.split(",")
    if isinstance(names, Iterator):
        names = list(names)
    check_texts(argument, NAMES, names)
    return list(names)


def _select_users(available: Sequence[int], users: _Users) -> list[int]:
    """Return the selected users among those available. Raises InputError for a missing one."""
    if users is None or isinstance(users, str):
        return select_users(available, users, option="users")
    if not isinstance(users, Iterable):
        raise argument_error("users", _USER_IDS, users)
    selected = list(users)
    known_users = set(available)
    for user in selected:
        check_whole_number("users", user, _USER_IDS, least=0)
        if user not in known_users:
            raise InputError(f"users: there is no user {user} in this data set.")
    if not selected:
        raise argument_error("users", _USER_IDS, selected)
    return sorted({int(user) for user in selected})
