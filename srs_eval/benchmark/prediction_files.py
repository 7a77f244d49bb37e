"""Every prediction of a batch, for whoever wants to compute something else from them.

`raw_parquet` and `raw_table` have the same rows, one for each judged review, fold after fold.
"""

from __future__ import annotations

import io

import numpy as np

from srs_eval.engine.results import Result
from srs_eval.engine.session import Session
from srs_eval.models.configurations import Configuration


def raw_parquet(session: Session, configuration: Configuration, user: int, result: Result) -> bytes:
    """A parquet file.

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


def raw_table(session: Session, configuration: Configuration, user: int, result: Result) -> bytes:
    """Text separated by tabs, with the column names of srs-benchmark's `--file`.

    card_id, review_th, i (number among the card's reviews on later days), rating, elapsed_days,
    delta_t (in days), t_history and r_history (intervals and ratings before, with commas),
    first_rating, partition, fold, y, p. Of upstream's columns (srs-benchmark: script.py,
    `save_evaluation_file`) those are left out that only some models have, such as stability.
    """
    trials = session.trials(configuration.protocol)
    order = np.argsort(trials.review_th, kind="stable")
    place = order[np.searchsorted(trials.review_th, result.review_th, sorter=order)]
    starts, ends = trials.history_start[place].tolist(), trials.history_end[place].tolist()
    days = trials.history_delta_t.tolist()
    intervals = [f"{each:.6g}" for each in days]
    ratings = [str(each) for each in trials.history_rating.tolist()]
    columns = {
        "card_id": trials.card_id[place],
        "review_th": result.review_th,
        "i": trials.i[place],
        "rating": trials.rating[place],
        "elapsed_days": trials.elapsed_days[place],
        "delta_t": [f"{each:.6g}" for each in trials.delta_t[place].tolist()],
        "t_history": [",".join(intervals[a:b]) for a, b in zip(starts, ends, strict=True)],
        "r_history": [",".join(ratings[a:b]) for a, b in zip(starts, ends, strict=True)],
        "first_rating": trials.first_rating[place],
        "partition": result.partition,
        "fold": result.fold,
        "y": result.y.astype(int),
        "p": [repr(each) for each in result.p.tolist()],
    }
    lines = ["\t".join(columns)]
    lines += ["\t".join(map(str, line)) for line in zip(*columns.values(), strict=True)]
    return "".join(f"{line}\n" for line in lines).encode()
