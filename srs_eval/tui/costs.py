"""What desired retentions cost, kept as long as a file is open."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from srs_eval.advice.findings import Finding
    from srs_eval.advice.workload.estimate import Workload
    from srs_eval.data.reviews import ReviewLog
    from srs_eval.tui.session import Session


class Costs:
    """By what is known of one log."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._of: ReviewLog | None = None
        self._whole: dict[str | None, Workload] = {}
        """With all draws, by preset; None is that with the most reviews."""
        self._in_short: dict[str, Finding] = {}

    def in_short(self, log: ReviewLog | None) -> Mapping[str, Finding]:
        """By preset, with ranges: they stand in for the first estimates among the answers."""
        return self._in_short if self._of is log else {}

    def whole(self, log: ReviewLog) -> Mapping[str | None, Workload]:
        """With all draws, by preset."""
        return self._whole if self._of is log else {}

    def known(self, log: ReviewLog, preset: str | None) -> Iterator[Workload]:
        """A preset's, as they become known."""
        from srs_eval.advice import saved
        from srs_eval.advice.workload.estimate import workload

        session = self._session
        key, context = session.kept_as(), session.options.context
        if self._of is not log:
            self._of, self._whole, self._in_short = log, {}, {}
        whole, short = self._whole, self._in_short
        if preset in whole:
            yield whole[preset]
            return
        for found in workload(log, preset, context=context):
            if found.drawn:
                # That with the most reviews is asked for by its name, too.
                whole[preset] = whole[found.preset] = found
                better = short[found.preset] = found.glance
                session.later(session.show_costs)
                if key is not None:
                    basis = saved.basis(log, context, session.config.equivalence)
                    saved.improve(key, basis, [better], session.state_folder)
            yield found
