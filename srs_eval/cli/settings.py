"""Build, from the options of a command, the settings that the engine takes.

Options are declared in `srs_eval.cli.options`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from srs_eval.data.errors import InputError
from srs_eval.data.memory import READING_BYTES, check_memory_limit, reserve_blas_memory
from srs_eval.data.paths import make_folders_absolute
from srs_eval.data.protocol import Protocol
from srs_eval.report.console import say

if TYPE_CHECKING:
    from srs_eval.benchmark.setup import Ledger
    from srs_eval.data.reviews import ReviewLog
    from srs_eval.models.configurations import Configuration, Fit
    from srs_eval.models.published import NamingYear
    from srs_eval.training.hyperparameters import Context


def prepare_to_read() -> None:
    """Fix srs-eval's folders, and raise InputError if the memory is too small for reading."""
    make_folders_absolute()
    check_memory_limit(READING_BYTES)


def prepare_to_evaluate() -> None:
    """Fix srs-eval's folders, and raise InputError if the memory is too small for evaluating."""
    make_folders_absolute()
    reserve_blas_memory()


@dataclass(frozen=True)
class ProtocolFlags:
    """The flags that decide which configurations are meant by names of models."""

    protocol: Protocol
    fit: Fit
    ledger: Ledger | None = None  # of --setup: trainings that differ from the published ones

    def resolve(self, names: str) -> list[Configuration]:
        """Return the named configurations.

        If NAME is in the ledger, both `NAME` and `NAME-tuned` mean the tuned configuration. Raises
        InputError for unknown names, and for `NAME-tuned` if NAME is not in the ledger.
        """
        from srs_eval.models.configurations import remove_tuned, resolve_configurations

        if self.ledger is None:
            return resolve_configurations(names, self.protocol, self.fit)
        requested = [name.strip() for name in names.split(",")]
        for name in requested:
            base = remove_tuned(name)
            if base != name:
                published = resolve_configurations(base, self.protocol, self.fit)
                _require_tuned(self.ledger, published, f"{base} is not")
        configurations = resolve_configurations(
            map(remove_tuned, requested), self.protocol, self.fit
        )
        return self.ledger.apply_to(configurations)

    def resolve_reference(self, name: str) -> Configuration:
        """Return the configuration that `--reference` names: tuned only as `NAME-tuned`.

        Raises InputError if the name does not mean exactly one configuration.
        """
        from srs_eval.models.configurations import remove_tuned

        is_tuned = remove_tuned(name) != name
        flags = self if is_tuned else replace(self, ledger=None)
        configurations = flags.resolve(name)
        if len(configurations) != 1:
            raise InputError(
                f'--reference takes one model; "{name}" stands for {len(configurations)}.'
            )
        return configurations[0]

    def with_ledger(self, path: Path | None, models: str) -> ProtocolFlags:
        """Return these flags with the ledger at `path`, if one is given.

        Raises InputError if none of the models is in the ledger.
        """
        if path is None:
            return self
        from srs_eval.benchmark.setup import read_ledger

        ledger = read_ledger(path)
        flags = replace(self, ledger=ledger)
        _require_tuned(ledger, flags.resolve(models))
        return flags


def _require_tuned(
    ledger: Ledger,
    configurations: Sequence[Configuration],
    subject: str = "No model of --models is",
) -> None:
    """Raise InputError if a ledger has none of the configurations; `subject` begins the message."""
    for configuration in configurations:
        if configuration.name in ledger.entries or configuration.ledger:
            return
    entries = ", ".join(ledger.entries) or "nothing"
    raise InputError(f'{subject} in "{ledger.path}", which has {entries}.')


def build_protocol_flags(protocol: Protocol, *, default: bool, S0: bool) -> ProtocolFlags:
    """Return the flags of a command: the protocol, and how models are trained.

    Raises InputError if both `default` and `S0` are set.
    """
    if default and S0:
        raise InputError("--default and --S0 cannot be combined.")
    if default:
        return ProtocolFlags(protocol, "default")
    return ProtocolFlags(protocol, "S0" if S0 else "trained")


def build_context(
    sm2_target: float = 0.9,
    weights: Path | None = None,
    device: str = "cpu",
    model_file: list[Path] | None = None,
    features: Path | None = None,
    seen_users: bool = False,
) -> Context:
    """Load the user's model files, and return the settings that models take from options.

    Raises InputError.
    """
    from srs_eval.training.hyperparameters import Context, check_weights

    if not 0 < sm2_target < 1:
        raise InputError(f"--sm2-target must lie between 0 and 1, not {sm2_target:g}.")
    check_weights(weights)
    for path in model_file or ():
        _load_models(path)
    kind, colon, number = device.lower().partition(":")
    if kind not in ("cpu", "cuda", "mps", "xpu") or (colon and not number.isdecimal()):
        raise InputError(
            "--device takes cpu, cuda, mps or xpu, or one with a number such as cuda:1, "
            f'not "{device}".'
        )
    if features is not None:
        features = features.expanduser().absolute()
    return Context(sm2_target, weights, features, seen_users, device.lower())


def _load_models(path: Path) -> None:
    """Load a model file, and print a note if its results cannot be kept for later runs.

    Raises InputError.
    """
    from srs_eval.data.model_folder import MAX_BYTES, MAX_ENTRIES
    from srs_eval.models import load_model_file

    models = load_model_file(path)
    if not all(model.has_known_code for model in models):
        say(
            f'Results of "{path.name}" are not kept for the next run: its folder has more than '
            f"{MAX_ENTRIES:,} files and folders, or more than {MAX_BYTES // 1_000_000} MB, and "
            "any of them may have changed. Move it to a folder of its own."
        )


@dataclass(frozen=True)
class Source:
    """A learner's file and how to read it."""

    path: Path | None = None
    user: int | None = None
    deck: list[str] | None = None
    preset: list[str] | None = None
    timezone: str | None = None
    rollover: int | None = None

    @property
    def narrowed_to(self) -> dict[str, str | None]:
        """Return the names of the selected decks and presets in words; None for all."""
        return {
            "deck": ", ".join(self.deck or ()) or None,
            "preset": ", ".join(self.preset or ()) or None,
        }

    def load(self) -> ReviewLog:
        """Load the reviews, and report how many were left out because the file holds them twice."""
        log = self.read()
        report_repeated_entries(log)
        return log

    def read(self) -> ReviewLog:
        """Load the reviews without a report, for a command that shows the whole import summary.

        Raises InputError.
        """
        from srs_eval.anki_import import find_profiles, load_log
        from srs_eval.data.paths import anki_folders
        from srs_eval.data.rows import select_decks, select_presets

        if self.path is None:
            profiles = "; ".join(f'"{profile.path}"' for profile in find_profiles()[:5])
            if profiles:
                hint = f"Found on this machine: {profiles}."
            else:
                folders = ", ".join(f'"{folder}"' for folder in anki_folders(Path.home()))
                hint = (
                    f"No Anki profile was found in {folders}. To try srs-eval without a file, "
                    "run `srs-eval demo`."
                )
            raise InputError(f"Which file? Give the path of a collection or export. {hint}")
        log = load_log(self.path, timezone=self.timezone, rollover=self.rollover, user=self.user)
        if self.deck:
            log = select_decks(log, *self.deck)
        if self.preset:
            log = select_presets(log, *self.preset)
        return log


def report_repeated_entries(log: ReviewLog, file_label: str = "") -> None:
    """Report how many entries of a file were left out because the file holds them twice.

    `file_label` is put in front of the sentence.
    """
    from srs_eval.data.readers.repeats import describe_repeats

    count = log.import_summary.repeated
    if count:
        say(f"{file_label}{describe_repeats(count)}")


def choose_equivalence(equivalence: float | None) -> float:
    """Return the largest difference in log loss that does not matter.

    It is that of the command line, else that of config.toml. Raises InputError.
    """
    from srs_eval.tui.config import load_config

    if equivalence is None:
        return load_config().equivalence
    if not 0 <= equivalence < 1:
        raise InputError(f"--equivalence takes a log loss from 0 to 1, not {equivalence:g}.")
    return equivalence


def choose_fsrs7(has_fsrs7: bool | None) -> bool:
    """Return whether the user's program can run FSRS-7: by the command line, else config.toml."""
    from srs_eval.tui.config import load_config

    return load_config().fsrs_7 if has_fsrs7 is None else has_fsrs7


@dataclass(frozen=True, kw_only=True)
class EvaluationOptions:
    """Options for the evaluation of models on one collection."""

    source: Source = Source()
    flags: ProtocolFlags
    context: Context
    models: str = "all"
    predictions: Path | None = None
    jobs: int | None = None
    reference: str = "FSRS-6"
    no_cache: bool = False
    equivalence: float

    def __post_init__(self) -> None:
        """Add RWKV's models to `models` if --weights names a file of theirs."""
        from srs_eval.models.rwkv import add_rwkv_models

        object.__setattr__(self, "models", add_rwkv_models(self.models, self.context))

    def load(self) -> ReviewLog:
        """Load the reviews, together with the predictions of a file if there is one."""
        from srs_eval.engine.shared_reviews import add_predictions_file

        return add_predictions_file(self.source.load(), self.predictions)


@dataclass(frozen=True, kw_only=True)
class RankingOptions(EvaluationOptions):
    """Options for the ranking of models on one collection, and for its output."""

    setup: Path | None = None
    json: str | None = None
    csv: str | None = None
    all_models: bool = False
    has_named_models: bool = False  # the user has chosen which models are ranked
    names: NamingYear = "2025"
