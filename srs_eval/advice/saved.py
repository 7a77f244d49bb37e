"""The last findings about a file.

A file opens with them while new ones are worked out. They are kept by its path, with what they
rest on: shown as they were where neither the reviews, the presets nor the program has changed, and
as of their day otherwise.
"""

from __future__ import annotations

import contextlib
import hashlib
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from srs_eval.advice.findings import Evidence, Finding
from srs_eval.data.errors import InputError
from srs_eval.data.paths import content_of, state_dir, write_atomically

if TYPE_CHECKING:
    from srs_eval.data.reviews import ReviewLog
    from srs_eval.training.hyperparameters import Context

_MOST = 20  # files whose findings are kept
_MOST_BYTES = 64 << 20


@dataclass(frozen=True)
class Kept:
    """Findings of an earlier day."""

    findings: tuple[Finding, ...]
    basis: str  # `basis` of what they rest on
    entries: int  # that the file held
    at: float  # Unix seconds


def basis(log: ReviewLog, context: Context, equivalence: float) -> str:
    """A digest of everything that findings depend on: reviews, settings, program."""
    from srs_eval.training.compile import program_digest

    parts = [
        log.fingerprint(),
        program_digest(),
        repr(sorted(log.presets.items())),
        repr(sorted(log.decks.items())),
        repr((log.optimized_before_s, log.import_summary.fsrs_enabled, log.day_grid)),
        repr(sorted(context.settings().items())),
        repr(equivalence),
    ]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def keep(path: str, kept: Kept, folder: Path | None = None) -> None:
    """Write atomically; where that is not possible nothing is kept."""
    import msgspec

    place = _place(path, folder)
    findings = [_tagged(each) for each in kept.findings]
    content = msgspec.msgpack.encode(
        {**vars(kept), "findings": findings},
        enc_hook=lambda value: value.item(),  # numpy's numbers
    )
    with contextlib.suppress(OSError):
        place.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(place, hashlib.sha256(content).digest() + content)
        files = sorted(place.parent.iterdir(), key=lambda each: -each.stat().st_mtime)
        for old in files[_MOST:]:
            old.unlink(missing_ok=True)


def last(path: str, folder: Path | None = None) -> Kept | None:
    """What was kept for a path; None where nothing is, or not a byte is as it was written."""
    import msgspec

    try:
        found = content_of(_place(path, folder), _MOST_BYTES)
        digest, content = found[:32], found[32:]
        if digest != hashlib.sha256(content).digest():
            return None
        kept = msgspec.msgpack.decode(content, type=Kept, dec_hook=_untagged)
    except (OSError, InputError, msgspec.MsgspecError):  # damaged: as good as none
        return None
    return replace(kept, at=min(kept.at, time.time()))


def _tagged(finding: Finding) -> dict[str, Any]:
    """Its evidence with the name of its kind."""
    return {**vars(finding), "evidence": (type(finding.evidence).__name__, finding.evidence)}


def _untagged(expected: type, found: tuple[str, Any]) -> Evidence | None:
    """The evidence; ValueError for a kind that there is not."""
    import msgspec

    kinds = {each.__name__: each for each in Evidence.__subclasses__()}
    name, content = found
    if content is None:
        return None
    if expected is not Evidence or name not in kinds:
        raise ValueError(name)
    return msgspec.convert(content, kinds[name])


def _place(path: str, folder: Path | None) -> Path:
    name = hashlib.sha256(path.encode("utf-8", "replace")).hexdigest()[:32]
    return (folder or state_dir()) / "answers" / name
