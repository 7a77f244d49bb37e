"""What desired retentions cost, kept as long as a file is open."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from srs_eval.advice.findings import Finding
    from srs_eval.advice.workload.estimate import Doing, Workload
    from srs_eval.data.reviews import ReviewLog
    from srs_eval.tui.session import Session


class Costs:
    """By what is known of one log."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._of: ReviewLog | None = None
        self._said: dict[str | None, Sequence[Finding]] = {}
        """Whole answers, by preset; None is that with the most reviews."""
        self._in_short: dict[str, Finding] = {}
        self._whole: dict[str, Workload] = {}  # all that is known, by preset

    def in_short(self, log: ReviewLog | None) -> Mapping[str, Finding]:
        """By preset, with ranges: they stand in for the first estimates among the answers."""
        return self._in_short if self._of is log else {}

    def whole(self, log: ReviewLog) -> Mapping[str, Workload]:
        """All that is known, by preset of which all of it is."""
        return self._whole if self._of is log else {}

    def known(
        self, log: ReviewLog, preset: str | None
    ) -> Iterator[tuple[Sequence[Finding], Doing | None]]:
        """A preset's, as they become known, and what is asked next."""
        from srs_eval.advice import saved
        from srs_eval.advice.workload.answers import answers
        from srs_eval.advice.workload.estimate import Question, workload
        from srs_eval.advice.workload.glance import in_short, were_it_on

        session = self._session
        key, context = session.kept_as(), session.options.context
        equivalence = session.config.equivalence
        if self._of is not log:
            self._of, self._said, self._in_short, self._whole = log, {}, {}, {}
        whole, short = self._said, self._in_short
        if preset in whole:
            yield whole[preset], None
            return
        question = Question(equivalence=equivalence)
        on = were_it_on(log)
        for found in workload(log, preset, question, parameters=on, context=context):
            said = answers(found)
            if found.drawn and found.preset not in short:
                better = short[found.preset] = in_short(found, log)
                session.later(session.show_costs)
                if key is not None:
                    basis = saved.basis(log, context, equivalence)
                    saved.improve(key, basis, [better], session.state_folder)
            if found.finished:
                # That with the most reviews is asked for by its name, too.
                whole[preset] = whole[found.preset] = said
                self._whole[found.preset] = found
            yield said, found.doing
