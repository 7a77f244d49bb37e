"""Every memory model, one file each; this module finds them.

A model file defines `MODELS`, a tuple of `Model`. It imports numpy at most;
numba, torch and others wait inside its functions, so that listing is cheap.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from pickle import PicklingError
from types import ModuleType
from typing import Any, Literal, get_args

from numpy.typing import NDArray

from srs_eval.data.arguments import (
    A_FILE,
    check_function,
    check_mapping,
    check_path,
    check_texts,
    check_type,
    check_whole_number,
)
from srs_eval.data.errors import EXTRAS, InputError, cut, described
from srs_eval.data.model_folder import read_model_folder
from srs_eval.data.reviews import FloatArray, IntArray, ReviewLog
from srs_eval.data.trials import Trials
from srs_eval.training.hyperparameters import Context, Hyperparameter
from srs_eval.training.own_code import kept_apart

_Family = Literal["baseline", "online", "sm2", "history", "other", "fsrs", "neural"]

ANY_FLAG = frozenset((
    "short", "secs", "two_buttons", "recency", "partitions", "train_equals_test",
    "no_test_same_day", "no_train_same_day", "equalize_test_with_non_secs",
))  # fmt: skip
"""Protocol flags that a trained model can usually take."""

UNTRAINED_FLAGS = ANY_FLAG - {"recency", "partitions", "train_equals_test", "no_train_same_day"}


@dataclass(frozen=True)
class Model:
    """One memory model.

    `fit(trials, train, weights, context)` returns the parameters fitted on the
    positions `train` (int64, review order) with training weights `weights` (same
    shape); `predict(trials, parameters, index, context)` returns the probability
    of recall of the trials `index` (float64, same shape). Parameters are a list of
    floats where they can be shown, else any picklable object. `fit` raises
    `NotEnoughData` where upstream falls back to the defaults; the engine then does.
    A model that learns while it is evaluated sets `online(trials, context)` instead of
    both; it returns the probabilities for `trials.test_index`.
    """

    name: str
    family: _Family
    inputs: str  # of IL, FIL, G, SR, AT as in "IL, G, SR"; "-" for none
    parameters: int  # number of trainable parameters, as tables show it
    source: str  # where the formula is from: paper, or repository and path
    predict: Callable[[Trials, Any, IntArray, Context], FloatArray] | None = None
    fit: Callable[[Trials, IntArray, FloatArray, Context], Any] | None = None
    fit_s0: Callable[[Trials, IntArray, FloatArray, Context], Any] | None = None
    """Fits the initial stabilities only (`-pretrain`)."""
    online: Callable[[Trials, Context], FloatArray] | None = None
    members: tuple[str, ...] = ()
    """Names of the configurations whose predictions `combine` makes one of, for a model that has
    neither of the above: the engine runs them."""
    combine: Callable[[Sequence[FloatArray]], FloatArray] | None = None
    """Predictions of the members, (k,) each, to one (k,)."""
    loss: (
        Callable[[Trials, FloatArray, IntArray, FloatArray, Context], tuple[float, FloatArray]]
        | None
    ) = None
    """What `fit` lowers, `loss(trials, w, train, weights, context)`, and its gradient: only for
    `models check`, where a training of one's own has a gradient written by hand."""
    pretrain: Callable[[Sequence[Trials], Context], Mapping[str, NDArray[Any]]] | None = None
    """Trains on many users, each an element of the first argument, which is read when asked for:
    `srs-eval models pretrain`. With --weights, `fit` and `predict` find what it returned in
    `context.pretrained`."""
    default: Callable[[Context], Any] = field(default=lambda context: [])
    """Parameters used untrained (`-dry-run`) and where there is too little to train on."""
    default_secs: Callable[[Context], Any] | None = None
    """The same where intervals are fractions of a day, if they differ there."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Other names of configurations: alias -> configuration name."""
    configurations: tuple[str, ...] = ()
    """The names that `all` means for this model; () for its own name only."""
    standard: str = ""
    """The configuration that the bare model name means, where it is not the name itself."""
    always_short: bool = False  # same-day reviews are always in the histories
    known_decks_only: bool = False  # see Protocol
    later_days_only: bool = False  # see Protocol
    flags: frozenset[str] = ANY_FLAG  # protocol flags it can take
    compiles: Literal["always", "to train", "never"] = "always"
    """When kernels have to be compiled, if they are not on disk yet."""
    needs: str = ""
    """A module of `srs_eval.data.errors.EXTRAS` that it cannot do without, "" for none."""
    packages: tuple[str, ...] = ()
    """Whose versions its figures depend on, as pip names them; torch is known by `needs`."""
    weights: Callable[[Context], str] | None = None
    """Digest of files of the person's own that it cannot do without, "" where there are none: it
    is not part of a group then."""
    given: bool = False
    """Somebody else has predicted: the engine takes what the log was given (`ReviewLog.given`)."""
    remarks: Callable[[Trials, Context], tuple[str, ...]] | None = None
    """What belongs beside the figures of a learner."""
    uses_device: bool = False
    """Runs on `Context.device`; a batch has one process for all such models."""
    hyperparameters: tuple[Hyperparameter, ...] = ()
    """What `fit` can be set to by the context; with SEED where it draws random numbers."""
    count_parameters: Callable[[Context, ReviewLog | None], int | None] | None = None
    """Counts parameters where `parameters` is 0 because it cannot say: of a torch module, of a file
    of weights (for a learner, if one is given). None: nobody knows, and tables show "–"."""
    parameters_with: Mapping[str, int] = field(default_factory=dict)
    """Number of parameters under "pretrain", "two_buttons" or "disable_short_term"."""
    seconds_per_10k: float = 0.1
    """Processor time for 10,000 reviews, metrics included, on a laptop's core, warm."""
    seconds_besides: float = 0.0
    """Processor time beside it, however few reviews there are."""
    seconds_to_compile: float = 1.8
    """The same for compiling its kernels, as the first run after an update does."""
    kernels_of: str = ""
    """Name of a model with the same kernels: the first of them compiles for all."""
    version: int = 1  # raise it when figures change: cached results become stale
    note: str = ""  # one sentence that belongs beside the figures
    extra: bool = False  # not part of the group `all`
    file: _ModelFile | None = None
    """Where it was loaded from, for a model that is no part of this package."""

    @property
    def compiled_as(self) -> str:
        """What models whose kernels are compiled together have in common."""
        return self.kernels_of or self.name

    @property
    def has_known_code(self) -> bool:
        """Whether a change of what it is made of is noticed, so that its figures can be kept."""
        return self.file is None or self.file.is_whole

    def code_kept_apart(self) -> AbstractContextManager[None]:
        """Surround calls of its functions: what it changes of the process is no other model's."""
        if self.file is None:
            return nullcontext()
        return kept_apart(None if self.file == MADE_HERE else self.file.path)

    @property
    def trained(self) -> bool:
        return self.fit is not None

    def __reduce__(self) -> tuple[Callable[..., Model], tuple[str, _ModelFile | None]]:
        """It holds functions that cannot be pickled: its name travels to worker processes."""
        if all_models().get(self.name) is not self:
            raise PicklingError(f"all_models() does not hold this model called {self.name}")
        return _named, (self.name, self.file)


def not_counted(context: Context, log: ReviewLog | None) -> None:
    """The number of parameters of a model that nobody can count (`Model.count_parameters`)."""


@dataclass(frozen=True)
class _ModelFile:
    """A file with models of one's own, as it was when it was loaded."""

    path: Path
    digest: str  # of what is in it and in the other files of its folder (`data.model_folder`)
    code: str  # digest of the Python files alone
    is_whole: bool  # whether the digest tells every change in the folder


MADE_HERE = _ModelFile(Path(), "", "", is_whole=False)
"""Stands for the file of a model that is an object of this process only."""
_own_folders: list[str] = []


def _named(name: str, file: _ModelFile | None) -> Model:
    if file is not None and name not in all_models():
        load_model_file(file.path)
    model = all_models()[name]
    if _code_of(model.file) != _code_of(file):
        raise InputError(f"{file and file.path} was changed while it was in use: run it again.")
    return model


def _code_of(file: _ModelFile | None) -> tuple[Path, str] | None:
    """What has to be the same in all processes of a run; a log beside it may grow meanwhile."""
    return None if file is None else (file.path, file.code)


def _forget_helpers(code: Iterable[Path]) -> None:
    """Let a changed model file import what lies beside it anew."""
    paths = {str(path) for path in code}
    for name, module in list(sys.modules.items()):
        if name != "__main__" and getattr(module, "__file__", None) in paths:
            del sys.modules[name]


def load_model_file(path: str | Path) -> tuple[Model, ...]:
    """Adds the models of a Python file of one's own to `all_models()`.

    It is written as the files here are, with `MODELS`; docs/adding-a-model.md. Its code is run.
    Where the file or its folder has changed since, its models take the place of the earlier ones.
    Raises InputError where it cannot be used.
    """
    check_path("path", A_FILE, path)
    path = Path(path).expanduser().absolute()
    try:
        content = path.read_bytes()
        folder = read_model_folder(path)
        file = _ModelFile(path, folder.digest, folder.code_digest, folder.is_whole)
    except OSError as error:
        raise InputError(f'"{path}" cannot be read ({error.strerror}).') from None
    loaded = {name: model for name, model in all_models().items() if _lies_at(model, path)}
    if loaded and file.is_whole and all(model.file == file for model in loaded.values()):
        return tuple(loaded.values())
    _make_importable(path.parent)
    if loaded:
        _forget_helpers(folder.code)
    for name in loaded:
        del all_models()[name]
    module = ModuleType(f"srs_eval_model_file_{file.digest[:16]}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # kernels are compiled from a module's source
    try:
        # What was hashed, not what bytecode there may be of it.
        with kept_apart(path):
            exec(compile(content, path, "exec"), vars(module))
        models = tuple(replace(model, file=file) for model in vars(module).get("MODELS", ()))
        found = (
            _wrong_with(model, [each.name for each in models[:k]]) for k, model in enumerate(models)
        )
        wrong = next(filter(None, found), "")
    except BaseException as error:
        all_models().update(loaded)
        if type(error) is KeyboardInterrupt:
            raise
        del sys.modules[module.__name__]
        raise InputError(f'"{path}" is no file of models: {described(error)}.') from error
    if wrong or not models:
        all_models().update(loaded)
        said = f": {cut(wrong)}" if wrong else " has no models in MODELS"
        raise InputError(f'"{path}"{said}.')
    all_models().update({model.name: model for model in models})
    return models


def _lies_at(model: Model, path: Path) -> bool:
    return model.file is not None and model.file.path == path


def add_model(model: Model) -> str:
    """Adds a model that is made here, in a notebook say, to `all_models()`; its name.

    It joins no group, and replaces what was made here under its name before. Raises InputError
    where it cannot be used.
    """
    models = all_models()
    if (before := models.get(model.name)) is model:
        return model.name
    if before is not None and before.file == MADE_HERE:
        del models[model.name]
    if wrong := _wrong_with(model, []):
        raise InputError(f"{cut(wrong)}.")
    models[model.name] = replace(model, file=MADE_HERE, extra=True)
    return model.name


def _make_importable(folder: Path) -> None:
    """Lets what lies in the folder be imported, also while a model runs; what is installed wins.

    Raises InputError where a module of this name from another model's folder is in use.
    """
    for path in folder.glob("*.py"):
        there = getattr(sys.modules.get(path.stem), "__file__", None)
        if there and Path(there).parent != folder and str(Path(there).parent) in _own_folders:
            raise InputError(f'"{path}" and "{there}" cannot be used in one run: rename one.')
    if str(folder) not in _own_folders:
        _own_folders.append(str(folder))
        sys.path.append(str(folder))


_FUNCTIONS = (
    *("predict", "fit", "fit_s0", "online", "combine", "loss", "pretrain", "default_secs"),
    *("weights", "remarks", "count_parameters"),
)
_COLLECTIONS = ("members", "configurations", "flags", "packages")


def _check_types(model: Model) -> None:
    """Raise InputError for a part of a model that is of another type."""
    name = model.name
    if not isinstance(name, str):
        return  # that is said of all texts
    check_whole_number(f"{name}: parameters", model.parameters, least=0)
    check_function(f"{name}: default", "a function", model.default)
    for part in _FUNCTIONS:
        function = getattr(model, part)
        if function is not None:
            check_function(f"{name}: {part}", "a function", function)
    for part in _COLLECTIONS:
        check_texts(f"{name}: {part}", "a collection of texts", getattr(model, part))
    for part, words in (("aliases", "a dictionary of texts"), ("parameters_with", "a dictionary")):
        check_mapping(f"{name}: {part}", words, getattr(model, part))
    words = "a tuple of Hyperparameter objects"
    check_type(f"{name}: hyperparameters", words, model.hyperparameters, tuple, list)
    for hyperparameter in model.hyperparameters:
        check_type(f"{name}: hyperparameters", words, hyperparameter, Hyperparameter)


def _wrong_with(model: Model, before: Sequence[str]) -> str:
    """Why a model of one's own cannot be used; "" where it can."""
    try:
        _check_types(model)
    except InputError as error:
        return str(error).removesuffix(".")
    texts: list[object] = [
        *(model.name, model.family, model.inputs, model.source, model.note, model.needs),
        *(model.standard, model.kernels_of, *model.configurations, *model.flags),
        *(*model.aliases, *model.aliases.values()),
    ]
    if no_text := [each for each in texts if not isinstance(each, str)]:
        return f"{no_text[0]!r} stands where a model has a text, such as its name"
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9 .%+_\[\]-]{0,60}", model.name):
        return f"{model.name!r} is no name for a model: letters, digits and . % + _ - [ ] make one"
    if model.family not in get_args(_Family):
        return f"{model.name} has the family {model.family!r}, which is none of the groups"
    if model.needs and model.needs not in EXTRAS:
        return f"{model.name} needs {model.needs!r}, which is none of {', '.join(EXTRAS)}"
    if model.name in before:
        return f"there are two models called {model.name}"
    from srs_eval.models.configurations import meant_by

    known = meant_by(model.name)
    return f"{model.name} means {known} already; give it another name" if known else ""


@cache
def all_models() -> dict[str, Model]:
    """Every model by name, in order of name within families; last those of one's own files."""
    found: dict[str, Model] = {}
    for info in pkgutil.iter_modules(__path__):
        if info.name.startswith("_"):
            continue
        module = importlib.import_module(f"{__name__}.{info.name}")
        for model in getattr(module, "MODELS", ()):
            if model.name in found:
                raise RuntimeError(f"two models are called {model.name}")
            found[model.name] = model
    families = get_args(_Family)
    return dict(sorted(found.items(), key=lambda item: (families.index(item[1].family), item[0])))
