"""Presets as two forks of Anki store them, from the numbers of their proto files.

JSchoreels/anki proto/anki/deck_config.proto: fsrs_params_7 52, fsrs_version 53, other 255;
FsrsVersion is 0 for seven, 1 six, 2 five, 3 four. Expertium/Clanki docs/fsrs-presets.MD: keys of
`other`, and the collection's `fsrsPresetOverlay`.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from srs_eval.anki_import import load_log
from srs_eval.data.reviews import Preset, ReviewLog
from srs_eval.models import fsrs7
from srs_eval.models.own_parameters import find_preset_fault, preset_parameters, why_replaced
from srs_eval.report.console import render_inspection
from srs_eval.report.inspection import inspect_log
from tests.helpers.anki_files import PARAMETERS, field, make_collection, plain_history

SEVEN = tuple(float(f"{value * 1.01:.4f}") for value in fsrs7.DEFAULT)
PREVIEW = (*SEVEN, 0.5)  # 35 numbers of a draft
SIX = field(6, PARAMETERS)
FIVE = field(5, PARAMETERS[:19])


def encode_other(**keys: Any) -> bytes:
    return field(255, json.dumps(keys).encode())


def encode_fork(**fields: Any) -> bytes:
    return encode_other(**{"jschoreels.fsrs": fields})


def load_with_preset(preset: bytes, folder: Path, **config: Any) -> ReviewLog:
    path = make_collection(
        folder / "collection.anki2", entries=plain_history(), preset=preset, config=config
    )
    return load_log(path)


def load_preset(preset: bytes, folder: Path, **config: Any) -> Preset:
    return load_with_preset(preset, folder, **config).presets[5]


@pytest.mark.parametrize(
    ("preset", "in_force", "runs_fsrs7"),
    [
        (SIX + field(52, SEVEN), SEVEN, True),  # older builds: version 7 is 0, which is not written
        (SIX + field(52, SEVEN) + field(53, 1), PARAMETERS, False),
        (SIX + FIVE + field(52, SEVEN) + field(53, 2), PARAMETERS[:19], False),
        (SIX + encode_fork(fsrs_params_7=SEVEN), SEVEN, True),
        (SIX + encode_fork(fsrs_params_7=SEVEN, fsrs_version=1), PARAMETERS, False),
        # the key goes first
        (SIX + field(52, PREVIEW) + encode_fork(fsrs_params_7=SEVEN), SEVEN, True),
        (SIX + field(52, SEVEN) + encode_fork(fsrs_version=1), PARAMETERS, False),
        (SIX + field(52, PREVIEW), PARAMETERS, False),  # unusable: the newest usable list
        (FIVE + encode_fork(fsrs_params_7=[1.0, 2.0]), PARAMETERS[:19], False),
        # there is no FSRS-4.5 list
        (SIX + encode_fork(fsrs_params_7=SEVEN, fsrs_version=3), SEVEN, True),
        (field(52, PREVIEW), (), True),  # nothing usable: FSRS-7's defaults
        (encode_other(**{"jschoreels.rwkv": {"rwkv_review_enabled": True}}), (), True),
        (SIX, PARAMETERS, False),  # Anki itself
        (b"", (), False),
        (SIX + field(53, 1), PARAMETERS, False),
        (SIX + encode_other(addon={"fsrs_params_7": SEVEN}), PARAMETERS, False),
        (SIX + field(255, b"{damaged"), PARAMETERS, False),
        (SIX + field(52, b"abc"), PARAMETERS, False),  # another use of the field by Anki
        (SIX + field(52, 7), PARAMETERS, False),
    ],
)
def test_active_parameters_are_those_that_the_fork_runs(
    preset: bytes, in_force: tuple[float, ...], runs_fsrs7: bool, tmp_path: Path
) -> None:
    loaded = load_preset(preset, tmp_path)
    assert loaded.active_parameters == pytest.approx(in_force)
    assert loaded.runs_fsrs7 == runs_fsrs7
    assert find_preset_fault(loaded) == ""
    if runs_fsrs7:
        assert preset_parameters(loaded) == pytest.approx(in_force or fsrs7.DEFAULT)


@pytest.mark.parametrize(
    ("keys", "in_force"),
    [
        ({"fsrsParams7": SEVEN}, SEVEN),
        ({"fsrsParams7": SEVEN, "fsrsVersion": 1}, PARAMETERS),
        ({"jschoreels.fsrs": {"fsrs_params_7": SEVEN}}, SEVEN),
        ({"jschoreels.fsrs": {"fsrs_params_7": SEVEN, "fsrs_version": 1}}, PARAMETERS),
        ({"other": {"jschoreels.fsrs": {"fsrs_params_7": SEVEN}}}, SEVEN),
        ({"jschoreels.fsrs": "nothing", "fsrsParams7": "nothing"}, PARAMETERS),
        ({"other": ["nothing"]}, PARAMETERS),
    ],
)
@pytest.mark.parametrize("schema", [11, 14])
def test_forks_settings_are_read_from_json(
    keys: dict[str, Any], in_force: tuple[float, ...], schema: int, tmp_path: Path
) -> None:
    path = make_collection(tmp_path / "collection.anki2", schema=schema, entries=plain_history())
    with closing(sqlite3.connect(path)) as connection:
        connection.create_collation("unicase", lambda a, b: (a > b) - (a < b))
        if schema == 11:
            (content,) = connection.execute("select dconf from col").fetchone()
            presets = json.loads(content)
            presets["5"] |= keys
            connection.execute("update col set dconf = ?", (json.dumps(presets),))
        else:
            query = "select config from deck_config where id = 5"
            (content,) = connection.execute(query).fetchone()
            changed = json.dumps(json.loads(content) | keys).encode()
            connection.execute("update deck_config set config = ? where id = 5", (changed,))
        connection.commit()
    assert load_log(path).presets[5].active_parameters == pytest.approx(in_force)


@pytest.mark.parametrize(
    ("preset", "in_force"),
    [
        (SIX, ()),
        (SIX + encode_fork(fsrs_params_7=SEVEN, fsrs_version=1), SEVEN),
        (SIX + encode_fork(fsrs_params_7=PREVIEW), ()),
    ],
)
def test_clanki_runs_fsrs7_only(preset: bytes, in_force: tuple[float, ...], tmp_path: Path) -> None:
    loaded = load_preset(preset, tmp_path, schedulingAlgorithm="fsrs7")
    assert loaded.active_parameters == pytest.approx(in_force)
    assert loaded.runs_fsrs7
    assert preset_parameters(loaded) == pytest.approx(in_force or fsrs7.DEFAULT)


@pytest.mark.parametrize(
    ("values", "fault"),
    [
        (SEVEN[:33], "33 FSRS-7 parameters (34 are needed)"),
        ((*SEVEN[:33], float("nan")), "FSRS-7 parameters (not all are finite numbers)"),
    ],
)
@pytest.mark.parametrize(
    ("older_lists", "config", "instead"),
    [
        (SIX, {}, "its FSRS-6 parameters"),
        (FIVE, {}, "its FSRS-5 parameters"),
        (b"", {}, "FSRS-7's defaults"),
        (SIX, {"schedulingAlgorithm": "fsrs7"}, "FSRS-7's defaults"),
    ],
)
def test_unusable_fsrs7_list_gets_a_note(
    values: tuple[float, ...],
    fault: str,
    older_lists: bytes,
    config: dict[str, Any],
    instead: str,
    tmp_path: Path,
) -> None:
    log = load_with_preset(older_lists + field(52, values), tmp_path, **config)
    sentence = (
        f"Own: your Anki cannot use its {fault} and uses {instead} instead; optimize "
        "the preset in Anki."
    )
    assert why_replaced(log) == {5: sentence}
    assert sentence in inspect_log(log).notes
    in_force = log.presets[5].active_parameters
    assert len(in_force) in (0, 19, 21)
    assert in_force != values
    off = replace(log, import_summary=replace(log.import_summary, fsrs_enabled=False))
    assert why_replaced(off) == {}


def test_list_that_the_fork_does_not_run_gets_no_note(tmp_path: Path) -> None:
    log = load_with_preset(SIX + field(52, SEVEN[:33]) + field(53, 1), tmp_path)
    assert why_replaced(log) == {}
    (tmp_path / "anki").mkdir()
    assert why_replaced(load_with_preset(SIX, tmp_path / "anki")) == {}


def test_rwkv_of_clanki_gets_a_note(tmp_path: Path) -> None:
    (note,) = load_with_preset(SIX, tmp_path, schedulingAlgorithm="rwkvCurve").import_summary.notes
    assert note.startswith("Clanki schedules this collection by RWKV-Curve;")


def test_one_fsrs7_preset_marks_all_presets_as_the_forks(tmp_path: Path) -> None:
    log = load_with_preset(SIX + field(52, SEVEN), tmp_path)
    assert log.presets[1].runs_fsrs7  # nothing is stored in it
    assert log.presets[1].active_parameters == ()


@pytest.mark.parametrize(("desired", "expected"), [(0.5, 0.5), (0.05, 0.9), (0.85, 0.85)])
def test_forks_allow_a_lower_desired_retention(
    desired: float, expected: float, tmp_path: Path
) -> None:
    loaded = load_preset(field(52, SEVEN) + field(37, desired), tmp_path)
    assert loaded.desired_retention == expected
    (tmp_path / "anki").mkdir()
    of_anki = load_preset(SIX + field(37, desired), tmp_path / "anki")
    assert of_anki.desired_retention == (0.85 if desired == 0.85 else 0.9)


# Rules for single cards


def make_overlay(*rules: dict[str, str], presets: Any = None) -> dict[str, Any]:
    medical = {"id": "addon:example:medical", "name": "Medical", "params": SEVEN}
    return {"presets": [medical] if presets is None else presets, "rules": list(rules)}


TO_MEDICAL = {"search": "tag:medical", "preset_id": "addon:example:medical"}
TO_NOTHING = {"search": "tag:medical", "preset_id": "addon:example:nothing"}


@pytest.mark.parametrize(
    ("stored_overlay", "rules"),
    [
        (make_overlay(TO_MEDICAL), 1),
        (make_overlay(TO_MEDICAL, TO_MEDICAL), 2),
        (make_overlay(), 0),
        (make_overlay(TO_MEDICAL, TO_NOTHING), 0),  # forks refuse it as a whole
        (make_overlay(TO_MEDICAL, presets=["nothing"]), 0),
        ({"presets": [], "rules": "nothing"}, 0),
        ({"presets": {}, "rules": [[]]}, 0),
        (["nothing"], 0),
    ],
)
def test_rules_for_single_cards_are_counted(
    stored_overlay: Any, rules: int, tmp_path: Path
) -> None:
    log = load_with_preset(SIX, tmp_path, fsrsPresetOverlay=stored_overlay)
    assert log.card_rule_count == rules
    notes = [note for note in log.import_summary.notes if "fsrsPresetOverlay" in note]
    assert len(notes) == min(rules, 1)


def test_rules_are_mentioned_where_presets_are_shown(tmp_path: Path) -> None:
    log = load_with_preset(
        SIX + field(52, SEVEN), tmp_path, fsrsPresetOverlay=make_overlay(TO_MEDICAL)
    )
    inspection = inspect_log(log)
    assert inspection.to_document()["card_rules"] == 1
    (preset,) = (preset for preset in inspection.presets if preset.name == "Own")
    assert (preset.parameters_version, preset.stored_versions) == (7, (6, 7))
    assert preset.version_label == "FSRS-7"
    output = StringIO()
    Console(width=100, file=output).print(render_inspection(inspection, 100))
    text = " ".join(output.getvalue().split())
    assert "FSRS-7 defaults" in text  # the other preset
    assert "1 rule of an add-on gives individual cards other FSRS parameters" in text
    assert "gives every card the parameters of its deck's preset" in text
