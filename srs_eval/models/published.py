"""Names of srs-benchmark's result files, of a year: what they mean here, and the way back."""

from __future__ import annotations

from dataclasses import replace

from srs_eval.data.errors import InputError
from srs_eval.data.protocol import Protocol
from srs_eval.models.configurations import (
    SUFFIXES,
    TUNED,
    Configuration,
    Names,
    fits_parts,
    flags_of,
    meant_by,
    resolve,
    suffixes_of,
    untuned,
)

_SUFFIXES_OF_2026 = {"dry-run": "default", "pretrain": "S0"}
_FALLBACK_DEFAULT = "fallback_default"
_DURATION = "duration"  # of LSTM in names of 2026: it knows answer times
_MODELS_OF_2026 = {"GRU-503": "GRU", "GRU": "GRU-39"}
"""Models that are spelled otherwise in names of 2026."""


def spelled(name: str, names: Names) -> str:
    """A configuration's canonical name as srs-benchmark of a year spells it.

    2025 is the canonical spelling. Of 2026 is config.py at commit
    bd9110f791e5b37282c55a9aa8db35f68f0c4aa2: `-default` and `-S0` (but still `-binary`), `-short`
    wherever histories hold same-day reviews, and `-duration` for answer times. `-preset` and
    `-deck` stand for what is `-fallback_user` here; falling back to the defaults, which has no
    name there any more, is `-fallback_default`. A model that is not here keeps its name.
    """
    if (base := untuned(name)) != name:
        return f"{spelled(base, names)}-{TUNED}"
    if names == "2025" or not meant_by(name):
        return name
    (found,) = resolve([name])
    flags = found.protocol
    suffixes = suffixes_of(found)
    if found.model.always_short and not flags.disable_short_term:
        suffixes = [each for each in SUFFIXES if each == "short" or each in suffixes]
    written = [_SUFFIXES_OF_2026.get(each, each) for each in suffixes if each != "fallback_user"]
    if found.model.name == "LSTM" and flags.secs:
        written.insert(written.index("secs") + 1, _DURATION)
    if fits_parts(found) and not flags.fallback_user:
        written.append(_FALLBACK_DEFAULT)
    model = _MODELS_OF_2026.get(found.model.name, found.model.name)
    return "-".join((model, *written))


def published(name: str, names: Names = "2025") -> Configuration | None:
    """What srs-benchmark's result file of this name holds; None for what there is not here.

    Some spellings mean something else there. A bare `NAME` has no `-short` and no `-secs` there,
    whatever it stands for here. `NAME-secs` of 2026 leaves same-day reviews out; those of 2025 that
    were published evaluate every positive interval: `NAME-short-secs` here; script.py's evaluate
    later days only. FSRS-rs was the FSRS-5 of fsrs-rs 0.7; in 2025, today's was called FSRS-6-rs.
    Of 2026 see `spelled`; FSRS without `-short` has no same-day reviews in its histories there,
    LSTM without `-duration` no answer times. Raises InputError for a name that is none.
    """
    if (base := untuned(name)) != name:
        of_base = published(base, names)
        return of_base and replace(of_base, name=f"{of_base.name}-{TUNED}")
    if names == "2025":
        if name == "FSRS-rs":
            return None
        name = {"FSRS-6-rs": "FSRS-rs"}.get(name, name)
    else:
        to_default = name.endswith(f"-{_FALLBACK_DEFAULT}")
        name = name.removesuffix(f"-{_FALLBACK_DEFAULT}")
        for here, there in _MODELS_OF_2026.items():
            rest = name.removeprefix(there)
            if rest != name and flags_of(rest) is not None:
                name = here + rest
                break
        without_duration = name.replace(f"-secs-{_DURATION}", "-secs")
        (found,) = resolve([without_duration])
        if found.model.name == "LSTM" and without_duration == name:
            return None
        name = without_duration
        same_day_unknown = "-short" not in name and not found.protocol.disable_short_term
        if found.model.always_short and same_day_unknown:
            return None
        if fits_parts(found) and not to_default:
            name = f"{name}-fallback_user"
    (found,) = resolve([name])
    if found.protocol.secs and "-secs" not in name:
        return None
    if names == "2025" and _secs_alone(found, name):
        if found.model.later_days_only:
            (found,) = resolve([name], Protocol(secs=True, no_test_same_day=True))
        elif not found.model.always_short:
            (found,) = resolve([name], Protocol(secs=True, short=True))
    return found


def _secs_alone(found: Configuration, name: str) -> bool:
    """Whether a name says `-secs` and nothing of same-day reviews."""
    flags = found.protocol
    return flags.secs and not flags.equalize_test_with_non_secs and "-short" not in name


def left_open(name: str, names: Names = "2025") -> str:
    """What the name of a published file does not decide, and what is assumed; "" for nothing.

    Files called `NAME-secs` that srs-benchmark published in January 2025 evaluate same-day reviews,
    its code of that month leaves them out. LSTM says `-duration` since some day of 2026.
    """
    try:
        (found,) = resolve([name])
        taken = published(name, names)
    except InputError:
        return ""
    if names == "2026" and found.model.name == "LSTM" and taken is None:
        return (
            f"no -{_DURATION} in its name: it may know no answer times, and is not taken for LSTM"
        )
    decided = found.model.later_days_only or found.model.always_short
    if names == "2026" or taken is None or decided or not _secs_alone(found, name):
        return ""
    return f"no -short in its name: it may leave same-day reviews out; taken for {taken.name}"
