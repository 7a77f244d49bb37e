"""Logs of several people as a data set in the layout of anki-revlogs-10k; its ids say nothing."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from srs_eval.data.datasets import ROW_COLUMNS
from srs_eval.data.errors import InputError, csv_text, printable
from srs_eval.data.paths import check_outputs
from srs_eval.data.reviews import MISSING, IntArray, ReviewLog
from srs_eval.data.rows import select_rows


def make_dataset(logs: Iterable[tuple[Path, ReviewLog]], out: Path) -> tuple[int, Path]:
    """Write the logs of some files as users 1, 2 ... of a new folder; reviews, and a mapping file.

    The mapping file lies beside the folder, as OUT-mapping.csv: each user's file, and what the
    numbers of cards, notes, decks and presets stand for. Raises InputError where either is there
    already, where a file cannot be used, and where two hold the same reviews; then nothing is left.
    """
    mapping = out.with_name(f"{out.name}-mapping.csv")
    for path in (out, mapping):
        if os.path.lexists(path):
            raise InputError(f'"{path}" is there already: name a new folder with --out.')
    check_outputs([mapping])
    lines: list[tuple[object, ...]] = [("user", "kind", "number", "original")]
    seen, reviews = dict[str, Path](), 0
    try:
        with tempfile.TemporaryDirectory(dir=out.parent, prefix=".srs-eval-") as place:
            made = Path(place, "made")
            for user, (path, log) in enumerate(logs, start=1):
                same = seen.setdefault(log.fingerprint(), path)
                if len(seen) < user:
                    raise InputError(
                        f'"{printable(path)}" and "{printable(same)}" hold the same reviews: '
                        "leave one of them out."
                    )
                lines.append((user, "file", None, str(path)))
                written, known = write_user(made, user, log)
                if not written:
                    raise InputError(
                        f'"{printable(path)}" has no review that counts: leave it out.'
                    )
                reviews += written
                for kind, ids in known.items():
                    lines += ((user, kind, number, each) for number, each in enumerate(ids))
            Path(place, "mapping").write_text(csv_text(lines), encoding="utf-8")
            Path(place, "mapping").rename(mapping)
            made.rename(out)
    except OSError as error:
        raise InputError(f'"{out}" cannot be written ({error.strerror or error}).') from None
    return reviews, mapping


def write_user(folder: Path, user: int, log: ReviewLog) -> tuple[int, Mapping[str, list[int]]]:
    """Write `{revlogs,cards,decks}/user_id=N/data.parquet`; reviews, what 0, 1, 2 ... stand for.

    Rows are chosen by the data-set builder's rule (`data.rows`), and no moment, name or setting is
    written. As there, filtered decks are left out and a deck without a parent has parent -1.
    """
    import pyarrow
    import pyarrow.parquet

    rows = select_rows(log, "benchmark").rows
    decks = ((d.id, d.parent_id, d.preset_id) for d in log.decks.values() if not d.filtered)
    told = [[MISSING if each is None else each for each in deck] for deck in decks]
    columns = np.array(told, np.int64).reshape(-1, 3).T
    tables: dict[str, dict[str, IntArray]] = {
        "revlogs": dict(zip(ROW_COLUMNS, vars(rows).values(), strict=False)),
        "cards": {name: getattr(log.cards, name) for name in ("card_id", "note_id", "deck_id")},
        "decks": dict(zip(("deck_id", "parent_id", "preset_id"), columns, strict=True)),
    }
    known = {}
    for kind in ("card", "note", "deck", "preset"):
        ids = [
            (table, name)
            for table in tables.values()
            for name in table
            if name == f"{kind}_id" or (kind, name) == ("deck", "parent_id")
        ]
        found = np.unique(np.concatenate([table[name] for table, name in ids]))
        found = found[found != MISSING]
        for table, name in ids:
            number = np.searchsorted(found, table[name])
            table[name] = np.where(table[name] == MISSING, MISSING, number)
        known[kind] = found.tolist()
    for name, table in tables.items():
        if name == "revlogs" or log.knows_decks:
            target = folder / name / f"user_id={user}"
            target.mkdir(parents=True, exist_ok=True)
            pyarrow.parquet.write_table(pyarrow.table(table), target / "data.parquet")
    return len(rows), known
