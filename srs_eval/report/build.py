"""From folders of results to the document of `srs-eval report`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from srs_eval.averaging import MODES, averages, read_predictions
from srs_eval.configurations import in_words
from srs_eval.errors import InputError
from srs_eval.report.dataset import METRICS, SECONDS, dataset_document
from srs_eval.report.document import Document
from srs_eval.result_files import read_folders
from srs_eval.standings import changes, compare


def dataset_report(
    folders: Sequence[Path],
    *,
    metric: str = "LogLoss",
    columns: Sequence[str] = METRICS,
    users: str = "common",
    average: Sequence[str] = ("user",),
    baseline: Path | None = None,
) -> Document:
    """The report on some folders; raises InputError for what they do not hold."""
    found = read_folders(folders)
    files = [file for folder in found for file in folder.files]
    known = dict.fromkeys(name for file in files for name in file.metrics)
    metric = _named("--metric", metric, known)
    shown = [_named("--columns", each.strip(), [*known, SECONDS]) for each in columns]
    modes = [_named("--average", each.strip(), MODES) for each in average]
    before = read_folders([baseline]) if baseline is not None else []
    metrics = [each for each in shown if each != SECONDS]
    averaged = [
        averages(in_words(name), predictions, modes)
        for folder in (folders if modes != ["user"] else ())
        for name, predictions in read_predictions(folder)
    ]
    return dataset_document(
        found,
        compare(files, metric, metrics=metrics, users="each" if users == "each" else "common"),
        columns=shown,
        own_users=users == "each",
        baseline=before,
        changes=changes(files, [f for each in before for f in each.files], metric, metrics),
        averages=averaged,
    )


def _named(option: str, name: str, known: Sequence[str] | dict[str, None]) -> str:
    """The one of some names that is meant, case and spaces aside."""
    for each in known:
        if _plain(each) == _plain(name):
            return each
    raise InputError(f'{option} takes {", ".join(known)}, not "{name}".')


def _plain(name: str) -> str:
    return "".join(name.lower().split()).replace("_", "")
