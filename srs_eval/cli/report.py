"""The command that reports on results of many users."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from srs_eval.cli.options import FINE, Outputs


def report(
    outputs: Outputs,
    folders: list[Path],
    baseline: Path | None = None,
    models: str | None = None,
    users: str | None = None,
    means: Literal["common", "each"] = "common",
    reference: str | None = None,
    matrix: str | None = None,
    metric: str = "LogLoss",
    columns: str = "LogLoss,RMSE(bins),AUC",
    average: str = "user",
    digits: int = 0,
) -> int:
    """Tables, pairs and pictures of results of many users."""
    from srs_eval.report.dataset import dataset_report

    if users in ("common", "each"):  # what --means was called
        users, means = None, "each" if users == "each" else "common"
    outputs.check(*folders, baseline)
    document = dataset_report(
        folders,
        metric=metric,
        columns=columns.split(","),
        means=means,
        average=average.split(","),
        baseline=baseline,
        models=models,
        users=users,
        reference=reference,
        matrix=matrix,
        digits=digits,
    )
    outputs.write(document)
    return FINE
