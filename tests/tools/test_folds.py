"""Check that the drawings of docs/protocol.md are today's, and draw the protocol's folds."""

from __future__ import annotations

import re
from collections import Counter

from srs_eval.data.protocol import Protocol
from srs_eval.data.trials import prepare_trials
from tests.conftest import REPOSITORY
from tests.helpers.golden import golden_log
from tools.folds import FOLDS, PART_WIDTH, draw_folds, draw_splits, draw_users

DOCS = REPOSITORY / "docs"


def test_drawings_in_the_docs_are_what_the_script_draws() -> None:
    assert (DOCS / "folds.svg").read_text(encoding="utf-8") == draw_folds()
    assert (DOCS / "splits.svg").read_text(encoding="utf-8") == draw_splits()
    assert (DOCS / "users.svg").read_text(encoding="utf-8") == draw_users()


def test_drawing_evaluates_each_part_of_users_once() -> None:
    bars = re.findall(r'<rect class="(\w+)" x="(\d+)" y="(\d+)"', draw_users())
    evaluated = [(x, y) for kind, x, y in bars if kind == "predicted"]
    assert len({x for x, _ in evaluated}) == len({y for _, y in evaluated}) == FOLDS
    assert len(bars) == FOLDS * FOLDS


def test_drawing_shows_the_folds_of_the_protocol() -> None:
    log = golden_log(102)
    assert log.rows is not None
    folds = prepare_trials(log, log.rows, Protocol()).folds
    bars = re.findall(r'<rect class="(\w+)" x="\d+" y="\d+" width="(\d+)"', draw_folds())
    fitted = [round(int(width) / PART_WIDTH) for kind, width in bars if kind == "fitted"]
    part = len(folds[0].test)
    assert fitted == [len(fold.train) // part for fold in folds]
    counts = Counter(kind for kind, _ in bars)
    assert counts == {"fitted": len(folds), "predicted": len(folds), "later": 10}
