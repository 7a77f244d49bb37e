"""Read result files of many users, srs-eval's and srs-benchmark's, as columns.

A folder is one of `srs-eval batch` (setup.json, result/, timing/), one of srs-benchmark, or any
folder that holds such files. A file is named after its configuration (`.jsonl` or `.jsonl.gz`) and
has one JSON line a user with `metrics`, `user` and `size`. `benchmark.file_names` tells the
spellings of 2025 and of 2026 apart.
"""

from __future__ import annotations

import gzip
import io
import json
import math
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any, NotRequired, TypedDict

import msgspec
import numpy as np

from srs_eval.benchmark.file_names import (
    canonical_name,
    find_setup_entry,
    interpret_file_name,
)
from srs_eval.benchmark.setup import (
    describe_settings,
    read_setup,
    remove_label,
    remove_seed,
)
from srs_eval.data.errors import InputError, format_count
from srs_eval.data.protocol import Protocol
from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.engine.own_models import leak_label
from srs_eval.engine.ranking import comparison_rows
from srs_eval.engine.result import Result
from srs_eval.engine.session import LearnerSession
from srs_eval.models.configurations import (
    BASELINE,
    SUFFIX_ALIASES,
    SUFFIXES,
    Configuration,
    describe_rows,
)

_RESULT_SUFFIXES = (".jsonl", ".jsonl.gz")
_PROTOCOL_FLAGS = {field.name for field in fields(Protocol)}
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Number = Annotated[float, msgspec.Meta(gt=-1e300, lt=1e300)]


class _ResultRecord(TypedDict):
    """Fields that a result must or may have."""

    user: _Count
    size: _Count
    metrics: dict[str, Any]
    lacks: NotRequired[_Count]
    unused: NotRequired[_Count]
    parameters: NotRequired[list[_Number] | dict[str, list[_Number]] | None]


@dataclass(frozen=True, eq=False)
class ResultFile:
    """One configuration's results of n users, ascending by user."""

    name: str  # canonical if the configuration is known, else the file's
    label: str  # the name for people; unique among the files of a report
    configuration: Configuration | None  # None for an unknown model
    evaluated_rows: Protocol  # the evaluated reviews (`Protocol.row_protocol`)
    path: Path
    users: IntArray
    sizes: FloatArray  # numbers of evaluated reviews
    metrics: Mapping[str, FloatArray]  # by the names of result files; nan where undefined
    parameters: FloatArray | None  # fitted ones, a row for each user and partition
    seconds_per_10k: float | None  # of one core, from timing/
    repeated_lines: int = 0  # lines for users who already had one: the last counts
    invalid_reason: str = ""  # why the results mean nothing, in a word or two
    missing_predictions: str = ""  # how many held-out reviews have no prediction, in words
    unused_predictions: str = ""  # how many predictions belong to no held-out review, in words
    predictions_digest: str = ""
    """Digest of the external predictions if some are missing, "?" if it is unknown, else ""."""
    name_ambiguity: str = ""  # what the name does not decide, in words
    recorded_description: Mapping[str, Any] = field(default_factory=dict)
    """The batch's record of an unknown model: words, inputs, parameters."""
    recorded_parameter_count: int | None = None  # the batch's, if the configuration has none
    name_in_raw: str = ""  # name of its folder of predictions: a batch's is the canonical name
    user_parts: int = 0
    """Number of parts of users, if the model was first trained on the users of other parts."""
    seed: int = 0  # the protocol's, as far as the batch recorded it
    name_without_seed: str = ""  # the same for all seeds of a configuration

    @property
    def spelled_name(self) -> str:
        """The file's name without its endings."""
        return spelled_name(self.path)

    @property
    def is_baseline(self) -> bool:
        """Return whether this is the average, the baseline of comparisons."""
        if self.name == BASELINE:
            return True
        return self.configuration is not None and self.configuration.is_baseline

    @property
    def is_online(self) -> bool:
        """Return whether the model learns from each review that it is evaluated on."""
        if self.configuration is not None:
            return self.configuration.is_online
        return bool(self.recorded_description.get("learns"))

    @property
    def rows_description(self) -> str:
        """The reviews that the configuration is evaluated on, in words."""
        description = describe_rows(self.evaluated_rows)
        if self.missing_predictions:
            description += " for which external predictions exist"
        return description

    @property
    def parameter_count(self) -> int | None:
        """Number of parameters; for unknown models, the number that the batch or the file lists."""
        if self.configuration is not None:
            count = self.configuration.parameters
            return self.recorded_parameter_count if count is None else count
        listed_count = None if self.parameters is None else self.parameters.shape[1]
        return self.recorded_description.get("parameters", listed_count)

    @property
    def inputs(self) -> str:
        """The model's inputs from a review: "IL, G"; "?" for unknown models."""
        if self.configuration is None:
            return str(self.recorded_description.get("inputs", "?"))
        return self.configuration.inputs

    def sizes_by_user(self) -> dict[int, int]:
        """Return the number of evaluated reviews of each user."""
        return dict(zip(self.users.tolist(), self.sizes.astype(int).tolist(), strict=True))

    def metric_columns(self, metrics: Sequence[str], users: IntArray | None = None) -> FloatArray:
        """Return metrics (users, metrics) of these users (None: the file's own); nan if missing."""
        if users is None:
            users = self.users
        # Users after the last one get the last row, and `has_results` then tells that it is wrong.
        rows = np.minimum(np.searchsorted(self.users, users), len(self.users) - 1)
        has_results = self.users[rows] == users
        undefined = np.full(len(self.users), np.nan)
        columns = [self.metrics.get(metric, undefined)[rows] for metric in metrics]
        return np.where(has_results[:, None], np.column_stack(columns), np.nan)

    def log_losses(self, users: IntArray) -> FloatArray:
        """Return the users' log losses in the given order; nan for users without results."""
        return self.metric_columns(("LogLoss",), users)[:, 0]


@dataclass(frozen=True, eq=False)
class ResultFolder:
    """The result files of a folder and the program that wrote them."""

    path: Path
    files: tuple[ResultFile, ...]
    setup: Mapping[str, Any] | None  # from `srs-eval batch`, else None
    unread_files: tuple[str, ...]  # files that were left out, each with the reason

    @property
    def origin(self) -> str:
        """The program that wrote the results, such as "srs-eval 1.2.0", or their layout."""
        return f"srs-eval {self.setup['srs_eval']}" if self.setup else "srs-benchmark's layout"


def read_folders(paths: Sequence[Path]) -> list[ResultFolder]:
    """Read all result files of some folders, and give them labels that are unique among all.

    A folder that is named twice is read once. Raises InputError for a folder without result files
    and for a damaged file.
    """
    unique_paths: dict[Path, Path] = {}  # as given, by the resolved folder of result files
    for path in paths:
        unique_paths.setdefault(_find_result_directory(path).resolve(), path)
    folders = [_read_folder(path) for path in unique_paths.values()]
    plain_labels: dict[Path, str] = {}
    for folder in folders:
        for file in folder.files:
            plain_labels[file.path] = file.label
    labels = _make_labels_unique(plain_labels)
    labelled_folders = []
    for folder in folders:
        files = tuple(replace(file, label=labels[file.path]) for file in folder.files)
        labelled_folders.append(replace(folder, files=files))
    return labelled_folders


def _make_labels_unique(plain_labels: Mapping[Path, str]) -> dict[Path, str]:
    """Add to equal labels the folder's name, then the file's name too, or else the whole path."""
    labels = dict(plain_labels)
    for distinguish in (
        lambda path: batch_folder_of(path).name,
        lambda path: f"{batch_folder_of(path).name}: {spelled_name(path)}",
        str,
    ):
        counts = Counter(labels.values())
        for path, label in list(labels.items()):
            if counts[label] > 1:
                labels[path] = f"{plain_labels[path]} ({distinguish(path)})"
    return labels


def _read_folder(path: Path) -> ResultFolder:
    """Read a folder's result files, without empty ones and without those that repeat others.

    Raises InputError.
    """
    if not path.is_dir():
        raise InputError(f'"{path}" is not a folder: name one that holds result files.')
    paths = find_result_files(path)
    setup = read_setup(path)
    if not paths:
        raise InputError(
            f'"{path}" holds no result files: name a folder that `srs-eval batch` or srs-benchmark '
            "has written."
        )
    files = []
    unread = []
    for file_path in paths:
        file = _read_file(file_path, path, setup)
        if file is None:
            unread.append(f"{file_path.name} is empty")
        else:
            files.append(file)
    if not files:
        raise InputError(f'"{path}": all result files are empty.')
    names = {file.name for file in files}
    for file in list(files):
        # A configuration labelled "... on NAME" is evaluated only on what external predictions
        # cover. If they cover every review, it repeats the configuration without that label. The
        # label may be "on NAME" alone, hence the space in front of it.
        label = file.configuration.label if file.configuration else ""
        _, separator, predictions_name = f" {label}".rpartition(" on ")
        if not separator or file.missing_predictions:
            continue
        if "predictions" not in find_setup_entry(file.spelled_name, setup):
            continue
        if remove_label(file.name, separator + predictions_name) in names:
            files.remove(file)
            unread.append(f"{file.label} is left out: {predictions_name} covers every review")
    return ResultFolder(path, tuple(files), setup, tuple(unread))


def _read_file(path: Path, folder: Path, setup: Mapping[str, Any] | None) -> ResultFile | None:
    """Read a result file of a folder with this set-up; None if it is empty.

    Raises InputError if a line is not a result.
    """
    file_name = spelled_name(path)
    all_lines = read_lines(path)
    if None in all_lines:
        remedy = f"`srs-eval results check {folder}` lists such lines: delete them"
        if setup is not None:
            remedy = "run the same batch command again to write the file anew"
        raise InputError(
            f'"{path}", line {all_lines.index(None) + 1}: not a result of srs-eval or '
            f"srs-benchmark; {remedy}."
        )
    # By user; the last line of a user counts.
    lines: dict[int, dict[str, Any]] = {
        line["user"]: line for line in all_lines if line is not None
    }
    if not lines:
        return None
    users = sorted(lines)
    entry = find_setup_entry(file_name, setup)
    recorded_description = entry.get("shown", {})
    meaning = interpret_file_name(file_name, setup, lines.values())
    configuration = meaning.configuration
    if configuration is not None:
        label = _describe_configuration(configuration)
        # A window of training changes no evaluated review, and names say what it is.
        evaluated_rows = replace(comparison_rows(configuration), train_months=0)
        description = {}
    else:
        description = recorded_description
        label = description.get("words", meaning.name)
        evaluated_rows = _infer_evaluated_rows(file_name, entry.get("protocol", {}))
    invalid_reason = leak_label(entry.get("check", ""))
    if invalid_reason:
        label = f"{label} ({invalid_reason})"
    recorded_flags = entry.get("protocol", {})
    seed = recorded_flags.get("seed", 0)
    user_parts = 0
    if recorded_flags.get("split") == "users":
        user_parts = recorded_flags.get("n_splits", Protocol.n_splits)
    missing_counts = [line["lacks"] for line in lines.values() if "lacks" in line]
    unused_counts = [line["unused"] for line in lines.values() if "unused" in line]
    return ResultFile(
        name=meaning.name,
        label=label,
        configuration=configuration,
        evaluated_rows=evaluated_rows,
        path=path,
        users=np.array(users),
        sizes=np.array([lines[user]["size"] for user in users], dtype=float),
        metrics=_collect_metrics(lines),
        parameters=_stack_parameters(lines[user].get("parameters") for user in users),
        seconds_per_10k=_read_seconds_per_10k(folder / "timing" / f"{file_name}.jsonl"),
        repeated_lines=len(all_lines) - len(users),
        invalid_reason=invalid_reason,
        recorded_description=description,
        recorded_parameter_count=recorded_description.get("parameters"),
        missing_predictions=_describe_missing_predictions(missing_counts),
        unused_predictions=_describe_unused_predictions(unused_counts),
        predictions_digest=entry.get("predictions", "?") if missing_counts else "",
        name_ambiguity=meaning.ambiguity,
        name_in_raw=canonical_name(file_name, setup),
        user_parts=user_parts,
        seed=seed,
        name_without_seed=remove_seed(meaning.name, entry.get("label", ""), seed),
    )


def _collect_metrics(lines: Mapping[int, Mapping[str, Any]]) -> dict[str, FloatArray]:
    """Return the column of each metric that any line has, with users in ascending order."""
    names: dict[str, None] = {}  # in the order in which the lines have them
    for line in lines.values():
        names |= dict.fromkeys(line["metrics"])
    columns = {}
    for name in names:
        values = [_parse_metric(lines[user]["metrics"].get(name)) for user in sorted(lines)]
        columns[name] = np.array(values)
    return columns


def _describe_missing_predictions(counts: Sequence[int]) -> str:
    """Describe the reviews without a prediction; `counts` are those of users who have some."""
    if not counts:
        return ""
    reviews = format_count(sum(counts), "review")
    return f"no prediction for {reviews} of {format_count(len(counts), 'user')}"


def _describe_unused_predictions(counts: Sequence[int]) -> str:
    """Describe the predictions that are not used; `counts` are those of users who have some."""
    if not counts:
        return ""
    predictions = format_count(sum(counts), "prediction")
    verb = "is" if sum(counts) == 1 else "are"
    users = format_count(len(counts), "user")
    return f"{predictions} of {users} {verb} for reviews that are not evaluated"


def _describe_configuration(configuration: Configuration) -> str:
    """Describe a configuration, including settings that its name leaves out."""
    settings = "" if configuration.label else describe_settings(configuration)
    return f"{configuration.words} {settings}".rstrip()


def _infer_evaluated_rows(name: str, recorded_flags: Mapping[str, Any]) -> Protocol:
    """Infer the evaluated reviews of an unknown model from the flags that its batch recorded.

    Without such a record, infer them from the suffixes of its name.
    """
    if recorded_flags:
        known_flags = {
            flag: value for flag, value in recorded_flags.items() if flag in _PROTOCOL_FLAGS
        }
        rows = Protocol(**known_flags).row_protocol()
        return replace(rows, known_decks_only=False, train_months=0)
    meanings = dict(SUFFIXES)
    for alias, suffix in SUFFIX_ALIASES.items():
        meanings[alias] = SUFFIXES[suffix]
    flags: dict[str, Any] = {}
    for suffix in name.split("-")[1:]:
        meaning = meanings.get(suffix)
        if meaning is not None and meaning.flag in _PROTOCOL_FLAGS:
            flags[meaning.flag] = meaning.value
    if flags.get("secs"):
        flags["short"] = True  # with --secs, srs-benchmark evaluates every positive interval
    return Protocol(**flags).row_protocol()


def _parse_metric(value: object) -> float:
    """Convert a metric of a line to a float; nan for null, infinity and other JSON."""
    if isinstance(value, int | float) and abs(value) < 1e300:
        return float(value)
    return math.nan


def _stack_parameters(fitted_parameters: Iterable[Any]) -> FloatArray | None:
    """Stack a file's lists of parameters, from all users and partitions; None if there are none.

    Only lists of the most frequent length are kept.
    """
    lists: list[Sequence[float]] = []
    for parameters in fitted_parameters:
        if isinstance(parameters, Mapping):
            lists += parameters.values()
        elif parameters:
            lists.append(parameters)
    counts = Counter(map(len, lists))
    if not counts:
        return None
    usual_count = counts.most_common(1)[0][0]
    rows = [parameters for parameters in lists if len(parameters) == usual_count]
    return np.array(rows, dtype=float)


def _read_seconds_per_10k(timing: Path) -> float | None:
    """Return processor seconds per 10,000 evaluated reviews of all timed users; None if unknown."""
    try:
        with open(timing, encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        reviews = float(sum(line["size"] for line in lines))
        seconds = float(sum(line.get("cpu_seconds", line["seconds"]) for line in lines))
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        return None  # a missing or damaged file is no error: no result depends on it
    return 10_000 * seconds / reviews if reviews > 0 else None


def _find_result_directory(folder: Path) -> Path:
    """Return the directory that holds a folder's result files."""
    result_folder = folder / "result"
    return result_folder if result_folder.is_dir() else folder


def find_result_files(folder: Path) -> list[Path]:
    """Return the result files of a folder, sorted."""
    return sorted(
        path
        for path in _find_result_directory(folder).iterdir()
        if path.name.endswith(_RESULT_SUFFIXES)
    )


def batch_folder_of(path: Path) -> Path:
    """Return the folder that a result file belongs to, above result/ if it is there."""
    folder = path.parent
    return folder.parent if folder.name == "result" else folder


# --- lines: `parse_line` alone decides which line is a result


def spelled_name(path: Path) -> str:
    """Return the configuration's name as a result file spells it."""
    return path.name.removesuffix(".gz").removesuffix(".jsonl")


def read_lines(path: Path) -> list[dict[str, Any] | None]:
    """Read all lines of a result file, in order; None for a line that is not a result.

    Raises InputError if the file cannot be read or unpacked.
    """
    try:
        content = path.read_bytes()
        if path.suffix == ".gz":
            content = gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or "it is cut off or damaged"
        raise InputError(f'"{path}" cannot be read ({reason}).') from None
    lines = content.split(b"\n")
    if not lines[-1]:
        lines.pop()
    return [parse_line(line) for line in lines]


def parse_line(text: bytes | str) -> dict[str, Any] | None:
    """Parse a line; None if it is not a result: other JSON, or no JSON at all."""
    try:
        line: dict[str, Any] = json.loads(text)
        msgspec.convert(line, _ResultRecord)
    except (ValueError, RecursionError, msgspec.ValidationError):
        return None
    return line


# --- predictions: what `srs-eval batch --raw` and `--file` keep of a unit, with the same rows


def render_raw_parquet(
    session: LearnerSession, configuration: Configuration, user: int, result: Result
) -> bytes:
    """Return a unit's predictions as a parquet file.

    Columns: user, review_th (1-based position among the user's rows), card_id, deck_id, preset_id
    (-1 if the source has none), day (by the data set's count), fold (1 ...), reviews_before (of the
    card, of which a day counts one), p, y, configuration.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = session.rows(configuration.protocol)
    card_ids = rows.card_id[result.review_th - 1]
    deck_ids = session.log.deck_of(card_ids)
    count = len(result.p)
    table = pa.table(
        {
            "user": pa.repeat(pa.scalar(user, pa.int64()), count),
            "review_th": result.review_th,
            "card_id": card_ids,
            "deck_id": deck_ids,
            "preset_id": session.log.preset_of(deck_ids),
            "day": result.day,
            "fold": result.fold.astype("int8"),
            "reviews_before": result.tests.reviews_before,
            "p": result.p,
            "y": result.y.astype("int8"),
            "configuration": pa.repeat(configuration.name, count).dictionary_encode(),
        }
    )
    out = io.BytesIO()
    pq.write_table(table, out, compression="zstd")
    return out.getvalue()


def render_raw_table(
    session: LearnerSession, configuration: Configuration, user: int, result: Result
) -> bytes:
    """Return a unit's predictions as tab-separated text with srs-benchmark's `--file` columns.

    card_id, review_th, i (number among the card's reviews on later days), rating, elapsed_days,
    delta_t (in days), t_history and r_history (earlier intervals and ratings, with commas),
    first_rating, partition, fold, y, p. Upstream's columns (srs-benchmark: script.py,
    `save_evaluation_file`) that only some models have, such as stability, are left out.
    """
    trials = session.trials(configuration.protocol)
    # Find each prediction's row among the trials, in whatever order they are.
    order = np.argsort(trials.review_th, kind="stable")
    rows = order[np.searchsorted(trials.review_th, result.review_th, sorter=order)]
    starts = trials.history_start[rows].tolist()
    ends = trials.history_end[rows].tolist()
    spans = list(zip(starts, ends, strict=True))
    intervals = [f"{days:.6g}" for days in trials.history_delta_t.tolist()]
    ratings = [str(rating) for rating in trials.history_rating.tolist()]
    columns = {
        "card_id": trials.card_id[rows],
        "review_th": result.review_th,
        "i": trials.i[rows],
        "rating": trials.rating[rows],
        "elapsed_days": trials.elapsed_days[rows],
        "delta_t": [f"{days:.6g}" for days in trials.delta_t[rows].tolist()],
        "t_history": [",".join(intervals[start:end]) for start, end in spans],
        "r_history": [",".join(ratings[start:end]) for start, end in spans],
        "first_rating": trials.first_rating[rows],
        "partition": result.tests.partition,
        "fold": result.fold,
        "y": result.y.astype(int),
        "p": [repr(probability) for probability in result.p.tolist()],
    }
    lines = ["\t".join(columns)]
    lines += ["\t".join(map(str, line)) for line in zip(*columns.values(), strict=True)]
    return "".join(f"{line}\n" for line in lines).encode()
