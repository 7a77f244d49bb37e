"""From folders of results to the document of `srs-eval report`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from srs_eval.averaging import MODES, Averages, averages, read_predictions
from srs_eval.errors import InputError
from srs_eval.report.dataset import METRICS, SECONDS, dataset_document
from srs_eval.report.document import Document
from srs_eval.result_files import ResultFolder, read_folders
from srs_eval.standings import Comparison, changes, compare


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
    comparisons = compare(
        files, metric, metrics=metrics, users="each" if users == "each" else "common"
    )
    return dataset_document(
        found,
        comparisons,
        columns=shown,
        own_users=users == "each",
        baseline=before,
        changes=changes(files, [f for each in before for f in each.files], metric, metrics),
        averages=_averaged(found, comparisons, modes) if modes != ["user"] else (),
    )


def _averaged(
    folders: Sequence[ResultFolder], comparisons: Sequence[Comparison], modes: Sequence[str]
) -> list[list[Averages]]:
    """By comparison, of its users: averages of those of its files that have predictions."""
    homes = {file.path: folder.path for folder in folders for file in folder.files}
    found: list[list[Averages]] = []
    for comparison in comparisons:
        found.append([])
        for file in comparison.files:
            predictions = read_predictions(homes[file.path], file.spelled)
            if predictions is not None:
                found[-1].append(averages(file.label, predictions.of(comparison.users), modes))
    if not any(found):
        raise InputError(
            f"--average {','.join(modes)} needs predictions, and there are none in a folder raw "
            f'beside the results of "{folders[0].path}": evaluate with --raw.'
        )
    return found


def _named(option: str, name: str, known: Sequence[str] | dict[str, None]) -> str:
    """The one of some names that is meant, case and spaces aside."""
    for each in known:
        if _plain(each) == _plain(name):
            return each
    raise InputError(f'{option} takes {", ".join(known)}, not "{name}".')


def _plain(name: str) -> str:
    return "".join(name.lower().split()).replace("_", "")
