"""The presets' own parameters as a model: as Anki runs them, without a rank where in-sample."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

import srs_eval
from srs_eval.data.errors import InputError, NotEnoughData
from srs_eval.data.protocol import Protocol
from srs_eval.data.reviews import ReviewLog
from srs_eval.engine.ranking import (
    RankedResult,
    add_own_parameters,
    own_scheduler,
    rank_results,
)
from srs_eval.engine.session import LearnerSession
from srs_eval.models import fsrs4, fsrs6
from srs_eval.models.configurations import Configuration, resolve_configurations
from srs_eval.models.own_parameters import (
    is_available_in_anki,
    make_table_remarks,
    normalize_as_anki,
    version_name,
)
from srs_eval.report.console import render_inspection
from srs_eval.report.inspection import inspect_log
from srs_eval.report.ranking_words import describe_standing, list_sections, summarize_ranking
from srs_eval.training.hyperparameters import Context
from tests.tui.app_world import make_result
from tools.simulated import simulate_learner, write_collection

(OWN,) = resolve_configurations("your parameters")
MINE = tuple(np.array(fsrs6.DEFAULT) * 1.03)


def find_largest_preset(log: ReviewLog) -> int:
    """Return the preset with the most entries."""
    assert log.entries is not None
    presets, count = np.unique(log.preset_of(log.deck_of(log.entries.card_id)), return_counts=True)
    return int(presets[count.argmax()])


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> ReviewLog:
    """Load a learner with parameters of FSRS-5 in the preset with most reviews, none in others."""
    path = tmp_path_factory.mktemp("learner") / "collection.anki2"
    write_collection(simulate_learner(5, 2_000), path)
    loaded = srs_eval.load(path)
    largest = find_largest_preset(loaded)
    presets = {
        key: replace(
            preset, fsrs_parameters={5: MINE[:19]} if key == largest else {}, modified_s=None
        )
        for key, preset in loaded.presets.items()
    }
    import_summary = replace(loaded.import_summary, fsrs_enabled=True)
    return replace(loaded, presets=presets, import_summary=import_summary, optimized_before_s=None)


def test_run_marks_its_kernels_as_compiled(log: ReviewLog, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[Configuration] = []
    monkeypatch.setattr("srs_eval.engine.session.mark_compiled", compiled.append)
    LearnerSession(log).run(OWN)
    assert compiled == [OWN]


def test_predictions_use_each_presets_parameters(log: ReviewLog) -> None:
    session = LearnerSession(log)
    result = session.run(OWN, use_cache=True)
    trials = session.trials(OWN.protocol)
    index = trials.test_index
    first = find_largest_preset(log)
    expected = np.where(
        trials.partition[index] == first,
        fsrs6.predict(trials, normalize_as_anki(MINE[:19]), index, Context()),
        fsrs6.predict(trials, list(fsrs6.DEFAULT), index, Context()),
    )
    assert np.array_equal(result.p, expected)
    assert result.parameters == {first: normalize_as_anki(MINE[:19])}
    (fitted,) = resolve_configurations("FSRS-6-dry-run")
    assert np.array_equal(session.run(fitted).review_th, result.review_th)


def test_in_sample_reviews_are_counted_and_noted(log: ReviewLog) -> None:
    """Count as held out the reviews after the preset's last change and those of default presets."""
    session = LearnerSession(log)
    trials = session.trials(OWN.protocol)
    index = trials.test_index
    first = find_largest_preset(log)
    of_first = trials.partition[index] == first
    assert session.run(OWN).in_sample_reviews == of_first.sum() > 0
    assert log.entries is not None
    entry = session.selection(OWN.protocol).entry_index[trials.review_th[index] - 1]
    time_s = log.entries.time_ms[entry] / 1000
    changed = int(np.median(time_s))
    preset = replace(log.presets[first], modified_s=changed)
    later = replace(log, presets={**log.presets, first: preset})
    partly_seen = LearnerSession(later).run(OWN)
    assert partly_seen.in_sample_reviews == (of_first & (time_s <= changed)).sum() < of_first.sum()
    assert any("makes the log loss look" in note for note in partly_seen.notes)
    before = replace(preset, modified_s=int(time_s.min()) - 1)
    fair = LearnerSession(replace(log, presets={**log.presets, first: before})).run(OWN)
    assert fair.in_sample_reviews == 0
    assert not any("makes the log loss look" in note for note in fair.notes)


def test_in_sample_result_has_no_rank_and_changes_no_other() -> None:
    """Rank an in-sample result with the lowest log loss: the best fair one stays the best."""
    names = ("AVG", "DASH", "FSRS-6", "FSRS-6-recency")
    fair = [(resolve_configurations(name)[0], make_result(name)) for name in names]
    best = make_result("FSRS-6-recency")
    perfect = replace(best, p=np.where(best.y > 0, 0.99, 0.01), in_sample_reviews=10)
    perfect = replace(perfect, metrics=replace(perfect.metrics, log_loss=0.01005))
    (without,) = rank_results(fair)
    (group,) = rank_results([*fair, (OWN, perfect)])
    own_line = next(line for line in group.lines if line.configuration is OWN)
    assert (own_line.rank, own_line.standing, describe_standing(own_line)) == (
        None,
        None,
        "in-sample",
    )
    assert own_line.to_best is not None
    assert own_line.to_best.estimate < 0
    assert group.best is not None
    assert group.best.configuration.name == "FSRS-6-recency"
    assert group.baseline is not None
    assert group.baseline.configuration.is_baseline
    standings = {line.configuration.name: (line.rank, line.standing) for line in group.lines}
    del standings["FSRS-6-own"]
    assert standings == {
        line.configuration.name: (line.rank, line.standing) for line in without.lines
    }
    listed: list[RankedResult] = []
    for _, lines in list_sections(group):
        listed += lines
    assert [line for line in listed if line is own_line] == [own_line]
    assert "your parameters" not in summarize_ranking(group)
    (evaluated,) = rank_results([*fair, (OWN, replace(perfect, in_sample_reviews=0))])
    assert evaluated.best is not None
    assert evaluated.best.configuration is OWN


def test_own_parameters_join_fsrs_when_a_preset_has_some(log: ReviewLog) -> None:
    fsrs = resolve_configurations("FSRS-6")
    dash = resolve_configurations("DASH")
    assert own_scheduler(log) == "FSRS-6-own"
    assert [configuration.name for configuration in add_own_parameters(fsrs, log, Protocol())] == [
        "FSRS-6-own",
        "FSRS-6",
    ]
    assert add_own_parameters(dash, log, Protocol()) == dash
    bare = {key: replace(preset, fsrs_parameters={}) for key, preset in log.presets.items()}
    defaults = replace(log, presets=bare)
    learner = resolve_configurations("learner")
    assert OWN.name in [configuration.name for configuration in learner]
    assert OWN.name not in [
        configuration.name for configuration in add_own_parameters(learner, defaults, Protocol())
    ]
    with pytest.raises(NotEnoughData, match="contains no FSRS parameters"):
        LearnerSession(defaults).run(OWN)


def test_own_parameters_are_fitted_to_presets_only() -> None:
    assert (OWN.name, OWN.words, OWN.protocol.partitions) == (
        "FSRS-6-own",
        "your parameters",
        "preset",
    )
    assert (
        resolve_configurations("FSRS-6-own", Protocol(partitions="deck", recency=True))[0].name
        == OWN.name
    )
    for name in ("FSRS-6-own-deck", "FSRS-5-own", "DASH-own"):
        with pytest.raises(InputError, match="makes no sense"):
            resolve_configurations(name)


def test_version_of_17_parameters_is_fsrs_4_5_everywhere(log: ReviewLog) -> None:
    """Check the name in the import summary and in answers."""
    old = {4: fsrs4._DEFAULT_V45}
    presets = {key: replace(preset, fsrs_parameters=old) for key, preset in log.presets.items()}
    import_summary = io.StringIO()
    of_old = inspect_log(replace(log, presets=presets))
    Console(width=120, file=import_summary).print(render_inspection(of_old))
    assert version_name(fsrs4._DEFAULT_V45) == "FSRS-4.5"
    assert (
        import_summary.getvalue().count("FSRS-4") == import_summary.getvalue().count("FSRS-4.5") > 0
    )


def test_is_available_in_anki_by_configuration() -> None:
    usable = {
        configuration.name
        for configuration in resolve_configurations("all,your parameters,Anki-SM-2")
        if is_available_in_anki(configuration)
    }
    assert {"FSRS-6", "FSRS-6-recency", "FSRS-5", "FSRS-4.5", "FSRS-rs", "Anki-dry-run"} < usable
    assert not usable & {"FSRS-7-short-secs-recency", "FSRS-6-deck", "FSRS-6-binary", "Anki", "AVG"}
    assert make_table_remarks(resolve_configurations("FSRS-5,FSRS-7")) == [
        "✓ Anki can use FSRS-5 (from 24.11).",
        "Fitted on intervals in seconds: FSRS-7.",
    ]
