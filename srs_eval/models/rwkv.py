"""RWKV: a network trained on the reviews of thousands of other people, and frozen.

It has 92 inputs a review and five states: of the card, its deck, note and preset, and of the
learner. RWKV-Instant is asked just before a review and knows all earlier reviews of the collection,
as STATE does. RWKV-Curve is the forgetting curve that the network drew when the card was last
answered: a scheduler could go by it. srs-benchmark called them RWKV-P and RWKV in 2025.

    RWKV-Instant: p = 1 - P(Again) of the four grades
    RWKV-Curve:   p(t) = sigmoid(logit(sum of a_i 0.9^(t / s_i)) + c(t))

with shares a_i and c(t), linear between points, from the network, and fixed s_i.

The weights are the person's own file: none are shipped, nor fetched. docs/models/rwkv.md.

Source: srs-benchmark rwkv/; github.com/Expertium/rwkv-state-quant, gpu_train/rwkv/run_as_rnn.py.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from srs_eval.data.errors import InputError, NotInstalled
from srs_eval.data.paths import DEMO_FILE, anki_folders, data_dir, file_digest
from srs_eval.data.reviews import FloatArray, IntArray, ReviewLog
from srs_eval.data.trials import Trials
from srs_eval.models import Context, Model
from srs_eval.training.networks import is_pretrained, read_tensors
from srs_eval.training.rwkv_inputs import SEED, Network, inputs, lacking, network, reviews_of
from srs_eval.training.rwkv_network import predictions

NEEDED = "weights of your own: `srs-eval models weights` tells where to get them"
_OWN_FILE = "SRS_EVAL_RWKV_WEIGHTS"
"""Names the file that is taken without --weights; empty: none is looked for."""
_SUFFIXES = (".safetensors", ".pth")
_LEAST = 1e-5  # probability, as srs-benchmark has it


class _Known(NamedTuple):
    """A public file of weights."""

    name: str
    sha256: str
    parameters: int
    users: range  # of anki-revlogs-10k that it was trained on
    address: str


def _from_row(line: str) -> _Known:
    name, sha256, parameters, first, last, address = line.split()
    return _Known(name, sha256, int(parameters), range(int(first), int(last) + 1), address)


KNOWN = tuple(map(_from_row, Path(__file__).with_suffix(".txt").read_text("utf-8").splitlines()))
"""Those on more people first, as they are taken."""


class Weights(NamedTuple):
    """A file of weights."""

    path: Path
    sha256: str
    known: _Known | None


# Where the person's weights are


def found_weights(context: Context | None = None) -> list[Weights]:
    """Of --weights, else of the usual places of this machine, in the order of `KNOWN`.

    In the usual places only what is known counts.
    """
    named, given = list[Path](), context.weights if context else None
    given = None if is_pretrained(given) else given
    if given is not None:
        named = [given] if given.is_file() else _in_folder(given, "RWKV*", "champ_*")
    chosen = os.environ.get(_OWN_FILE)
    named = named or ([Path(chosen)] if chosen else [])
    paths = named or (_usual_places() if chosen is None else [])
    found: dict[str, Weights] = {}
    for path in paths:
        with suppress(OSError):
            sha256 = file_digest(path)
            known = next((each for each in KNOWN if each.sha256 == sha256), None)
            if known or named:
                found.setdefault(sha256, Weights(path, sha256, known))
    order = {each.sha256: place for place, each in enumerate(KNOWN)}
    return sorted(found.values(), key=lambda each: order.get(each.sha256, -1))


def _in_folder(folder: Path, *patterns: str) -> list[Path]:
    with suppress(OSError):
        paths = (path for pattern in patterns for path in sorted(folder.glob(pattern)))
        return [path for path in paths if path.suffix in _SUFFIXES and path.is_file()]
    return []


def _usual_places() -> Iterator[Path]:
    """srs-eval's own data folder, add-ons of Anki (RWKV4Anki), a fork of Anki (JSchoreels)."""
    yield from _in_folder(data_dir() / "rwkv", "*")
    home = Path.home()
    for base in anki_folders(home):
        yield from _in_folder(base / "addons21", "*/vendor*/rwkv_srs/pretrained/*")
    yield Path(os.environ.get("ANKI_RWKV_MODEL_PATH", ""))
    programs = {
        "win32": Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local"),
        "darwin": home / "Library" / "Application Support",
    }.get(sys.platform, home / ".local" / "share")
    for library in ("lib/python*", "Lib"):
        within = f"AnkiProgramFiles/.venv/{library}/site-packages/aqt/rwkv_inference/RWKV*"
        yield from _in_folder(programs, within)


def digest_of_weights(context: Context) -> str:
    """Of all weights that there are; "" for none."""
    digests = "".join(each.sha256 for each in found_weights(context))
    return hashlib.sha256(digests.encode()).hexdigest() if digests else ""


def _weights_for(log: ReviewLog, context: Context) -> Weights:
    """Weights that have not been trained on the learner.

    Raises NotInstalled, which is a skip: there are none, or the learner is simulated.
    """
    found = found_weights(context)
    if not found:
        raise NotInstalled(f"RWKV needs {NEEDED}")
    if log.import_summary.path == str(DEMO_FILE) and log.entries is not None:
        raise NotInstalled("RWKV knows people: on the demo's simulated learner it says nothing")
    for each in found:
        if log.user is None or each.known is None or log.user not in each.known.users:
            return each
    seen = " and ".join(each.path.name for each in found)
    raise NotInstalled(f"{seen} trained on user {log.user}: take weights that have not")


@cache
def _load_network(weights: Weights) -> Network:
    """Raises InputError for a file that cannot be read, or holds another network."""
    return network(read_tensors(weights.path), weights.path.name)


def with_rwkv(models: str, context: Context) -> str:
    """The models that are named, and RWKV where its file is given with --weights."""
    given = context.weights
    is_rwkv = given is not None and given.is_file() and not is_pretrained(given)
    return f"{models},RWKV-Instant,RWKV-Curve" if is_rwkv else models


# The two models


def recall_at_trials(trials: Trials, context: Context, *, curve: bool = False) -> FloatArray:
    """RWKV-Instant, or RWKV-Curve, at all trials (n,); computed once.

    Raises NotInstalled where there are no weights that the learner is new to.
    """
    log, rows = trials.source
    weights, known = _weights_for(log, context), trials.derived(_by_weights)
    key = weights.sha256, curve
    if key not in known:
        net, given = _load_network(weights), inputs(reviews_of(log, rows))
        asked = trials.review_th - 1
        seconds, tick = rows.elapsed_seconds[asked], context.tick
        both = predictions(net, given, asked, seconds, tick, instant=not curve, curve=curve)
        known[key] = np.clip(both[curve], _LEAST, 1 - _LEAST)
    return known[key]


def _by_weights(trials: Trials) -> dict[tuple[str, bool], FloatArray]:
    """What `recall_at_trials` has found, by the weights' digest and the model."""
    return {}


def _instant(trials: Trials, context: Context) -> FloatArray:
    """RWKV-Instant for `trials.test_index` (k,)."""
    return recall_at_trials(trials, context)[trials.test_index]


def _curve(trials: Trials, parameters: Any, index: IntArray, context: Context) -> FloatArray:
    """RWKV-Curve at the positions `index` (same shape)."""
    return recall_at_trials(trials, context, curve=True)[index]


def remarks(trials: Trials, context: Context) -> tuple[str, ...]:
    log, rows = trials.source
    weights = _weights_for(log, context)
    of = f"weights {weights.path.name}"
    if weights.known is None:
        of += (
            f", unknown to srs-eval (SHA-256 {weights.sha256[:8]}…): on whom they were trained, too"
        )
    without = lacking(reviews_of(log, rows))
    said = f"without {without}, which the source does not tell: up to 0.008 worse than with"
    return (of, said) if without else (of,)


def count_parameters(context: Context, log: ReviewLog | None) -> int | None:
    """The numbers in the file of weights that a learner is given.

    Without a learner those of all files, if they agree. None where there are no such weights, or
    they cannot be read.
    """
    try:
        files = found_weights(context) if log is None else [_weights_for(log, context)]
        counts = {each.known.parameters if each.known else _numbers_in(each) for each in files}
    except InputError:
        return None
    return counts.pop() if len(counts) == 1 else None


@cache
def _numbers_in(weights: Weights) -> int:
    """Raises InputError for a file that cannot be read."""
    return sum(tensor.size for tensor in read_tensors(weights.path).values())


_rwkv = partial(
    Model,
    inputs="FIL, G, SR, AT",
    parameters=0,
    count_parameters=count_parameters,
    source="srs-benchmark rwkv/ (2025); Expertium/rwkv-state-quant gpu_train/rwkv",
    always_short=True,
    flags=frozenset({"secs", "no_test_same_day", "equalize_test_with_non_secs"}),
    weights=digest_of_weights,
    remarks=remarks,
    seconds_per_10k=0.5,
    seconds_to_compile=2.5,
)

MODELS = (
    _rwkv(
        name="RWKV-Instant",
        family="online",
        online=_instant,
        kernels_of="RWKV-Curve",
        aliases={"RWKV-P": "RWKV-Instant"},
        note=f"Frozen; needs {NEEDED}. Knows every answer before; a scheduler cannot.",
    ),
    _rwkv(
        name="RWKV-Curve",
        family="neural",
        predict=_curve,
        aliases={"RWKV": "RWKV-Curve"},
        note=f"Frozen; needs {NEEDED}. Codes of cards are drawn with seed {SEED}: another one "
        "changes log loss by 0.001 or so.",
    ),
)
