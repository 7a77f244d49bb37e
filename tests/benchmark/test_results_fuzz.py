"""Check that damaged folders of results are read, or refused in one sentence."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srs_eval.batch import run_batch
from srs_eval.cli.main import main
from srs_eval.data.datasets import open_dataset
from srs_eval.models.configurations import resolve_configurations
from tests.helpers.fuzzing import damage, examples
from tools.simulated import simulate_learner, write_dataset


@pytest.fixture(scope="module")
def results_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    write_dataset({user: simulate_learner(user, 600) for user in (1, 2, 3)}, folder / "data")
    list(
        run_batch(
            open_dataset(folder / "data"), resolve_configurations("AVG,90%"), folder / "out", jobs=1
        )
    )
    return folder / "out"


@examples(10)
@given(data=st.data())
def test_damaged_results(results_folder: Path, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(shutil.copytree(results_folder, Path(name) / "out"))
        files = sorted(path for path in folder.rglob("*.json*"))
        path = data.draw(st.sampled_from(files))
        path.write_bytes(damage(path.read_bytes(), data))
        for command in (
            ["results", "check", str(folder)],
            ["report", str(folder), "--md", "-"],
            ["results", "merge", str(folder), "--out", str(folder)],
        ):
            assert main(command) in (0, 1, 2)
