"""What the documents show can be run, and what they link to is there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import srs_eval
from srs_eval import models
from tests.conftest import REPOSITORY

DOCUMENTS = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]


def python_blocks(path: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", path.read_text(encoding="utf-8"), re.M | re.S)


def test_notebook_example_runs(
    simulated_collection: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (example,) = python_blocks(REPOSITORY / "README.md")
    monkeypatch.chdir(simulated_collection.parent)
    exec(compile(example, "README.md", "exec"), {})
    lines = capsys.readouterr().out.splitlines()
    assert 0.1 < float(lines[-1]) < 0.7
    assert "LogLoss" in lines[0]


@pytest.fixture
def with_example_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The document's model as a file among the models."""
    (example,) = python_blocks(REPOSITORY / "docs" / "adding-a-model.md")
    (tmp_path / "card_record.py").write_text(example, encoding="utf-8")
    monkeypatch.setattr(models, "__path__", [*models.__path__, str(tmp_path)])
    models.all_models.cache_clear()
    yield
    models.all_models.cache_clear()


@pytest.mark.usefixtures("with_example_model")
def test_example_model_is_found_and_learns(simulated_collection: Path) -> None:
    log = srs_eval.load(simulated_collection)
    names = ["CARD-RECORD", "CARD-RECORD-dry-run", "CARD-RECORD-preset", "90%"]
    results = srs_eval.evaluate(log, models=names, use_cache=False)
    assert not results.failed
    assert set(results) == set(names)
    loss = {name: result.metrics.log_loss for name, result in results.items()}
    assert loss["CARD-RECORD"] < min(loss["CARD-RECORD-dry-run"], loss["90%"])
    auc = results["CARD-RECORD"].metrics.auc
    assert auc is not None
    assert auc > 0.52
    fitted = results["CARD-RECORD-preset"].parameters
    assert fitted is not None
    assert len(fitted) >= 2


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    links = re.findall(r"\]\((?!https?:)([^)#]+)", text)
    missing = [link for link in links if not (document.parent / link).exists()]
    assert not missing


def test_architecture_names_every_room() -> None:
    """The room table is complete and names nothing that is gone."""
    text = (REPOSITORY / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([a-z_]+(?:\.py|/))`", text.split("## Rooms")[1]))
    package = REPOSITORY / "srs_eval"
    there = {path.name for path in package.glob("[a-z]*.py")}
    there |= {f"{path.parent.name}/" for path in package.glob("*/__init__.py")}
    assert named == there - {"places.py", "state.py"}
