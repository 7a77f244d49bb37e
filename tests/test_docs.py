"""Run the examples of the documents and follow their links."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import srs_eval
from srs_eval import models
from srs_eval.advice.questions import QUESTION_REGISTRY, findings_heading
from srs_eval.data.paths import DEMO_FILE
from srs_eval.engine.conformance import find_mistakes
from srs_eval.models import TrainedModel
from srs_eval.training.hyperparameters import Context
from tests.conftest import REPOSITORY
from tests.helpers.own_models import WORDS
from tests.helpers.packages import ORDER
from tests.helpers.program import run_in_process
from tools.simulated import simulate_learner, write_dataset

DOCUMENTS = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]


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


def test_protocol_example_prints_its_output(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pyarrow")
    page = REPOSITORY / "docs" / "protocol.md"
    (program,) = python_blocks(page)
    monkeypatch.chdir(REPOSITORY)
    exec(compile(program, page.name, "exec"), {})
    assert f"```\n{capsys.readouterr().out}```\n" in page.read_text(encoding="utf-8")


GUIDE = REPOSITORY / "docs" / "adding-a-model.md"
EXAMPLES = ("LAST-REVIEW", "GROWING", "FOREST", "SMALL-GRU")


def example(name: str) -> str:
    """Return the guide's model of a name, as a file."""
    return python_blocks(GUIDE)[EXAMPLES.index(name)]


@pytest.fixture
def words(tmp_path: Path) -> Path:
    """Write a table of features."""
    path = tmp_path / "words.csv"
    path.write_text("card_id,frequency\n1,3.5\n2,\n3,1.25\n", encoding="utf-8")
    return path


@pytest.fixture
def with_example_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Add the guide's models as files to the package's models."""
    for number, block in enumerate(python_blocks(GUIDE)):
        (tmp_path / f"example_{number}.py").write_text(block, encoding="utf-8")
    (tmp_path / "example_words.py").write_text(WORDS, encoding="utf-8")
    monkeypatch.setattr(models, "__path__", [*models.__path__, str(tmp_path)])
    models.all_models.cache_clear()
    yield
    models.all_models.cache_clear()


@pytest.mark.slow
def test_example_models_work_as_files_of_ones_own(
    simulated_collection: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check such files in workers too; a mistake in one is reported in a sentence."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    plain = example("LAST-REVIEW")
    model_file = tmp_path / "mine.py"
    model_file.write_text(plain, encoding="utf-8")
    (tmp_path / "recurrent.py").write_text(example("GROWING"), encoding="utf-8")

    files = ("--model-file", str(model_file), "--model-file", str(tmp_path / "recurrent.py"))
    models = ("--models", "LAST-REVIEW,LAST-REVIEW-preset,GROWING,AVG", "--jobs", "2")
    done = run_in_process("run", str(simulated_collection), *files, *models, "--json", "-")
    assert done.returncode == 0, done.stderr
    results = {result["configuration"]: result for result in json.loads(done.stdout)["results"]}
    assert set(results) == {"LAST-REVIEW", "LAST-REVIEW-preset", "GROWING", "AVG"}
    description = run_in_process("models", "LAST-REVIEW", "--model-file", str(model_file))
    assert str(model_file) in description.stdout.replace("\n", "").replace(" ", "")

    write_dataset({1: simulate_learner(1, 600)}, tmp_path / "data")
    out = tmp_path / "out"
    batch = ("batch", "--dataset", str(tmp_path / "data"), "--out", str(out))
    assert run_in_process(*batch, *files[:2], "--models", "LAST-REVIEW").returncode == 0
    # Of the same size and time, as bytecode would not notice.
    before = model_file.stat()
    model_file.write_text(plain.replace("4650", "36501").replace("3650", "3651"), encoding="utf-8")
    os.utime(model_file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert model_file.stat().st_size == before.st_size
    changed = run_in_process(*batch, *files[:2], "--models", "LAST-REVIEW")
    assert changed.returncode == 2
    assert "LAST-REVIEW had model file" in changed.stderr

    # What it imports from beside it is part of it.
    imported_file = tmp_path / "beside.py"
    imported_file.write_text("HORIZON = 4650\n")
    model_file.write_text(
        f"import sys\nsys.path.insert(0, {str(tmp_path)!r})\nimport beside\n{plain}"
    )
    second = ("batch", "--dataset", str(tmp_path / "data"), "--out", str(tmp_path / "second"))
    assert run_in_process(*second, *files[:2], "--models", "LAST-REVIEW").returncode == 0
    del sys.modules["beside"]
    imported_file.write_text("HORIZON = 36501\n")
    changed = run_in_process(*second, *files[:2], "--models", "LAST-REVIEW")
    del sys.modules["beside"]
    assert changed.returncode == 2
    assert "LAST-REVIEW had model file" in changed.stderr

    for name, content, words in (
        ("a.py", "MODELS = 1 / 0", "ZeroDivisionError"),
        ("b.py", "x = 3", "has no models in MODELS"),
        ("c.py", plain.replace("LAST-REVIEW", "FSRS-6"), "FSRS-6 already means FSRS-6"),
        ("e.py", plain.replace("LAST-REVIEW", "fast"), "fast already means the group fast"),
        ("f.py", plain.replace("LAST-REVIEW", "../x"), "is not a valid model name"),
        ("g.py", plain + "MODELS += MODELS", "two models called LAST-REVIEW"),
        ("h.py", "MODELS = ()", "no models"),
        ("i.py", "import sys; sys.exit(3)", "SystemExit"),
        ("d.py", None, "No such file"),
    ):
        if content is not None:
            (tmp_path / name).write_text(content, encoding="utf-8")
        wrong = run_in_process("models", "--model-file", str(tmp_path / name))
        assert wrong.returncode == 2
        assert words in wrong.stderr
        assert "Traceback" not in wrong.stderr


@pytest.mark.slow
@pytest.mark.usefixtures("with_example_models")
def test_example_models_are_found_and_learn(simulated_collection: Path, words: Path) -> None:
    log = srs_eval.load(simulated_collection)
    names = [*EXAMPLES, "WORDS", "GROWING-dry-run", "LAST-REVIEW-preset"]
    results = srs_eval.evaluate(log, models=names, use_cache=False, features=words)
    assert not results.failed
    assert set(results) >= set(names)
    loss = {name: results[name].metrics.log_loss for name in names}
    last_review = models.all_models()["LAST-REVIEW"]
    assert isinstance(last_review, TrainedModel)
    start = [10.0] * 4 + [1.0, 0.2]
    unfitted = replace(last_review, name="UNFITTED", fit=lambda *_: start)
    unfitted_loss = srs_eval.evaluate(log, models=[unfitted])["UNFITTED"].metrics.log_loss
    for name in (*EXAMPLES, "WORDS"):
        assert loss[name] < loss.get(f"{name}-dry-run", unfitted_loss), name
    fitted = results["LAST-REVIEW-preset"].parameters
    assert fitted is not None
    assert len(fitted) >= 2


@pytest.mark.slow
@pytest.mark.parametrize("name", [*EXAMPLES, "WORDS"])
def test_nothing_is_wrong_with_example_models(name: str, tmp_path: Path, words: Path) -> None:
    file = tmp_path / "my_model.py"
    file.write_text(WORDS if name == "WORDS" else example(name), encoding="utf-8")
    (model,) = models.load_model_file(file)
    try:
        assert model.name == name
        assert list(find_mistakes([model], words)) == []
    finally:
        del models.all_models()[model.name]


@pytest.mark.slow
def test_recipes_reach_the_log_loss_that_the_guide_names(tmp_path: Path) -> None:
    for name in ("LAST-REVIEW", "GROWING"):
        (tmp_path / f"{name}.py").write_text(example(name), encoding="utf-8")
    log = srs_eval.load(DEMO_FILE)
    recipes = [models.load_model_file(path)[0] for path in sorted(tmp_path.iterdir())]
    try:
        results = srs_eval.evaluate(log, models=[*recipes, "AVG", "FSRS-6"], use_cache=False)
    finally:
        for model in recipes:
            del models.all_models()[model.name]
    loss = {name: f"{result.metrics.log_loss:.3f}" for name, result in results.items()}
    assert loss == {"FSRS-6": "0.290", "LAST-REVIEW": "0.295", "GROWING": "0.296", "AVG": "0.303"}


def test_recurrent_example_has_at_most_forty_lines() -> None:
    assert len(example("GROWING").splitlines()) <= 40


def test_the_first_example_finds_its_curve_again() -> None:
    names: dict[str, Any] = {}
    exec(compile(example("LAST-REVIEW"), GUIDE.name, "exec"), names)
    random = np.random.default_rng(1)
    truth = [1.0, 3.0, 10.0, 30.0, 0.5, 0.4]
    n = 20_000
    rows = np.arange(n)
    trials = SimpleNamespace(
        history_end=rows + 1,
        history_rating=random.integers(1, 5, n),
        history_delta_t=random.uniform(0, 30, n),
        delta_t=random.uniform(0.5, 60, n),
        y=np.zeros(n),
    )
    recall = names["predict"](trials, truth, rows, Context())
    stability = np.array(truth)[trials.history_rating - 1] * (1 + trials.history_delta_t) ** 0.5
    np.testing.assert_allclose(recall, (1 + trials.delta_t / stability) ** -0.4)
    trials.y = (random.random(n) < recall).astype(float)
    fitted = names["fit"](trials, rows, np.ones(n), Context())
    predicted = names["predict"](trials, fitted, rows, Context())
    np.testing.assert_allclose(predicted, recall, atol=0.03)


def test_names_imported_by_examples_exist() -> None:
    for document in DOCUMENTS:
        imports = re.findall(
            r"^ *from (srs_eval[\w.]*) import (.+)$", document.read_text(encoding="utf-8"), re.M
        )
        for module, names in imports:
            for name in names.split(", "):
                assert hasattr(import_module(module), name), (document.name, module, name)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    for link, anchor in re.findall(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)", text):
        target = document.parent / link if link else document
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), (link, anchor)


def anchors(document: Path) -> set[str]:
    """Return the anchors that GitHub makes of headings."""
    text = document.read_text(encoding="utf-8")
    headings = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_models_name_their_year() -> None:
    sources = {name: model.source for name, model in models.all_models().items()}
    assert not [name for name in sources if not re.search(r"\b(19|20)\d\d\b", sources[name])]


def test_every_question_of_the_app_is_explained() -> None:
    page = (REPOSITORY / "docs" / "findings.md").read_text(encoding="utf-8")
    assert "# Findings\n" in page
    for question in QUESTION_REGISTRY:
        assert f"\n## {findings_heading(question)}\n" in page


def test_architecture_names_every_package() -> None:
    """Check that the table of packages is complete and in the order of imports."""
    text = (REPOSITORY / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = re.findall(r"^\| `([a-z_]+)(?:\.py|/)` \|", text.split("## Packages")[1], re.MULTILINE)
    assert named == [name for name in ORDER if not name.startswith("__")]
