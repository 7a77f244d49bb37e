"""Result files of many users, ours and srs-benchmark's, as columns.

A folder is one of `srs-eval batch` (setup.json, result/, timing/), one of srs-benchmark, or any
folder that holds such files: one JSON line a user with `metrics`, `user` and `size`, named after
the configuration, `.jsonl` or `.jsonl.gz`. Spellings of 2025 and of 2026 are both known, and
told apart where they mean different things (`year_of`).
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

from srs_eval.benchmark.setup import (
    labelled,
    named_by,
    read_setup,
    settings_in_words,
    without_label,
)
from srs_eval.data.errors import InputError, counted
from srs_eval.data.protocol import Protocol
from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.engine.own_models import mark
from srs_eval.engine.ranking import rows_of
from srs_eval.engine.session import Result, Session
from srs_eval.models.configurations import (
    BASELINE,
    SUFFIX_ALIASES,
    SUFFIXES,
    Configuration,
    Names,
    meant_by,
    untuned,
)
from srs_eval.models.configurations import resolve as resolved
from srs_eval.models.configurations import rows_in_words as words_of_rows
from srs_eval.models.given import OF_FILE
from srs_eval.models.published import left_open, published

_ENDINGS = (".jsonl", ".jsonl.gz")
_FLAGS = {field.name for field in fields(Protocol)}
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Number = Annotated[float, msgspec.Meta(gt=-1e300, lt=1e300)]


class _Line(TypedDict):
    """What a result has to have."""

    user: _Count
    size: _Count
    metrics: dict[str, Any]
    lacks: NotRequired[_Count]
    unused: NotRequired[_Count]
    parameters: NotRequired[list[_Number] | dict[str, list[_Number]] | None]


@dataclass(frozen=True, eq=False)
class ResultFile:
    """One configuration's results of n users, ascending by user."""

    name: str  # canonical where the configuration is known, else the file's
    label: str  # the same for people; unlike any other file's of the report
    configuration: Configuration | None  # None for a model that is not here
    rows: Protocol  # which reviews are evaluated (`Protocol.evaluated_rows`)
    path: Path
    users: IntArray
    sizes: FloatArray  # evaluated reviews
    metrics: Mapping[str, FloatArray]  # by the names of result files; nan where undefined
    parameters: FloatArray | None  # (m, p) fitted ones, a row for each user and partition
    seconds_per_10k: float | None  # of one core, by timing/
    repeated: int = 0  # lines of users who had one before: the last counts
    mark: str = ""  # why its figures mean nothing, in a word or two
    lacks: str = ""  # how many held-out reviews have no prediction, in words
    unused: str = ""  # how many predictions are for no held-out review, in words
    others: str = ""  # where some have none, the digest of the predictions, "?" if unknown
    left_open: str = ""  # what its name does not decide, in words
    shown: Mapping[str, Any] = field(default_factory=dict)
    """Of a model that is not here, what its batch has said of it: words, inputs, parameters."""
    counted_parameters: int | None = None  # by its batch, where the configuration cannot say
    name_in_raw: str = ""  # of its predictions: a batch keeps them under the canonical name

    @property
    def spelled(self) -> str:
        """The name that the file has."""
        return spelled(self.path)

    @property
    def is_baseline(self) -> bool:
        """Whether it is the average, which others are held against."""
        return self.name == BASELINE or bool(self.configuration and self.configuration.is_baseline)

    @property
    def learns(self) -> bool:
        """Whether it learns from each review that it is evaluated on."""
        return self.configuration.learns if self.configuration else bool(self.shown.get("learns"))

    @property
    def rows_in_words(self) -> str:
        """Which reviews it is evaluated on."""
        return words_of_rows(self.rows) + " that others have predicted" * bool(self.lacks)

    @property
    def parameter_count(self) -> int | None:
        """Number of parameters; of unknown models as many as the file lists."""
        if self.configuration is not None:
            told = self.configuration.parameters
            return self.counted_parameters if told is None else told
        listed = None if self.parameters is None else self.parameters.shape[1]
        return self.shown.get("parameters", listed)

    @property
    def inputs(self) -> str:
        """What the model knows of a review: "IL, G"; "?" for unknown models."""
        if self.configuration is None:
            return str(self.shown.get("inputs", "?"))
        return self.configuration.inputs

    def by_user(self) -> dict[int, int]:
        """Evaluated reviews of each user."""
        return dict(zip(self.users.tolist(), self.sizes.astype(int).tolist(), strict=True))

    def columns(self, metrics: Sequence[str], users: IntArray | None = None) -> FloatArray:
        """Some metrics (users, metrics) of its own users or of others; nan where there is none."""
        users = self.users if users is None else users
        place = np.minimum(np.searchsorted(self.users, users), len(self.users) - 1)
        there, nothing = self.users[place] == users, np.full(len(self.users), np.nan)
        found = [self.metrics.get(each, nothing)[place] for each in metrics]
        return np.where(there[:, None], np.column_stack(found), np.nan)

    def log_loss(self, users: IntArray) -> FloatArray:
        """Of some users, in their order; nan for those without results."""
        return self.columns(("LogLoss",), users)[:, 0]


@dataclass(frozen=True, eq=False)
class ResultFolder:
    """What a folder holds, and of which program its results are."""

    path: Path
    files: tuple[ResultFile, ...]
    setup: Mapping[str, Any] | None  # of `srs-eval batch`, else None
    unread: tuple[str, ...]  # files that are empty, with what that means

    @property
    def origin(self) -> str:
        """ "srs-eval 1.2.0", or that it says nothing."""
        return f"srs-eval {self.setup['srs_eval']}" if self.setup else "srs-benchmark's layout"


def read_folders(paths: Sequence[Path]) -> list[ResultFolder]:
    """Every result file of some folders; labels tell equal configurations apart.

    Raises InputError for a folder without result files and for a file that is damaged.
    """
    once: dict[Path, Path] = {}  # a folder that is named twice is one
    for path in paths:
        once.setdefault(_results_of(path).resolve(), path)
    folders = [_read_folder(path) for path in once.values()]
    plain = {each.path: each.label for folder in folders for each in folder.files}
    labels, several = plain, Counter(plain.values())
    # The name alone where that is enough, else with the folder, else with the file.
    for distinguished_by in (
        lambda path: home_of(path).name,
        lambda path: f"{home_of(path).name}: {spelled(path)}",
        str,
    ):
        labels = {
            path: f"{plain[path]} ({distinguished_by(path)})" if several[label] > 1 else label
            for path, label in labels.items()
        }
        several = Counter(labels.values())
    return [
        replace(folder, files=tuple(replace(f, label=labels[f.path]) for f in folder.files))
        for folder in folders
    ]


def _read_folder(path: Path) -> ResultFolder:
    if not path.is_dir():
        raise InputError(f'"{path}" is no folder: name one that holds result files.')
    found = result_paths(path)
    setup = read_setup(path)
    if not found:
        raise InputError(
            f'"{path}" holds no result files: name a folder that `srs-eval batch` or srs-benchmark '
            "has written."
        )
    read = {each.name: _read_file(each, path, setup) for each in found}
    files = list(filter(None, read.values()))
    if not files:
        raise InputError(f'"{path}": all result files are empty.')
    unread = [f"{name} is empty" for name, file in read.items() if file is None]
    names = {file.name for file in files}
    for file in list(files):
        label = file.configuration.label if file.configuration else ""
        on, others = f" {label}".rpartition(" on ")[1:]
        theirs = on and "predictions" in _entry(file.spelled, setup)
        if theirs and not file.lacks and without_label(file.name, on + others) in names:
            files.remove(file)
            unread.append(f"{file.label} is left out: {others} lacks no review")
    return ResultFolder(path, tuple(files), setup, tuple(unread))


def _read_file(path: Path, folder: Path, setup: Mapping[str, Any] | None) -> ResultFile | None:
    file_name = spelled(path)
    read = read_lines(path)
    if None in read:
        mend = f"`srs-eval results check {folder}` lists such lines: take them out"
        if setup is not None:
            mend = f"`srs-eval results check --repair {folder}` mends it"
        raise InputError(
            f'"{path}", line {read.index(None) + 1}: not a result of srs-eval or srs-benchmark; '
            f"{mend}."
        )
    lines: dict[int, dict[str, Any]] = {line["user"]: line for line in read if line is not None}
    if not lines:
        return None
    users = sorted(lines)
    year = year_of(lines.values())
    configuration = configuration_of(file_name, setup, year)
    rows = rows_of(configuration) if configuration else _evaluated_rows(file_name)
    name = configuration.name if configuration else file_name
    if not configuration and meant_by(name):
        name += f" of {year}"  # something else than what has the name here
    entry = _entry(file_name, setup)
    marked = mark(entry.get("check", ""))
    shown = {} if configuration else entry.get("shown", {})
    label = _in_words(configuration) if configuration else shown.get("words", name)
    known = dict.fromkeys(metric for line in lines.values() for metric in line["metrics"])
    lacks = [line["lacks"] for line in lines.values() if "lacks" in line]
    none = f"no prediction for {counted(sum(lacks), 'review')} of {counted(len(lacks), 'user')}"
    unused = [line["unused"] for line in lines.values() if "unused" in line]
    beyond = (
        f"{counted(sum(unused), 'prediction')} of {counted(len(unused), 'user')} "
        f"{'is' if sum(unused) == 1 else 'are'} for reviews that are not evaluated"
    )
    return ResultFile(
        name=name,
        label=f"{label} ({marked})" if marked else label,
        configuration=configuration,
        rows=rows,
        path=path,
        users=np.array(users),
        sizes=np.array([lines[user]["size"] for user in users], dtype=float),
        metrics={
            metric: np.array([_figure(lines[user]["metrics"].get(metric)) for user in users])
            for metric in known
        },
        parameters=_parameters(lines[user].get("parameters") for user in users),
        seconds_per_10k=_seconds(folder / "timing" / f"{file_name}.jsonl"),
        repeated=len(read) - len(users),
        mark=marked,
        shown=shown,
        counted_parameters=entry.get("shown", {}).get("parameters"),
        lacks=none if lacks else "",
        unused=beyond if unused else "",
        others=entry.get("predictions", "?") if lacks else "",
        left_open=left_open(file_name, year) if setup is None else "",
        name_in_raw=_canonical(file_name, setup),
    )


def year_of(lines: Iterable[Mapping[str, Any]]) -> Names:
    """The year whose names a file of srs-benchmark has: since 2026 its lines tell a time."""
    return "2026" if any("time_ms" in line for line in lines) else "2025"


def configuration_of(
    name: str, setup: Mapping[str, Any] | None, names: Names = "2025"
) -> Configuration | None:
    """The configuration that a file's name means; None for a model that is not here.

    `setup` is that of a batch folder, which says itself what it calls its files; else they are
    srs-benchmark's, with the names of a year.
    """
    try:
        if setup is None:
            return published(name, names)
        name, entry = _canonical(name, setup), _entry(name, setup)
        label = entry.get("label", "")
        tuned = without_label(name, label)
        (found,) = resolved([OF_FILE if entry.get("model") == OF_FILE else untuned(tuned)])
    except InputError:
        return None
    flags = entry.get("protocol", {})
    found = replace(
        found,
        name=tuned if found.model.given or untuned(tuned) != tuned else found.name,
        protocol=replace(found.protocol, **{key: flags[key] for key in flags if key in _FLAGS}),
    )
    return labelled(found, label)


def _canonical(file_name: str, setup: Mapping[str, Any] | None) -> str:
    """The configuration that a batch's set-up has under a file's name; else that name."""
    if setup is None:
        return file_name
    return named_by(file_name, setup) or file_name


def _entry(file_name: str, setup: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """What a batch's set-up says of the configuration of a file."""
    found: Mapping[str, Any] = {}
    if setup is not None:
        found = setup["configurations"].get(_canonical(file_name, setup), found)
    return found


def _in_words(configuration: Configuration) -> str:
    """Its words, and its settings where its name leaves them out."""
    settings = "" if configuration.label else settings_in_words(configuration)
    return f"{configuration.words} {settings}".rstrip()


def _evaluated_rows(name: str) -> Protocol:
    """What the suffixes of an unknown model's name say of the reviews that are evaluated."""
    meanings = {**SUFFIXES, **{alias: SUFFIXES[of] for alias, of in SUFFIX_ALIASES.items()}}
    flags: dict[str, Any] = {}
    for suffix in name.split("-")[1:]:
        flag, value = meanings.get(suffix, ("", None))
        if flag in _FLAGS:
            flags[flag] = value
    if flags.get("secs"):
        flags["short"] = True  # as other.py evaluates them: every positive interval
    return Protocol(**flags).evaluated_rows()


def _figure(value: object) -> float:
    """A metric of a line; nan for null."""
    return float(value) if isinstance(value, int | float) and abs(value) < 1e300 else math.nan


def _parameters(found: Iterable[Any]) -> FloatArray | None:
    """All lists of parameters of a file, of every partition; None where there are none."""
    lists: list[Sequence[float]] = []
    for each in found:
        if isinstance(each, Mapping):
            lists += each.values()
        elif each:
            lists.append(each)
    counts = Counter(map(len, lists))
    if not counts:
        return None
    usual = counts.most_common(1)[0][0]
    return np.array([each for each in lists if len(each) == usual], dtype=float)


def _seconds(timing: Path) -> float | None:
    """Seconds per 10,000 evaluated reviews, over all users that took any."""
    try:
        with open(timing, encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        reviews = float(sum(line["size"] for line in lines))
        seconds = float(sum(line.get("cpu_seconds", line["seconds"]) for line in lines))
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        return None  # figures do not hang on it
    return 10_000 * seconds / reviews if reviews > 0 else None


def _results_of(folder: Path) -> Path:
    """Where the result files of a folder lie."""
    return folder / "result" if (folder / "result").is_dir() else folder


def result_paths(folder: Path) -> list[Path]:
    """The result files of a folder."""
    return sorted(path for path in _results_of(folder).iterdir() if path.name.endswith(_ENDINGS))


def home_of(path: Path) -> Path:
    """The folder that was named for a file."""
    folder = path.parent
    return folder.parent if folder.name == "result" else folder


# --- lines: the one place that says which line is a result


def spelled(path: Path) -> str:
    """The configuration's name as a result file spells it."""
    return path.name.removesuffix(".gz").removesuffix(".jsonl")


def read_lines(path: Path) -> list[dict[str, Any] | None]:
    """Every line of a result file, in its order; None for one that is no result.

    Raises InputError where the file cannot be read or unpacked.
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
    """A result; None where the text is none: other JSON, none at all, or fields of other kinds."""
    try:
        line: dict[str, Any] = json.loads(text)
        msgspec.convert(line, _Line)
    except (ValueError, RecursionError, msgspec.ValidationError):
        return None
    return line


# --- predictions: what `srs-eval batch --raw` and `--file` keep of a unit; the rows are the same


def raw_parquet(session: Session, configuration: Configuration, user: int, result: Result) -> bytes:
    """A parquet file.

    Columns: user, review_th (1-based position among the user's rows), card_id, deck_id, preset_id
    (-1 where the source does not tell), day (of the data set's count), fold (1 ...), p, y,
    configuration.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = session.rows(configuration.protocol)
    card = rows.card_id[result.review_th - 1]
    deck = session.log.deck_of(card)
    count = len(result.p)
    table = pa.table(
        {
            "user": pa.repeat(pa.scalar(user, pa.int64()), count),
            "review_th": result.review_th,
            "card_id": card,
            "deck_id": deck,
            "preset_id": session.log.preset_of(deck),
            "day": result.day,
            "fold": result.fold.astype("int8"),
            "p": result.p,
            "y": result.y.astype("int8"),
            "configuration": pa.repeat(configuration.name, count).dictionary_encode(),
        }
    )
    out = io.BytesIO()
    pq.write_table(table, out, compression="zstd")
    return out.getvalue()


def raw_table(session: Session, configuration: Configuration, user: int, result: Result) -> bytes:
    """Text separated by tabs, with the column names of srs-benchmark's `--file`.

    card_id, review_th, i (number among the card's reviews on later days), rating, elapsed_days,
    delta_t (in days), t_history and r_history (intervals and ratings before, with commas),
    first_rating, partition, fold, y, p. Of upstream's columns (srs-benchmark: script.py,
    `save_evaluation_file`) those are left out that only some models have, such as stability.
    """
    trials = session.trials(configuration.protocol)
    order = np.argsort(trials.review_th, kind="stable")
    place = order[np.searchsorted(trials.review_th, result.review_th, sorter=order)]
    starts, ends = trials.history_start[place].tolist(), trials.history_end[place].tolist()
    days = trials.history_delta_t.tolist()
    intervals = [f"{each:.6g}" for each in days]
    ratings = [str(each) for each in trials.history_rating.tolist()]
    columns = {
        "card_id": trials.card_id[place],
        "review_th": result.review_th,
        "i": trials.i[place],
        "rating": trials.rating[place],
        "elapsed_days": trials.elapsed_days[place],
        "delta_t": [f"{each:.6g}" for each in trials.delta_t[place].tolist()],
        "t_history": [",".join(intervals[a:b]) for a, b in zip(starts, ends, strict=True)],
        "r_history": [",".join(ratings[a:b]) for a, b in zip(starts, ends, strict=True)],
        "first_rating": trials.first_rating[place],
        "partition": result.tests.partition,
        "fold": result.fold,
        "y": result.y.astype(int),
        "p": [repr(each) for each in result.p.tolist()],
    }
    lines = ["\t".join(columns)]
    lines += ["\t".join(map(str, line)) for line in zip(*columns.values(), strict=True)]
    return "".join(f"{line}\n" for line in lines).encode()
