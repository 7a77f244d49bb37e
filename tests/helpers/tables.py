"""Tables of reviews as people write them."""

from __future__ import annotations


def format_log() -> str:
    """Return a CSV file of 900 reviews of 40 cards; every seventh was forgotten."""
    lines = ["card_id,review_rating,review_time"]
    for k in range(900):
        rating = 1 if k % 7 == 0 else 3
        lines.append(f"{k % 40},{rating},{1_700_000_000_000 + k * 9_000_000}")
    return "\n".join(lines) + "\n"
