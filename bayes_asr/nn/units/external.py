"""Units outside the package: MODULE:CLASS, of a file MODULE.py in the folder of BAYES_ASR_UNITS.

A configuration or checkpoint of unknown origin only names a class. The environment of the user says
which folder holds code that may run.
"""

import hashlib
import os
import sys
from collections.abc import Mapping
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from bayes_asr.base.errors import ExternalError

FOLDER = "BAYES_ASR_UNITS"
PREFIX = "external_units_"  # no module of Python's or of a library is called so
_hashes: dict[str, str] = {}  # SHA-256 of the files that were imported, by name


def find_external(unit: str) -> object:
    """Import MODULE:CLASS; ExternalError, saying what to do, where it is not there."""
    module, _, name = unit.partition(":")
    directory = os.environ.get(FOLDER)
    if not directory:
        raise ExternalError(
            f"unit is {unit}, outside the package: set {FOLDER} to the folder of {module}.py, whose"
            " code is run then"
        )
    path = Path(directory).absolute() / f"{module}.py"
    if not path.is_file():
        raise ExternalError(f"unit is {unit}, but there is no {path}; {FOLDER} names its folder")
    loaded = _import_file(path)
    if not hasattr(loaded, name):
        raise ExternalError(f"unit is {unit}, but {path} has no {name}")
    return getattr(loaded, name)


def hash_files(architecture: Mapping[str, Any]) -> dict[str, str]:
    """SHA-256 of the files of the external units of a network, by name, as they were imported."""
    units = [unit for layer in architecture["layers"] if ":" in (unit := layer.get("unit") or "")]
    for unit in units:
        find_external(unit)
    files = dict.fromkeys(f"{unit.partition(':')[0]}.py" for unit in units)
    return {file: _hashes[file] for file in files}


def find_changed(content: Mapping[str, Any]) -> list[Path]:
    """The files of units that are others than those that a checkpoint was trained with."""
    trained, imported = content.get("unit_files", {}), hash_files(content["architecture"])
    changed = [file for file in imported if trained.get(file, imported[file]) != imported[file]]
    return [Path(os.environ[FOLDER]).absolute() / file for file in changed]


def _import_file(path: Path) -> ModuleType:
    """The module of a file, imported once."""
    name = f"{PREFIX}{path.stem}"
    imported = sys.modules.get(name)
    if imported is not None and imported.__file__ == str(path):
        return imported
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ExternalError(f"{path}: cannot be imported")
    module = module_from_spec(spec)
    sys.modules[name] = module  # before it runs: dataclasses look for their module there
    try:
        source = SourceFileLoader(name, str(path)).get_data(str(path))
        _hashes[path.name] = hashlib.sha256(source).hexdigest()
        spec.loader.exec_module(module)
    except Exception as error:  # of any kind: the code is the user's
        del sys.modules[name]
        raise ExternalError(f"{path}: {type(error).__name__}: {error}; correct it") from error
    return module
