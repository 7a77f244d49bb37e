"""Save the findings about a file, by its path, so that it opens with them the next time."""

from __future__ import annotations

import hashlib
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from srs_eval.advice.findings import Evidence, Finding
from srs_eval.data.errors import InputError
from srs_eval.data.file_contents import read_regular_file, write_atomically
from srs_eval.data.paths import state_dir
from srs_eval.data.reviews import ReviewLog
from srs_eval.training.hyperparameters import Context

_MAX_SAVED_FILES = 20  # files with saved findings
_MAX_FILE_BYTES = 64 << 20
_DIGEST_BYTES = 32  # of SHA-256, at the start of a file


@dataclass(frozen=True)
class SavedAnswers:
    """Findings saved on an earlier day.

    A file opens with them while new ones are computed. They are shown as current if the reviews,
    the presets and the program are unchanged, otherwise as findings of their day.
    """

    findings: tuple[Finding, ...]
    inputs_digest: str  # `answers_digest` of the inputs behind the findings
    entry_count: int  # in the file
    saved_at_s: float  # Unix seconds


def answers_digest(log: ReviewLog, context: Context, equivalence: float) -> str:
    """Return a digest of all that the findings depend on: reviews, settings and program."""
    from srs_eval.training.compile import compute_program_digest

    anki_facts = (log.optimized_before_s, log.import_summary.fsrs_enabled, log.day_grid)
    inputs = [
        log.fingerprint(),
        compute_program_digest(),
        repr(sorted(log.presets.items())),
        repr(sorted(log.decks.items())),
        repr(sorted(context.settings().items())),
        repr(anki_facts),
        repr(log.can_run_fsrs7),
        repr(equivalence),
    ]
    return hashlib.sha256("\n".join(inputs).encode()).hexdigest()


def save_answers(path: str, saved: SavedAnswers, folder: Path | None = None) -> None:
    """Save answers atomically; if that is impossible, save nothing."""
    import msgspec

    file = _answers_path(path, folder)
    findings = [_encode_finding(finding) for finding in saved.findings]
    content = msgspec.msgpack.encode(
        {**vars(saved), "findings": findings},
        enc_hook=lambda value: value.item(),  # numpy's numbers
    )
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, hashlib.sha256(content).digest() + content)
        newest_first = sorted(file.parent.iterdir(), key=lambda other: -other.stat().st_mtime)
        for old in newest_first[_MAX_SAVED_FILES:]:
            old.unlink(missing_ok=True)


def load_answers(path: str, folder: Path | None = None) -> SavedAnswers | None:
    """Return the answers saved for a path; None if there are none or the file is damaged."""
    import msgspec

    try:
        stored = read_regular_file(_answers_path(path, folder), _MAX_FILE_BYTES)
        digest = stored[:_DIGEST_BYTES]
        content = stored[_DIGEST_BYTES:]
        if digest != hashlib.sha256(content).digest():
            return None
        saved = msgspec.msgpack.decode(content, type=SavedAnswers, dec_hook=_decode_evidence)
    except (OSError, InputError, msgspec.MsgspecError):  # a damaged file counts as none
        return None
    return replace(saved, saved_at_s=min(saved.saved_at_s, time.time()))


def _encode_finding(finding: Finding) -> dict[str, Any]:
    """Return a finding's fields, its evidence together with the name of its class."""
    return {**vars(finding), "evidence": (type(finding.evidence).__name__, finding.evidence)}


def _decode_evidence(expected: type, tagged: tuple[str, Any]) -> Evidence | None:
    """Return the evidence. Raises ValueError for an unknown class name."""
    import msgspec

    evidence_types = {
        evidence_type.__name__: evidence_type for evidence_type in Evidence.__subclasses__()
    }
    name, content = tagged
    if content is None:
        return None
    if expected is not Evidence or name not in evidence_types:
        raise ValueError(name)
    return msgspec.convert(content, evidence_types[name])


def _answers_path(path: str, folder: Path | None) -> Path:
    name = hashlib.sha256(path.encode("utf-8", "replace")).hexdigest()[:32]
    return (folder or state_dir()) / "answers" / name
