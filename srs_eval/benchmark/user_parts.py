"""Train models on other users before a batch evaluates them (`--split users`).

The users of a batch are dealt into parts. For each part, a model is trained on the users of all
other parts (`TrainedModel.pretrain`), and each user of the part is evaluated with these weights:
like weights that the user gives with --weights, they are where the model's own fits begin. They
stay in the batch's folder, so that a training is never done twice:

    OUT/pretrained/CONFIGURATION/part-N.safetensors

Workers train, one part each; only the batch's process writes.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from srs_eval.data.datasets import Dataset, format_id_ranges
from srs_eval.data.errors import InputError, format_count
from srs_eval.data.outputs import PRETRAINED
from srs_eval.data.paths import VERSION
from srs_eval.data.splits import deal_users
from srs_eval.engine.own_models import pretrain_on_users
from srs_eval.engine.workers import send
from srs_eval.models.configurations import Configuration
from srs_eval.training.hyperparameters import Context, TrainingRecord
from srs_eval.training.networks import (
    WeightsOrigin,
    describe_pretrained,
    encode_pretrained,
    is_pretrained_file,
    read_pretrained_file,
)

_TICK_SECONDS = 0.5  # between two messages about a training's progress


@dataclass(frozen=True)
class PartTraining:
    """A training on all parts of the users but one, whose weights serve the users of that part."""

    configuration: Configuration  # as if it were fitted, which pretraining does not depend on
    evaluated_users: frozenset[int]  # of the part that is left out
    users: tuple[int, ...]  # to train on
    path: Path  # of the weights
    origin: WeightsOrigin  # so far without what the training itself tells

    @property
    def is_done(self) -> bool:
        """Return whether the weights are there, and were trained in the same way."""
        if not is_pretrained_file(self.path):
            return False
        return read_pretrained_file(self.path).setup == self.origin.setup

    def run(self, dataset: Dataset, context: Context) -> bytes:
        """Train the model; return the content of the file of weights.

        Sends the fraction that is done, as messages of a worker. Raises InputError, and whatever
        the model raises.
        """
        record = TrainingRecord()
        training_context = replace(
            context,
            hyperparameters=self.configuration.values_for_fit,
            record=record,
            tick=_make_tick(),
        )
        model = self.configuration.model
        arrays, sketches = pretrain_on_users(
            model,
            dataset,
            self.users,
            training_context,
            self.configuration.protocol.with_published_split(),
            leaves_out_unreadable=True,
        )
        origin = replace(
            self.origin, sketches=sketches, settings=record.settings, epochs=record.epochs
        )
        return encode_pretrained(model.name, origin, arrays)


def _make_tick() -> Callable[[float], None]:
    """Return a function that sends the fraction done, but not more often than anyone can read."""
    sent_at = 0.0

    def tick(fraction: float) -> None:
        nonlocal sent_at
        now = time.monotonic()
        if now - sent_at >= _TICK_SECONDS:
            sent_at = now
            send(fraction)

    return tick


def check_user_split(
    configurations: Sequence[Configuration], context: Context, engine: str
) -> None:
    """Raise InputError if configurations cannot be trained on other users in this batch."""
    for configuration in configurations:
        if not configuration.is_trained_on_other_users:
            continue
        model = configuration.model.name
        if describe_pretrained(model, context):
            raise InputError(
                f"--split users trains {model} on other users, but --weights already gives weights "
                "for it: leave one of these options out."
            )
        if engine.startswith("dask://"):
            raise InputError(
                "--split users keeps weights in --out, where the workers of a cluster may not see "
                "them: leave --engine out, or use dask-local."
            )


def refuse_idle_user_split(split: str, configurations: Sequence[Configuration]) -> None:
    """Raise InputError if `--split users` would change nothing."""
    if split != "users":
        return
    if not any(configuration.is_trained_on_other_users for configuration in configurations):
        raise InputError(
            "--split users is for models of your own that define `pretrain`, but none of the given "
            "models does: leave the option out, or add such a model with --model-file and --models."
        )


def plan_trainings(
    configurations: Sequence[Configuration],
    users: Sequence[int],
    out: Path,
    fingerprint: str,
    context: Context,
) -> list[PartTraining]:
    """Return the trainings for each configuration that is trained on other users.

    `fingerprint` is that of the users' data set. Configurations that differ only in whether they
    are fitted to a user's own reviews share the files of weights. Raises InputError if there are
    fewer users than parts.
    """
    trainings = []
    for configuration in configurations:
        if not configuration.is_trained_on_other_users:
            continue
        trained = replace(configuration, fit="trained")
        setup = _digest_setup(trained, users, fingerprint, context)
        parts = deal_users(users, configuration.protocol.n_splits)
        for number, part in enumerate(parts, start=1):
            training_users = tuple(sorted(set(users).difference(part)))
            origin = WeightsOrigin(
                format_id_ranges(training_users),
                fingerprint,
                left_out=f"part {number} of {len(parts)}",
                setup=setup,
            )
            folder = out.absolute() / PRETRAINED / _name_of_weights(configuration)
            trainings.append(
                PartTraining(
                    trained,
                    frozenset(part),
                    training_users,
                    folder / f"part-{number}.safetensors",
                    origin,
                )
            )
    return trainings


def _name_of_weights(configuration: Configuration) -> str:
    """Return the name of a configuration's folder of weights: its own name without `dry-run`."""
    model = configuration.model.name
    return model + configuration.name.removeprefix(model).removeprefix("-dry-run")


def _digest_setup(
    configuration: Configuration, users: Sequence[int], fingerprint: str, context: Context
) -> str:
    """Return a digest of everything that the trainings of a configuration depend on."""
    model_file = configuration.model.file
    content = {
        "srs_eval": VERSION,
        "data": fingerprint,
        "users": sorted(users),
        "model": configuration.model.name,
        "model_version": configuration.model.version,
        "model_file": model_file.digest if model_file else "",
        "hyperparameters": dict(configuration.values_for_fit),
        "protocol": asdict(configuration.protocol),
        "options": context.settings(),
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def describe_other_parts(parts: int) -> str:
    """Return the parts on whose users a model is trained: "the 4 other parts"."""
    return "the other part" if parts == 2 else f"the {parts - 1} other parts"


def describe_training_users(configuration: Configuration, users: Sequence[int]) -> str:
    """Return, for `setup.json`, on whom a configuration is trained before it is evaluated.

    "" if it is not trained on the users of other parts.
    """
    if not configuration.is_trained_on_other_users:
        return ""
    others = describe_other_parts(configuration.protocol.n_splits)
    return f"on {others} of {format_count(len(users), 'user')}, {format_id_ranges(users)}"


def delete_weights(out: Path, configurations: Iterable[str]) -> None:
    """Delete the weights that a batch in the folder `out` trained for these configurations."""
    for configuration in configurations:
        folder = out / PRETRAINED / configuration
        for path in folder.glob("part-*.safetensors"):
            if is_pretrained_file(path):
                path.unlink()
        for emptied in (folder, folder.parent):
            with suppress(OSError):  # it holds other files, or does not exist
                emptied.rmdir()
