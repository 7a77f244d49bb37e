"""Define `Model` and load the memory models of this package, one file each.

A model file defines `MODELS`, a tuple of `Model`. At its top it imports numpy at most; numba, torch
and others are imported inside its functions, so that listing the models is cheap.
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
from srs_eval.data.errors import EXTRAS, InputError, describe_error, shorten
from srs_eval.data.model_folder import read_model_folder
from srs_eval.data.reviews import FloatArray, IntArray, ReviewLog
from srs_eval.data.trials import Trials
from srs_eval.training.hyperparameters import Context, Hyperparameter
from srs_eval.training.own_code import isolate_settings

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

    `fit(trials, train, weights, context)` returns the parameters fitted on the positions `train`
    (int64, review order) with training weights `weights` (same shape). Parameters are a list of
    floats where they can be shown, else any picklable object. `fit` raises `NotEnoughData` where
    upstream falls back to the defaults; the engine then uses them.

    `predict(trials, parameters, index, context)` returns the probability of recall of the trials
    `index` (float64, same shape).

    A model that learns while it is evaluated sets `online(trials, context)` instead of both; it
    returns the probabilities for `trials.test_index`.
    """

    name: str
    family: _Family
    inputs: str  # some of IL, FIL, G, SR, AT, as in "IL, G, SR"; "-" for none
    parameters: int  # number of trainable parameters, as tables show it
    source: str  # where the formula is from: paper, or repository and path
    predict: Callable[[Trials, Any, IntArray, Context], FloatArray] | None = None
    fit: Callable[[Trials, IntArray, FloatArray, Context], Any] | None = None
    fit_s0: Callable[[Trials, IntArray, FloatArray, Context], Any] | None = None
    """Fits only the initial stabilities (`-pretrain`)."""
    online: Callable[[Trials, Context], FloatArray] | None = None
    members: tuple[str, ...] = ()
    """Names of the configurations whose predictions `combine` merges into one, in a model without
    `predict` and `online`; the engine runs them."""
    combine: Callable[[Sequence[FloatArray]], FloatArray] | None = None
    """Merges the predictions of the members, (k,) each, into one array (k,)."""
    loss: (
        Callable[[Trials, FloatArray, IntArray, FloatArray, Context], tuple[float, FloatArray]]
        | None
    ) = None
    """`loss(trials, w, train, weights, context)` returns the loss that `fit` reduces, and its
    gradient. Only `models check` uses it, for a user's training whose gradient is written by
    hand."""
    pretrain: Callable[[Sequence[Trials], Context], Mapping[str, NDArray[Any]]] | None = None
    """Trains on many users (`srs-eval models pretrain`). Each element of the first argument is one
    user, who is read only when the element is accessed. With --weights, `fit` and `predict` find
    the returned weights in `context.pretrained`."""
    default: Callable[[Context], Any] = field(default=lambda context: [])
    """Returns the parameters used without training (`-dry-run`) and where there is too little to
    train on."""
    default_secs: Callable[[Context], Any] | None = None
    """Returns the default parameters where intervals are fractions of a day, if they differ
    there."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Other names of configurations: alias -> configuration name."""
    configurations: tuple[str, ...] = ()
    """Names of the configurations that the group `all` includes; () for the model's own name
    only."""
    standard: str = ""
    """The configuration that the bare model name means, where it is not the name itself."""
    always_short: bool = False  # same-day reviews are always in the histories
    known_decks_only: bool = False  # see Protocol
    later_days_only: bool = False  # see Protocol
    flags: frozenset[str] = ANY_FLAG  # protocol flags it can take
    compiles: Literal["always", "to train", "never"] = "always"
    """When kernels have to be compiled, if they are not on disk yet."""
    needs: str = ""
    """Module of `srs_eval.data.errors.EXTRAS` that the model requires; "" for none."""
    packages: tuple[str, ...] = ()
    """Packages whose versions affect the figures, by their pip names; `needs` covers torch."""
    weights: Callable[[Context], str] | None = None
    """Returns a digest of the user's own files that the model requires, or "" where there are none;
    the model then belongs to no group."""
    given: bool = False
    """The predictions are external: the engine takes them from `ReviewLog.external_predictions`."""
    remarks: Callable[[Trials, Context], tuple[str, ...]] | None = None
    """Returns remarks to show next to a learner's figures."""
    uses_device: bool = False
    """Whether the model runs on `Context.device`."""
    hyperparameters: tuple[Hyperparameter, ...] = ()
    """Settings of `fit` that the context can change; includes SEED where `fit` draws random
    numbers."""
    count_parameters: Callable[[Context, ReviewLog | None], int | None] | None = None
    """Counts the parameters where `parameters` is 0 because their number is not fixed: those of a
    torch module or of a weight file (for the given learner, if any). None means that the number is
    unknown; tables then show "–"."""
    parameters_with: Mapping[str, int] = field(default_factory=dict)
    """Number of parameters under "pretrain", "two_buttons" or "disable_short_term"."""
    seconds_per_10k: float = 0.1
    """Processor time for 10,000 reviews, metrics included, on one core of a laptop, once warmed
    up."""
    seconds_besides: float = 0.0
    """Additional processor time, which does not depend on the number of reviews."""
    seconds_to_compile: float = 1.8
    """Processor time for compiling the kernels, as in the first run after an update."""
    kernels_of: str = ""
    """Name of a model with the same kernels; the first of these models to run compiles for all."""
    version: int = 1  # raise it when figures change: cached results become stale
    note: str = ""  # one sentence to show next to the figures
    extra: bool = False  # not part of the group `all`
    file: ModelFile | None = None
    """File that the model was loaded from, if it is not part of this package."""

    @property
    def kernel_owner(self) -> str:
        """Name shared by models whose kernels are compiled together."""
        return self.kernels_of or self.name

    @property
    def has_known_code(self) -> bool:
        """Return whether changes to the model's files are noticed, so its figures can be kept."""
        return self.file is None or self.file.is_complete

    def isolate_settings(self) -> AbstractContextManager[None]:
        """Return a context for calls of the model's functions that isolates their process settings.

        Changes that the functions make to the process do not affect other models.
        """
        if self.file is None:
            return nullcontext()
        return isolate_settings(None if self.file == IN_MEMORY else self.file.path)

    @property
    def is_trained(self) -> bool:
        return self.fit is not None

    def __reduce__(self) -> tuple[Callable[..., Model], tuple[str, ModelFile | None]]:
        """Pickle the model by name, because its functions cannot be pickled.

        Worker processes look the model up by its name. Raises PicklingError if `all_models()` holds
        another model of this name.
        """
        if all_models().get(self.name) is not self:
            raise PicklingError(f"all_models() does not hold this model called {self.name}")
        return _restore_model, (self.name, self.file)


def count_unknown(context: Context, log: ReviewLog | None) -> None:
    """Return None, for a model whose number of parameters is unknown (`Model.count_parameters`)."""


@dataclass(frozen=True)
class ModelFile:
    """A Python file with user models, as it was when it was loaded."""

    path: Path
    digest: str  # of its content and the other files of its folder (`data.model_folder`)
    code_digest: str  # digest of the Python files alone
    is_complete: bool  # whether the digest covers every change in the folder


IN_MEMORY = ModelFile(Path(), "", "", is_complete=False)
"""Stands in for the file of a model that exists only in this process."""
_model_folders: list[str] = []


def _restore_model(name: str, file: ModelFile | None) -> Model:
    if file is not None and name not in all_models():
        load_model_file(file.path)
    model = all_models()[name]
    if _code_identity(model.file) != _code_identity(file):
        raise InputError(f"{file and file.path} was changed while it was in use: run it again.")
    return model


def _code_identity(file: ModelFile | None) -> tuple[Path, str] | None:
    """Return what must be the same in all processes of a run: path and code digest.

    Other files of the folder, such as a log, may change meanwhile.
    """
    return None if file is None else (file.path, file.code_digest)


def _forget_modules(files: Iterable[Path]) -> None:
    """Remove the modules of these files from `sys.modules`, so that they are imported anew.

    A changed model file then imports its neighbours as they are now.
    """
    paths = {str(path) for path in files}
    for name, module in list(sys.modules.items()):
        if name != "__main__" and getattr(module, "__file__", None) in paths:
            del sys.modules[name]


def load_model_file(path: str | Path) -> tuple[Model, ...]:
    """Add the models of a user's Python file to `all_models()` and return them.

    The file defines `MODELS`, as the files here do (docs/adding-a-model.md); its code is executed.
    If the file or its folder has changed since it was last loaded, its models replace the earlier
    ones.

    Raises InputError if the file cannot be used.
    """
    check_path("path", A_FILE, path)
    path = Path(path).expanduser().absolute()
    try:
        content = path.read_bytes()
        folder = read_model_folder(path)
        file = ModelFile(path, folder.digest, folder.code_digest, folder.is_complete)
    except OSError as error:
        raise InputError(f'"{path}" cannot be read ({error.strerror}).') from None
    loaded = {name: model for name, model in all_models().items() if _is_from_file(model, path)}
    if loaded and file.is_complete and all(model.file == file for model in loaded.values()):
        return tuple(loaded.values())
    _make_importable(path.parent)
    if loaded:
        _forget_modules(folder.code_files)
    for name in loaded:
        del all_models()[name]
    module = ModuleType(f"srs_eval_model_file_{file.digest[:16]}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # kernels are compiled from a module's source
    try:
        # Execute the content that was hashed, not bytecode that may exist of it.
        with isolate_settings(path):
            exec(compile(content, path, "exec"), vars(module))
        models = tuple(replace(model, file=file) for model in vars(module).get("MODELS", ()))
        fault = ""
        earlier_names: list[str] = []
        for model in models:
            fault = _find_fault(model, earlier_names)
            if fault:
                break
            earlier_names.append(model.name)
    except BaseException as error:
        all_models().update(loaded)
        if type(error) is KeyboardInterrupt:
            raise
        del sys.modules[module.__name__]
        raise InputError(f'"{path}" is no file of models: {describe_error(error)}.') from error
    if fault or not models:
        all_models().update(loaded)
        problem = f": {shorten(fault)}" if fault else " has no models in MODELS"
        raise InputError(f'"{path}"{problem}.')
    all_models().update({model.name: model for model in models})
    return models


def _is_from_file(model: Model, path: Path) -> bool:
    return model.file is not None and model.file.path == path


def add_model(model: Model) -> str:
    """Add a model created in this process, such as in a notebook, and return its name.

    The model is added to `all_models()`, joins no group, and replaces a model of the same name that
    was added this way before. Raises InputError if it cannot be used.
    """
    models = all_models()
    previous = models.get(model.name)
    if previous is model:
        return model.name
    if previous is not None and previous.file == IN_MEMORY:
        del models[model.name]
    fault = _find_fault(model, [])
    if fault:
        raise InputError(f"{shorten(fault)}.")
    models[model.name] = replace(model, file=IN_MEMORY, extra=True)
    return model.name


def _make_importable(folder: Path) -> None:
    """Make a folder's modules importable, also while a model runs; installed modules win.

    Raises InputError if a module of the same name from another model's folder is in use.
    """
    for path in folder.glob("*.py"):
        imported = getattr(sys.modules.get(path.stem), "__file__", None)
        if not imported:
            continue
        imported_folder = Path(imported).parent
        if imported_folder != folder and str(imported_folder) in _model_folders:
            raise InputError(f'"{path}" and "{imported}" cannot be used in one run: rename one.')
    if str(folder) not in _model_folders:
        _model_folders.append(str(folder))
        sys.path.append(str(folder))


_FUNCTIONS = (
    "predict",
    "fit",
    "fit_s0",
    "online",
    "combine",
    "loss",
    "pretrain",
    "default_secs",
    "weights",
    "remarks",
    "count_parameters",
)
_COLLECTIONS = ("members", "configurations", "flags", "packages")


def _check_types(model: Model) -> None:
    """Raise InputError if a field of the model has the wrong type."""
    name = model.name
    if not isinstance(name, str):
        return  # reported together with all other texts
    check_whole_number(f"{name}: parameters", model.parameters, least=0)
    check_function(f"{name}: default", "a function", model.default)
    for field_name in _FUNCTIONS:
        function = getattr(model, field_name)
        if function is not None:
            check_function(f"{name}: {field_name}", "a function", function)
    for field_name in _COLLECTIONS:
        check_texts(f"{name}: {field_name}", "a collection of texts", getattr(model, field_name))
    check_mapping(f"{name}: aliases", "a dictionary of texts", model.aliases)
    check_mapping(f"{name}: parameters_with", "a dictionary", model.parameters_with)
    words = "a tuple of Hyperparameter objects"
    check_type(f"{name}: hyperparameters", words, model.hyperparameters, tuple, list)
    for hyperparameter in model.hyperparameters:
        check_type(f"{name}: hyperparameters", words, hyperparameter, Hyperparameter)


def _find_fault(model: Model, earlier_names: Sequence[str]) -> str:
    """Return the reason why a user model cannot be used, or "" if it can."""
    try:
        _check_types(model)
    except InputError as error:
        return str(error).removesuffix(".")
    texts: list[object] = [
        model.name,
        model.family,
        model.inputs,
        model.source,
        model.note,
        model.needs,
        model.standard,
        model.kernels_of,
        *model.configurations,
        *model.flags,
        *model.aliases,
        *model.aliases.values(),
    ]
    for text in texts:
        if not isinstance(text, str):
            return f"{text!r} stands where a model has a text, such as its name"
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9 .%+_\[\]-]{0,60}", model.name):
        return f"{model.name!r} is no name for a model: letters, digits and . % + _ - [ ] make one"
    if model.family not in get_args(_Family):
        return f"{model.name} has the family {model.family!r}, which is none of the groups"
    if model.needs and model.needs not in EXTRAS:
        return f"{model.name} needs {model.needs!r}, which is none of {', '.join(EXTRAS)}"
    if model.name in earlier_names:
        return f"there are two models called {model.name}"
    from srs_eval.models.configurations import find_meaning

    meaning = find_meaning(model.name)
    return f"{model.name} means {meaning} already; give it another name" if meaning else ""


@cache
def all_models() -> dict[str, Model]:
    """Return every model by name, sorted by family and name; models of user files come last."""
    models: dict[str, Model] = {}
    for info in pkgutil.iter_modules(__path__):
        if info.name.startswith("_"):
            continue
        module = importlib.import_module(f"{__name__}.{info.name}")
        for model in getattr(module, "MODELS", ()):
            if model.name in models:
                raise RuntimeError(f"two models are called {model.name}")
            models[model.name] = model
    families = get_args(_Family)
    return dict(sorted(models.items(), key=lambda item: (families.index(item[1].family), item[0])))
