"""Every prediction of a batch, for whoever wants to compute something else from them."""

from __future__ import annotations

import io

from srs_eval.configurations import Configuration
from srs_eval.engine import Session
from srs_eval.results import Result


def raw_parquet(session: Session, configuration: Configuration, user: int, result: Result) -> bytes:
    """A parquet file with one row for each judged review, fold after fold.

    Columns: user, review_th (1-based position among the user's rows), card_id, deck_id, preset_id
    (-1 where the source does not tell), day (of the data set's count), fold (1 ...), p, y,
    configuration.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = session.rows(configuration.protocol)
    card = rows.card_id[result.review_th - 1]
    deck = session.log.deck_of(card)
    count = len(result.p)
    table = pa.table(
        {
            "user": pa.repeat(pa.scalar(user, pa.int64()), count),
            "review_th": result.review_th,
            "card_id": card,
            "deck_id": deck,
            "preset_id": session.log.preset_of(deck),
            "day": result.day,
            "fold": result.fold.astype("int8"),
            "p": result.p,
            "y": result.y.astype("int8"),
            "configuration": pa.repeat(configuration.name, count).dictionary_encode(),
        }
    )
    out = io.BytesIO()
    pq.write_table(table, out, compression="zstd")
    return out.getvalue()
