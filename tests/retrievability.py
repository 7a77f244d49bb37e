"""A cache of predictions as JSchoreels' fork of Anki keeps it, by its description."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path

RWKV = "search_stats_rwkv_review_retrievability"
FSRS = "search_stats_fsrs_review_retrievability"
Row = tuple[int, float, str, int, str, int]
SCHEMA = "revlog_id, prediction, source, updated_at, sample_role, fold_index"
_ROLES = "'final_fit', 'test_fold', 'validation_fold', 'post_optimization'"
_FORK_SCHEMA = "; ".join(
    f"create table {table} (revlog_id integer not null, prediction real not null "
    "check (prediction >= 0 and prediction <= 1), source text not null, "
    "updated_at integer not null, sample_role text not null default 'final_fit' "
    f"check (sample_role in ({_ROLES})), fold_index integer not null default -1, "
    "primary key (revlog_id, sample_role, fold_index, source))"
    for table in (RWKV, FSRS)
)


def make_cache(
    collection: Path, tables: Mapping[str, Iterable[Row]], schema: str = _FORK_SCHEMA
) -> Path:
    """Write a cache beside a collection, with rows (id, p, source, time, role, fold) by table."""
    path = collection.with_suffix(".retrievability-cache.sqlite")
    with closing(sqlite3.connect(path)) as database:
        database.executescript(schema)
        for table, rows in tables.items():
            database.executemany(f"insert into {table} values (?, ?, ?, ?, ?, ?)", rows)
        database.commit()
    return path
