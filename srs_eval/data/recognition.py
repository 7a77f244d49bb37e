"""Recognise a person by their reviews, even under another number or in a later export.

Weights are not evaluated on the people that they were trained on. The weights file stores a sketch
of each person: the `_SKETCH_SIZE` smallest hashes of all their reviews (Broder 1997, "On the
resemblance and containment of documents"). Later reviews, reset or deleted cards, another time zone
and a selection of decks leave most hashes of the other reviews as they are.

A hash is 32 bits of SHA-256, and thousands of possible reviews share each: a sketch does not reveal
how a person answered.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from srs_eval.data.days import DAY_S
from srs_eval.data.reviews import FILTERED, Entries, IntArray, ReadOnly, ReviewLog, mark_run_starts
from srs_eval.data.rows import select_rows

Hashes = NDArray[np.uint32]

_SKETCH_SIZE = 64
_MIN_SHARED_FRACTION = 0.5  # of the hashes that one person would have in a sketch
_MIN_SHARED_HASHES = 4  # two strangers may have a review or two in common
_MIN_CHAIN_INTERVALS = 2  # intervals above 0; shorter chains depend on settings that many share
_HIGHEST_HASH = np.iinfo(np.uint32).max

_hashes_of_logs: WeakKeyDictionary[ReviewLog, Hashes] = WeakKeyDictionary()
"""A cache, because each model and each weights file asks for the same log."""


# Hashes of reviews


def review_hashes(log: ReviewLog) -> Hashes:
    """Compute the hashes of a person's reviews, ascending and without duplicates.

    A review is hashed by the seconds since the card's previous review, the rating and the
    milliseconds that the answer took, so that neither ids nor day numbers matter. If a source lacks
    seconds or these milliseconds, single reviews are too similar; then all intervals and ratings of
    the card up to the review are hashed together. A card's first review is not hashed. In entries
    all answers count, even answers before a card was reset, which `select_rows` leaves out.
    """
    if log not in _hashes_of_logs:
        _hashes_of_logs[log] = _compute_hashes(log)
    return _hashes_of_logs[log]


def _compute_hashes(log: ReviewLog) -> Hashes:
    if log.entries is None:
        rows = select_rows(log).rows
        card_id = rows.card_id
        rating = rows.rating
        duration_ms = rows.duration_ms
        elapsed_s = rows.elapsed_seconds
    else:
        answers = _find_answers(log.entries)
        card_id = log.entries.card_id[answers]
        rating = log.entries.rating[answers]
        duration_ms = log.entries.duration_ms[answers]
        elapsed_s = _elapsed_seconds(card_id, log.entries.time_ms[answers])
    has_seconds = bool((elapsed_s[elapsed_s > 0] % DAY_S).any())  # else intervals are whole days
    if has_seconds and duration_ms.any():
        is_later = elapsed_s >= 0
        reviews = np.stack([elapsed_s[is_later], rating[is_later], duration_ms[is_later]], axis=1)
        hashes = [_hash(review.tobytes()) for review in reviews.astype("<i8")]
    else:
        hashes = _hash_chains(card_id, elapsed_s, rating)
    return np.unique(np.array(hashes, np.uint32))


def _find_answers(entries: Entries) -> IntArray:
    """Return the positions of the answers, without previews: those that `select_rows` may keep."""
    is_answer = (entries.rating >= 1) & (entries.rating <= 4)
    is_preview = (entries.kind == FILTERED) & (entries.factor == 0)
    return np.flatnonzero(is_answer & ~is_preview)


def _elapsed_seconds(card_id: IntArray, time_ms: IntArray) -> IntArray:
    """Compute the seconds since each card's previous answer, -1 for its first (shape of both)."""
    by_card = np.argsort(card_id, kind="stable")
    elapsed_s = np.diff(time_ms[by_card], prepend=0) // 1000
    elapsed_s[mark_run_starts(card_id[by_card])] = -1
    in_original_order = np.empty_like(elapsed_s)
    in_original_order[by_card] = elapsed_s
    return in_original_order


def _hash_chains(card_id: IntArray, elapsed_s: IntArray, rating: IntArray) -> list[int]:
    """Hash each review together with all reviews of its card before it.

    Reviews whose chain has fewer than `_MIN_CHAIN_INTERVALS` intervals above 0 are left out.
    """
    chain_of = dict[int, bytes]()  # by card: the hash of all its reviews so far
    interval_count_of = dict[int, int]()
    hashes = []
    columns = zip(card_id.tolist(), elapsed_s.tolist(), rating.tolist(), strict=True)
    for card, elapsed, card_rating in columns:
        previous_chain = chain_of.get(card, b"")
        chain_of[card] = hashlib.sha256(previous_chain + b"%d %d" % (elapsed, card_rating)).digest()
        interval_count_of.setdefault(card, 0)
        if elapsed > 0:
            interval_count_of[card] += 1
        if interval_count_of[card] >= _MIN_CHAIN_INTERVALS:
            hashes.append(_hash(chain_of[card]))
    return hashes


def _hash(content: bytes) -> int:
    return int.from_bytes(hashlib.sha256(content).digest()[:4], "little")


# Sketches of people


def sketch_of(log: ReviewLog) -> str:
    """Return the sketch of a person as text, up to 344 letters of base64."""
    smallest = review_hashes(log)[:_SKETCH_SIZE]
    return base64.b64encode(smallest.astype("<u4").tobytes()).decode("ascii")


@dataclass(frozen=True, eq=False)
class Sketches(ReadOnly):
    """Sketches of k people, one after another."""

    hashes: Hashes  # (n,)
    person: IntArray  # (n,) the person of each hash: 0 ... k - 1
    highest: Hashes  # (k,) hashes above this are not in the sketch, even if the person has them

    @staticmethod
    def of(texts: Iterable[str]) -> Sketches:
        """Read sketches from their texts (`sketch_of`). Raises ValueError if one is damaged."""
        sketches = [np.frombuffer(base64.b64decode(text, validate=True), "<u4") for text in texts]
        sizes = [len(sketch) for sketch in sketches]
        highest = []
        for sketch in sketches:
            is_full = len(sketch) >= _SKETCH_SIZE
            highest.append(sketch.max() if is_full else _HIGHEST_HASH)
        return Sketches(
            hashes=np.concatenate([np.empty(0, np.uint32), *sketches]).astype(np.uint32),
            person=np.repeat(np.arange(len(sketches)), sizes),
            highest=np.array(highest, np.uint32),
        )

    def recognise(self, log: ReviewLog) -> bool:
        """Return whether the log belongs to one of these people.

        It does if at least half of the hashes in a person's sketch, and at least four, occur in the
        log. A log of a few decks or of an earlier time may have fewer hashes in the sketch's range
        than the sketch has; then half of the log's hashes must be in the sketch.
        """
        hashes = review_hashes(log)
        is_shared = np.isin(self.hashes, hashes)
        shared = np.bincount(self.person[is_shared], minlength=len(self.highest))
        sizes = np.bincount(self.person, minlength=len(self.highest))
        log_counts = np.searchsorted(hashes, self.highest, side="right")  # in the sketches' ranges
        needed = np.maximum(
            _MIN_SHARED_FRACTION * np.minimum(sizes, log_counts), _MIN_SHARED_HASHES
        )
        return bool((shared >= needed).any())
