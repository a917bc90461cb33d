"""Units outside the package: MODULE:CLASS, of a file MODULE.py in the folder of BAYES_ASR_UNITS.

A configuration or checkpoint of unknown origin only names a class. The environment of the user says
which folder holds code that may run.
"""

import os
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from bayes_asr.base.errors import ExternalError

FOLDER = "BAYES_ASR_UNITS"
PREFIX = "external_units_"  # no module of Python's or of a library is called so


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
        spec.loader.exec_module(module)
    except Exception as error:  # of any kind: the code is the user's
        del sys.modules[name]
        raise ExternalError(f"{path}: {type(error).__name__}: {error}; correct it") from error
    return module
