"""Reference vectors, and the file with which others check their implementation against them."""

from __future__ import annotations

import json
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from srs_eval.data.errors import InputError
from srs_eval.engine import reference_vectors
from srs_eval.engine.reference_vectors import RETENTIONS, build_reference_vectors
from srs_eval.models import fsrs7
from srs_eval.report.export import to_json_by_case
from tests.conftest import REPOSITORY
from tests.helpers import plain_fsrs6
from tests.helpers.program import run_in_process

FOLDER = REPOSITORY / "docs" / "vectors"


def load_script(path: Path) -> ModuleType:
    """Import a file that is in no package."""
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def build_few(name: str) -> dict[str, Any]:
    """Return vectors with few histories and learners; the other cases are all there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reference_vectors, "_HISTORIES", 24)
        patch.setattr(reference_vectors, "_LEARNERS", 2)
        document: dict[str, Any] = json.loads(to_json_by_case(build_reference_vectors(name)))
    return document


@pytest.fixture(scope="module")
def fsrs6_vectors() -> dict[str, Any]:
    return build_few("FSRS-6")


@pytest.fixture(scope="module")
def fsrs7_vectors() -> dict[str, Any]:
    return build_few("FSRS-7")


@pytest.fixture(scope="module")
def runner() -> ModuleType:
    return load_script(FOLDER / "check_vectors.py")


def find_cases(vectors: dict[str, Any], beginning: str) -> list[dict[str, Any]]:
    return [case for case in vectors["cases"] if case["name"].startswith(beginning)]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["FSRS-6", "FSRS-7"])
def test_vectors_are_200_cases_with_the_same_bytes_each_time(name: str) -> None:
    vectors = build_reference_vectors(name)
    names = [case["name"] for case in vectors["cases"]]
    assert len(names) == len(set(names)) == 200
    assert to_json_by_case(vectors) == to_json_by_case(build_reference_vectors(name))


def test_vectors_are_the_same_each_time(fsrs6_vectors: dict[str, Any]) -> None:
    assert build_few("FSRS-6") == fsrs6_vectors


def test_plain_implementation_agrees_in_every_case(
    fsrs6_vectors: dict[str, Any], runner: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    differing = runner.check_vectors(fsrs6_vectors, plain_fsrs6)
    assert differing == {"states": [], "intervals": [], "days": []}
    assert "training: not checked" in capsys.readouterr().out


def test_clamped_cases_reach_every_limit(fsrs6_vectors: dict[str, Any]) -> None:
    cases = find_cases(fsrs6_vectors, "clamp")
    states = np.array([state for case in cases for state in case["states"]])
    assert states.min(axis=0).tolist() == [0.001, 1.0]
    assert states.max(axis=0).tolist() == [36500.0, 10.0]


@pytest.mark.parametrize(
    ("name", "change", "expected"),
    [
        ("no longest stability", {"highest": 1e9}, "clamp: Easy for a century, defaults"),
        ("Hard shortens on the same day", {"lowest_kept": 3}, "same day 6"),
    ],
)
def test_runner_names_the_cases_that_differ(
    name: str,
    change: dict[str, float],
    expected: str,
    fsrs6_vectors: dict[str, Any],
    runner: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for constant, value in change.items():
        monkeypatch.setattr(plain_fsrs6, constant.upper(), value)
    differing = runner.check_vectors(fsrs6_vectors, plain_fsrs6)
    assert expected in differing["states"]
    assert expected in differing["intervals"]
    assert len(differing["states"]) < 60, name


def test_runner_accepts_intervals_rounded_to_whole_days(
    fsrs6_vectors: dict[str, Any], runner: ModuleType
) -> None:
    def compute_whole_intervals(*arguments: Any) -> list[int]:
        intervals = plain_fsrs6.compute_intervals(*arguments)
        return [min(max(round(interval), 1), 36500) for interval in intervals]

    adapter = SimpleNamespace(compute_intervals=compute_whole_intervals, WHOLE_DAYS=True)
    assert runner.check_vectors(fsrs6_vectors, adapter) == {"intervals": []}
    adapter.WHOLE_DAYS = False
    assert runner.check_vectors(fsrs6_vectors, adapter)["intervals"]


def test_runner_counts_exceptions_and_missing_values_as_differences(
    fsrs6_vectors: dict[str, Any], runner: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    adapter = SimpleNamespace(
        compute_states=lambda *_: [], count_days=lambda *_: 1 / 0, train=lambda *_: [np.nan] * 21
    )
    differing = runner.check_vectors(fsrs6_vectors, adapter)
    assert [len(names) for names in differing.values()] == [124, 20, 2]
    assert "ZeroDivisionError" in capsys.readouterr().out


def test_runner_exit_code_says_whether_all_agree(
    fsrs6_vectors: dict[str, Any], runner: ModuleType, tmp_path: Path
) -> None:
    file = tmp_path / "vectors.json"
    file.write_text(json.dumps(fsrs6_vectors), "utf-8")
    adapters = {
        "agrees": ("MODELS = ('FSRS-6',)", 0),
        "implements_another": ("MODELS = ('FSRS-7',)", 2),
        "differs": ("MODELS = ('FSRS-6',)\ndef train(model, reviews): return []", 1),
    }
    for name, (text, code) in adapters.items():
        adapter = tmp_path / f"{name}.py"
        adapter.write_text(f"NAME = '{name}'\n{text}\n", "utf-8")
        assert runner.main([str(file), str(adapter)]) == code


def test_anki_optimizer_agrees_with_same_day_hard(
    fsrs6_vectors: dict[str, Any], runner: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check fsrs-rs-python: states and intervals, and training on learners who press Hard twice."""
    pytest.importorskip("fsrs_rs_python", reason="needs fsrs-rs-python")
    monkeypatch.delenv("FSRS_NO_OUTLIER", raising=False)  # which the model FSRS-rs sets
    for case in find_cases(fsrs6_vectors, "training"):
        reviews = case["cards_ratings_days"]
        seen = set()
        same_day_hard = 0
        for card, rating, days in reviews:
            same_day_hard += card in seen and rating == 2 and days == 0
            seen.add(card)
        assert same_day_hard > 5
    adapter = load_script(FOLDER / "adapter_fsrs_rs_python.py")
    differing = runner.check_vectors(fsrs6_vectors, adapter)
    assert differing == {"states": [], "intervals": [], "training": []}


def test_fsrs7_recall_at_the_intervals_is_the_desired_retention(
    fsrs7_vectors: dict[str, Any],
) -> None:
    for case in find_cases(fsrs7_vectors, "history"):
        state = case["states"][-1]
        for interval, retention in zip(case["intervals"][-1], RETENTIONS, strict=True):
            recall = fsrs7.recall(interval, state, case["parameters"])
            if 1.01 / 86_400 < interval < 36_499:
                assert recall == pytest.approx(retention, abs=1e-7)


def test_fsrs7_days_are_seconds_and_training_keeps_bounds(fsrs7_vectors: dict[str, Any]) -> None:
    (case, *_) = find_cases(fsrs7_vectors, "days: Europe/Berlin, 2024-03-31")
    first, second = (np.datetime64(time[:-1]) for time in case["times"][:2])
    assert case["reviews"][1][1] == pytest.approx((second - first) / np.timedelta64(86_400, "s"))
    for case in find_cases(fsrs7_vectors, "training"):
        w = case["trained_parameters"]
        assert len(w) == 34
        assert w != fsrs7_vectors["default_parameters"]
        assert w[:4] == sorted(w[:4])


def test_vectors_of_another_model_are_refused() -> None:
    with pytest.raises(InputError, match="FSRS-6 or FSRS-7, not FSRS-5"):
        build_reference_vectors("FSRS-5")


def test_command_prints_vectors_as_json(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(reference_vectors, "_LEARNERS", 0)
    printed = run_in_process("models", "vectors", "FSRS-6")
    assert printed.returncode == 0
    vectors = json.loads(printed.stdout)
    assert vectors["model"] == "FSRS-6"
    assert len(vectors["cases"]) == 180
    file = tmp_path / "vectors.json"
    written = run_in_process("models", "vectors", "FSRS-6", "--json", str(file))
    assert written.stdout == ""
    assert file.read_text("utf-8") == printed.stdout
    refused = run_in_process("models", "vectors")
    assert refused.returncode == 2
    assert "srs-eval models vectors FSRS-6" in refused.stderr
