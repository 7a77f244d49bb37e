"""List the memory models of this package, one file each, and load those of users' files.

A model file defines `MODELS`, a tuple of models of the kinds in `models.kinds`. At its top it
imports numpy at most; numba, torch and others are imported inside its functions, so that listing
the models is cheap.
"""

from __future__ import annotations

import copyreg
import importlib
import pkgutil
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from pickle import PicklingError
from types import ModuleType
from typing import get_args

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
from srs_eval.models.kinds import (
    ANY_FLAG,
    IN_MEMORY,
    UNTRAINED_FLAGS,
    Cost,
    Ensemble,
    ExternalModel,
    Family,
    Model,
    ModelFile,
    OnlineModel,
    TrainedModel,
    no_parameters,
)
from srs_eval.training.hyperparameters import Context, Hyperparameter
from srs_eval.training.own_code import isolate_settings

__all__ = [
    "ANY_FLAG",
    "IN_MEMORY",
    "UNTRAINED_FLAGS",
    "Context",
    "Cost",
    "Ensemble",
    "ExternalModel",
    "Model",
    "ModelFile",
    "OnlineModel",
    "TrainedModel",
    "add_model",
    "all_models",
    "load_model_file",
    "no_parameters",
]

_KINDS = (TrainedModel, OnlineModel, Ensemble, ExternalModel)


def _reduce_model(model: Model) -> tuple[Callable[..., Model], tuple[str, ModelFile | None]]:
    """Pickle the model by name, because its functions cannot be pickled.

    Worker processes look the model up by its name. Raises PicklingError if `all_models()` holds
    another model of this name.
    """
    if all_models().get(model.name) is not model:
        raise PicklingError(f"the model {model.name} is not the one in all_models()")
    return _restore_model, (model.name, model.file)


for _kind in _KINDS:
    copyreg.pickle(_kind, _reduce_model)

_model_folders: list[str] = []
"""Folders of model files, which are also on `sys.path`."""


def _restore_model(name: str, file: ModelFile | None) -> Model:
    if file is not None and name not in all_models():
        load_model_file(file.path)
    model = all_models()[name]
    if _code_identity(model.file) != _code_identity(file):
        raise InputError(f"{file and file.path} was changed while it was in use: evaluate again.")
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
        # Execute the content that was hashed, not bytecode, which may be older.
        with isolate_settings(path):
            exec(compile(content, path, "exec"), vars(module))
        models = tuple(_with_file(model, file) for model in vars(module).get("MODELS", ()))
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
        reason = str(error) if isinstance(error, InputError) else describe_error(error)
        raise InputError(f'"{path}" is not a file of models: {shorten(reason)}.') from error
    if fault or not models:
        all_models().update(loaded)
        problem = f": {shorten(fault)}" if fault else " has no models in MODELS"
        raise InputError(f'"{path}"{problem}.')
    all_models().update({model.name: model for model in models})
    return models


def _with_file(model: object, file: ModelFile) -> Model:
    """Return the model with its file. Raises InputError for an object that is not a model."""
    if isinstance(model, Model) and type(model) in _KINDS:
        return replace(model, file=file)
    names = "TrainedModel, OnlineModel or Ensemble"
    raise InputError(f"MODELS holds an object of type {type(model).__name__}; use {names}")


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
    """Put a folder at the end of `sys.path`, so that models can import from it while they run.

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
    "default",
    "default_secs",
    "weights",
    "remarks",
    "count_parameters",
)
_REQUIRED_FUNCTIONS = ("predict", "online", "combine")
_COLLECTIONS = ("members", "configurations", "flags", "packages")


def _check_types(model: Model) -> None:
    """Raise InputError if a field of the model has the wrong type."""
    name = model.name
    if not isinstance(name, str):
        return  # reported together with all other texts
    if model.parameters is not None:
        check_whole_number(f"{name}: parameters", model.parameters, least=0)
    present = [field.name for field in fields(model)]
    for field_name in _FUNCTIONS:
        if field_name not in present:
            continue
        function = getattr(model, field_name)
        if function is not None or field_name in _REQUIRED_FUNCTIONS:
            check_function(f"{name}: {field_name}", "a function", function)
    for field_name in _COLLECTIONS:
        if field_name in present:
            texts = getattr(model, field_name)
            check_texts(f"{name}: {field_name}", "a collection of strings", texts)
    check_mapping(f"{name}: aliases", "a dictionary of strings", model.aliases)
    check_type(f"{name}: cost", "a Cost object", model.cost, Cost)
    if not isinstance(model, TrainedModel):
        return
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
        model.cost.kernels_of,
        *model.configurations,
        *model.flags,
        *model.aliases,
        *model.aliases.values(),
    ]
    for text in texts:
        if not isinstance(text, str):
            return f"{text!r} is not a string, but a model's name, source and so on must be strings"
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9 .%+_\[\]-]{0,60}", model.name):
        return f"{model.name!r} is not a valid model name: use letters, digits and . % + _ - [ ]"
    if model.family not in get_args(Family):
        families = ", ".join(get_args(Family))
        return f"{model.name} has the family {model.family!r}, which is not one of {families}"
    if model.needs and model.needs not in EXTRAS:
        return f"{model.name} needs {model.needs!r}, which is not one of {', '.join(EXTRAS)}"
    if model.name in earlier_names:
        return f"there are two models called {model.name}"
    from srs_eval.models.configurations import find_meaning

    meaning = find_meaning(model.name)
    return f"{model.name} already means {meaning}; give it another name" if meaning else ""


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
    families = get_args(Family)
    return dict(sorted(models.items(), key=lambda item: (families.index(item[1].family), item[0])))
