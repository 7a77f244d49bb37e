"""What a desired retention costs: scheduler x memory x habits, day by day.

`estimate.workload` answers, better and better; `answers` puts it into words. It plays a preset's
cards forward: `simulator` for one course of events, `kernel` is its compiled loop. What goes in are
a `Deck` (today's cards: `today`), `Costs` (what answers cost and which buttons are pressed:
`habits`), `Settings` (the question) and one or two `Memory`: the one that decides on intervals and,
where the model may be wrong, the one that answers are drawn from. `draws` tells which other
parameters the learner's reviews allow, `preview` what the buttons would give.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from srs_eval.workload.estimate import Question, Workload, workload

__all__ = ["Question", "Workload", "workload"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from srs_eval.workload import estimate

        return getattr(estimate, name)
    raise AttributeError(f"module 'srs_eval.workload' has no attribute {name!r}")
