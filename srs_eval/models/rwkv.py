"""RWKV: a network trained on the reviews of thousands of other people, and frozen.

It has 92 inputs for each review and five states: those of the card, its deck, note and preset, and
of the learner. RWKV-Instant predicts just before a review and knows all earlier reviews of the
collection, as STATE does. RWKV-Curve is the forgetting curve that the network drew when the
card was last answered: a scheduler could use it. srs-benchmark called them RWKV-P and RWKV in 2025.

    RWKV-Instant: p = 1 - P(Again) of the four grades
    RWKV-Curve:   p(t) = sigmoid(logit(sum of a_i 0.9^(t / s_i)) + c(t))

with shares a_i and c(t), linear between points, from the network, and fixed s_i.

Users bring the weights themselves: srs-eval neither ships nor downloads any. See
docs/models/rwkv.md.

Source: srs-benchmark rwkv/; github.com/Expertium/rwkv-state-quant, gpu_train/rwkv/run_as_rnn.py.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from srs_eval.data.days import DAY_S
from srs_eval.data.errors import InputError, NotInstalled
from srs_eval.data.file_contents import file_digest
from srs_eval.data.paths import DEMO_FILE, anki_folders, data_dir
from srs_eval.data.reviews import FloatArray, IntArray, ReviewLog
from srs_eval.data.trials import Trials
from srs_eval.models import Context, Cost, OnlineModel, TrainedModel
from srs_eval.training.networks import is_pretrained_file, read_tensors
from srs_eval.training.rwkv_inputs import (
    CODE_SEED,
    RwkvNetwork,
    arrange_network,
    collect_reviews,
    compute_inputs,
    find_missing_inputs,
)
from srs_eval.training.rwkv_network import compute_curves_after_answers, compute_predictions

WEIGHTS_HINT = "weights of your own: `srs-eval models weights` says where to get them"
_WEIGHTS_VARIABLE = "SRS_EVAL_RWKV_WEIGHTS"
"""Environment variable that names the file to use without --weights; empty for no file."""
_WEIGHT_EXTENSIONS = (".safetensors", ".pth")
_MIN_PROBABILITY = 1e-5  # as in srs-benchmark


class PublicWeights(NamedTuple):
    """A public file of weights."""

    name: str
    sha256: str
    parameters: int
    trained_users: range  # users of anki-revlogs-10k that it was trained on
    url: str


_GITHUB = "https://raw.githubusercontent.com"
_RWKV_SRS_FOLDER = f"{_GITHUB}/zaguk/rwkv-srs/main/tests/fixtures/models"
_SRS_BENCHMARK_FOLDER = f"{_GITHUB}/open-spaced-repetition/srs-benchmark/main/pretrain"
_RWKV_STATE_QUANT_FOLDER = f"{_GITHUB}/Expertium/rwkv-state-quant/main/reference"
PUBLIC_WEIGHTS = (
    PublicWeights(
        name="RWKV_trained_on_5000_10000.safetensors",
        sha256="0b1566d8159464fc512c8cb49525aefd3f84c9baaacdf0ea2e8d7a398729d91a",
        parameters=2_762_884,
        trained_users=range(5000, 10000 + 1),
        url=f"{_RWKV_SRS_FOLDER}/RWKV_trained_on_5000_10000.safetensors",
    ),
    PublicWeights(
        name="RWKV_trained_on_101_4999.safetensors",
        sha256="fa35cd87ee3589ad7457d54f844c90cb94d19d56e5104df04aa5fb0dcf28c4e9",
        parameters=2_762_884,
        trained_users=range(101, 4999 + 1),
        url=f"{_RWKV_SRS_FOLDER}/RWKV_trained_on_101_4999.safetensors",
    ),
    PublicWeights(
        name="RWKV_trained_on_5000_10000.pth",
        sha256="8fb7fea081b38623ffc0d84ed18303cf5d62b42b9105e91112264a34286beeeb",
        parameters=2_762_884,
        trained_users=range(5000, 10000 + 1),
        url=f"{_SRS_BENCHMARK_FOLDER}/RWKV_trained_on_5000_10000.pth",
    ),
    PublicWeights(
        name="RWKV_trained_on_101_4999.pth",
        sha256="82d60a4de2e26b4064b86359874e458d1546c0e9651c5dbdf9b8f449a9b97114",
        parameters=2_762_884,
        trained_users=range(101, 4999 + 1),
        url=f"{_SRS_BENCHMARK_FOLDER}/RWKV_trained_on_101_4999.pth",
    ),
    PublicWeights(
        name="champ_h2k16.safetensors",
        sha256="a8104c4abebbbd9e9c706f21c1baa5819bc062849fde2cc3c275b69abdf9ba7a",
        parameters=193_724,
        trained_users=range(1000, 2499 + 1),
        url=f"{_RWKV_STATE_QUANT_FOLDER}/champ_h2k16.safetensors",
    ),
    PublicWeights(
        name="champ_decay15.safetensors",
        sha256="e7d27ccd1e8f48d2b0b551eff045546667b491240e974c50d44c7db1e66e9056",
        parameters=192_800,
        trained_users=range(1000, 2499 + 1),
        url=f"{_RWKV_STATE_QUANT_FOLDER}/champ_decay15.safetensors",
    ),
)
"""Public weight files in order of preference: those trained on more people first."""


class RwkvWeights(NamedTuple):
    """A file of weights."""

    path: Path
    sha256: str
    public_file: PublicWeights | None


# Finding the user's weights


def find_weights(context: Context | None = None) -> list[RwkvWeights]:
    """Return the weights of --weights, of the environment variable or of the usual places.

    They are ordered as `PUBLIC_WEIGHTS`, after any that are not public. In the usual places on this
    machine, only public files count.
    """
    option = context.weights if context else None
    if is_pretrained_file(option):
        option = None
    named_paths: list[Path] = []
    if option is not None:
        is_file = option.is_file()
        named_paths = [option] if is_file else _list_weight_files(option, "RWKV*", "champ_*")
    variable = os.environ.get(_WEIGHTS_VARIABLE)
    if not named_paths and variable:
        named_paths = [Path(variable)]
    paths: Iterable[Path] = named_paths
    if not named_paths and variable is None:
        paths = _list_usual_paths()
    weights_by_digest: dict[str, RwkvWeights] = {}
    for path in paths:
        with suppress(OSError):
            sha256 = file_digest(path)
            public_file = next((file for file in PUBLIC_WEIGHTS if file.sha256 == sha256), None)
            if public_file or named_paths:
                weights = RwkvWeights(path, sha256, public_file)
                weights_by_digest.setdefault(sha256, weights)
    rank = {file.sha256: position for position, file in enumerate(PUBLIC_WEIGHTS)}
    return sorted(weights_by_digest.values(), key=lambda weights: rank.get(weights.sha256, -1))


def _list_weight_files(folder: Path, *patterns: str) -> list[Path]:
    paths: list[Path] = []
    try:
        for pattern in patterns:
            for path in sorted(folder.glob(pattern)):
                if path.suffix in _WEIGHT_EXTENSIONS and path.is_file():
                    paths.append(path)
    except OSError:
        return []
    return paths


def _list_usual_paths() -> Iterator[Path]:
    """Yield weight files in srs-eval's data folder, in an add-on of Anki and in a fork of Anki.

    The add-on is RWKV4Anki, the fork that of JSchoreels.
    """
    yield from _list_weight_files(data_dir() / "rwkv", "*")
    home = Path.home()
    for base in anki_folders(home):
        yield from _list_weight_files(base / "addons21", "*/vendor*/rwkv_srs/pretrained/*")
    yield Path(os.environ.get("ANKI_RWKV_MODEL_PATH", ""))
    programs = {
        "win32": Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local"),
        "darwin": home / "Library" / "Application Support",
    }.get(sys.platform, home / ".local" / "share")
    for library in ("lib/python*", "Lib"):
        pattern = f"AnkiProgramFiles/.venv/{library}/site-packages/aqt/rwkv_inference/RWKV*"
        yield from _list_weight_files(programs, pattern)


def compute_weights_digest(context: Context) -> str:
    """Return a digest of all weights that `find_weights` returns, or "" for none."""
    digests = "".join(weights.sha256 for weights in find_weights(context))
    return hashlib.sha256(digests.encode()).hexdigest() if digests else ""


def _choose_weights(log: ReviewLog, context: Context) -> RwkvWeights:
    """Return the first weights that are not known to have been trained on the learner.

    Raises NotInstalled, so that the model is skipped, if there are none or the learner is
    simulated.
    """
    candidates = find_weights(context)
    if not candidates:
        raise NotInstalled(f"RWKV needs {WEIGHTS_HINT}")
    if log.import_summary.path == str(DEMO_FILE) and log.entries is not None:
        raise NotInstalled(
            "RWKV was trained on people: it says nothing about the demo's simulated learner"
        )
    for weights in candidates:
        if (
            log.user is None
            or weights.public_file is None
            or log.user not in weights.public_file.trained_users
        ):
            return weights
    names = " and ".join(weights.path.name for weights in candidates)
    raise NotInstalled(f"{names} trained on user {log.user}: use weights that were not")


@cache
def _load_network(weights: RwkvWeights) -> RwkvNetwork:
    """Load the network from its weight file.

    Raises InputError if the file cannot be read or holds another network.
    """
    return arrange_network(read_tensors(weights.path), weights.path.name)


def add_rwkv_models(models: str, context: Context) -> str:
    """Return the named models, and RWKV if --weights names a file of its weights."""
    path = context.weights
    is_rwkv = path is not None and path.is_file() and not is_pretrained_file(path)
    return f"{models},RWKV-Instant,RWKV-Curve" if is_rwkv else models


# The two models


def predict_all_trials(trials: Trials, context: Context, *, curve: bool = False) -> FloatArray:
    """Predict all trials (n,) with RWKV-Instant, or with RWKV-Curve if `curve`.

    NaN is as in `compute_predictions`. Predictions are computed once and kept with the trials.
    Raises NotInstalled like `_choose_weights`.
    """
    log, rows = trials.source
    weights = _choose_weights(log, context)
    cache = trials.derived(_make_prediction_cache)
    key = (weights.sha256, curve)
    if key not in cache:
        network = _load_network(weights)
        inputs = compute_inputs(collect_reviews(log, rows))
        positions = trials.review_th - 1
        instant_recall, curve_recall = compute_predictions(
            network,
            inputs,
            positions,
            rows.elapsed_seconds[positions],
            context.tick,
            instant=not curve,
            curve=curve,
        )
        recall = curve_recall if curve else instant_recall
        cache[key] = np.clip(recall, _MIN_PROBABILITY, 1 - _MIN_PROBABILITY)
    return cache[key]


def _make_prediction_cache(trials: Trials) -> dict[tuple[str, bool], FloatArray]:
    """Return an empty cache for `predict_all_trials`, whose keys are (weights' digest, curve)."""
    return {}


def _predict_instant(trials: Trials, context: Context) -> FloatArray:
    """Predict with RWKV-Instant for `trials.test_index` (k,)."""
    return predict_all_trials(trials, context)[trials.test_index]


def _predict_curve(
    trials: Trials, parameters: Any, index: IntArray, context: Context
) -> FloatArray:
    """Predict with RWKV-Curve at the positions `index` (same shape)."""
    return predict_all_trials(trials, context, curve=True)[index]


def _compute_curves_after_answers(
    trials: Trials, review_th: IntArray, days: FloatArray, context: Context
) -> FloatArray:
    """Return RWKV-Curve's recall `days` (t,) after each of four answers to reviews (k, 4, t)."""
    log, rows = trials.source
    network = _load_network(_choose_weights(log, context))
    inputs = compute_inputs(collect_reviews(log, rows))
    order = np.argsort(review_th)
    recall = np.empty((len(review_th), 4, len(days)))
    recall[order] = compute_curves_after_answers(
        network,
        inputs,
        review_th[order] - 1,
        np.arange(1, 5),
        np.round(days * DAY_S).astype(np.int64),
        context.tick,
    )
    return np.clip(recall, _MIN_PROBABILITY, 1 - _MIN_PROBABILITY)


def make_remarks(trials: Trials, context: Context) -> tuple[str, ...]:
    """Name the weights file and the inputs that the learner's reviews lack."""
    log, rows = trials.source
    weights = _choose_weights(log, context)
    weights_remark = f"weights {weights.path.name}"
    if weights.public_file is None:
        weights_remark += (
            f" (SHA-256 {weights.sha256[:8]}…); srs-eval does not know this file, or whom it was "
            "trained on"
        )
    missing_inputs = find_missing_inputs(collect_reviews(log, rows))
    if not missing_inputs:
        return (weights_remark,)
    return (
        weights_remark,
        f"these inputs are missing, which can raise log loss by up to 0.008: {missing_inputs}",
    )


def count_parameters(context: Context, log: ReviewLog | None) -> int | None:
    """Count the numbers in the weight file that is used for a learner.

    Without a learner, all files that are found must have the same number. Returns None if they
    differ, if there are no weights for the learner, or if they cannot be read.
    """
    try:
        files = find_weights(context) if log is None else [_choose_weights(log, context)]
        counts = {
            file.public_file.parameters if file.public_file else _count_numbers(file)
            for file in files
        }
    except InputError:
        return None
    return counts.pop() if len(counts) == 1 else None


@cache
def _count_numbers(weights: RwkvWeights) -> int:
    """Count the numbers in a weight file.

    Raises InputError if the file cannot be read.
    """
    return sum(tensor.size for tensor in read_tensors(weights.path).values())


_SOURCE = "srs-benchmark rwkv/ (2025); Expertium/rwkv-state-quant gpu_train/rwkv"
_FLAGS = frozenset({"secs", "no_test_same_day", "equalize_test_with_non_secs"})

MODELS = (
    OnlineModel(
        name="RWKV-Instant",
        family="online",
        inputs="FIL, G, SR, AT",
        source=_SOURCE,
        online=_predict_instant,
        count_parameters=count_parameters,
        always_short=True,
        flags=_FLAGS,
        weights=compute_weights_digest,
        remarks=make_remarks,
        cost=Cost(seconds_per_10k=0.5, seconds_to_compile=2.5, kernels_of="RWKV-Curve"),
        aliases={"RWKV-P": "RWKV-Instant"},
        note=f"Frozen; needs {WEIGHTS_HINT}. Knows all earlier answers, which a scheduler cannot.",
    ),
    TrainedModel(
        name="RWKV-Curve",
        family="neural",
        inputs="FIL, G, SR, AT",
        source=_SOURCE,
        predict=_predict_curve,
        recall_after_answers=_compute_curves_after_answers,
        count_parameters=count_parameters,
        always_short=True,
        flags=_FLAGS,
        weights=compute_weights_digest,
        remarks=make_remarks,
        cost=Cost(seconds_per_10k=0.5, seconds_to_compile=2.5),
        aliases={"RWKV": "RWKV-Curve"},
        note=f"Frozen; needs {WEIGHTS_HINT}. Codes of cards are drawn with seed {CODE_SEED}: "
        "another seed changes log loss by 0.001 or so.",
    ),
)
