"""Stored parameters, as Anki runs and evaluates them."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

import srs_eval
from srs_eval.advice.candidates import Learner
from srs_eval.advice.sentences import format_parameters, parse_parameters
from srs_eval.data.errors import InputError
from srs_eval.data.reviews import ReviewLog
from srs_eval.models import fsrs6
from srs_eval.models.own_parameters import latest_possible_fit_s, normalize_as_anki
from tests.conftest import shared_or_skip
from tests.helpers.advice import FIXTURES, ORACLE_NAMES, compute_in_sample, oracle_trials


def test_lists_of_each_length_are_normalized_as_by_anki() -> None:
    assert normalize_as_anki(()) == list(fsrs6.DEFAULT)
    assert normalize_as_anki(fsrs6.DEFAULT) == list(fsrs6.DEFAULT)
    nineteen = normalize_as_anki(fsrs6.DEFAULT[:19])
    assert nineteen == [*fsrs6.DEFAULT[:19], 0.0, 0.5]
    old = [0.5, 1.5, 4.0, 9.0, 5.0, 1.0, 0.9, 0.03, 1.6, 0.1, 1.0, 2.1, 0.06, 0.3, 1.4, 0.2, 2.9]
    new = normalize_as_anki(old)
    assert new[4] == 7.0
    assert new[5] == pytest.approx(0.4620981)  # ln 4 / 3
    assert new[6] == pytest.approx(1.4)
    assert new[17:] == [0.0, 0.0, 0.0, 0.5]
    assert normalize_as_anki([1000.0, *fsrs6.DEFAULT[1:]])[0] == 100.0  # held within bounds


@pytest.mark.parametrize("values", [(1.0,) * 18, (1.0,) * 34, (float("nan"),) * 21])
def test_lists_that_anki_does_not_run_are_refused(values: tuple[float, ...]) -> None:
    with pytest.raises(InputError, match=r"17, 19 or 21|finite"):
        normalize_as_anki(values)


def test_parameters_are_parsed_as_they_are_formatted() -> None:
    line = format_parameters(fsrs6.DEFAULT)
    assert parse_parameters(line) == [float(value) for value in line.split(", ")]
    assert parse_parameters(f"[{line.replace(', ', ' ')}]") == parse_parameters(line)
    folded = line.replace(", ", ",   \n  ")  # as a terminal's fold is copied
    assert parse_parameters(folded) == parse_parameters(line)
    for text in ("", "0.2; 1.3", "one, two"):
        with pytest.raises(InputError):
            parse_parameters(text)


@pytest.mark.parametrize("name", ORACLE_NAMES)
def test_stored_parameters_in_sample_equal_ankis_figures(name: str) -> None:
    fixtures = shared_or_skip(FIXTURES)
    fixture = srs_eval.load(fixtures / "collection.anki2")
    preset = next(preset for preset in fixture.presets.values() if preset.name == name)
    oracle = json.loads((fixtures / "oracle-workload.json").read_text())["presets"][name]
    expected = oracle["evaluate_current_in_sample"]
    metrics = compute_in_sample(
        oracle_trials(fixture, name), normalize_as_anki(preset.active_parameters)
    )
    assert metrics[0] == pytest.approx(expected["log_loss"], abs=1e-5)
    assert metrics[1] == pytest.approx(expected["rmse_bins"], abs=1e-5)


def test_every_list_in_sample_equals_ankis_figures() -> None:
    fixtures = shared_or_skip(FIXTURES)
    fixture = srs_eval.load(fixtures / "collection.anki2")
    oracle = json.loads((fixtures / "oracle.json").read_text())
    answers = oracle["collection.anki2"]["fsrs"]["Sentences: same search, no ignore-before date"]
    trials = oracle_trials(fixture, "Sentences")
    assert oracle["param_sets"]
    for name, values in oracle["param_sets"].items():
        expected = answers["evaluate_params_legacy"][name]
        metrics = compute_in_sample(trials, normalize_as_anki(values))
        assert metrics[0] == pytest.approx(expected["log_loss"], abs=1e-5), name
        assert metrics[1] == pytest.approx(expected["rmse_bins"], abs=1e-5), name


def test_latest_possible_fit_is_the_later_of_two_bounds(log: ReviewLog, learner: Learner) -> None:
    preset = log.presets[100]
    assert latest_possible_fit_s(log, preset) == preset.modified_s
    assert latest_possible_fit_s(log, replace(preset, modified_s=None)) is None
    assert preset.modified_s is not None
    later = replace(log, optimized_before_s=preset.modified_s + 100)
    assert latest_possible_fit_s(later, preset) == preset.modified_s + 100
    index = learner.since_optimized(100)
    assert index is not None
    assert 0 < len(index) < (learner.trials.partition == 100).sum() / 2
    assert (learner.time_s[index] > preset.modified_s).all()
    assert log.entries is not None
    assert set(learner.time_s) <= set(log.entries.time_ms / 1000)
