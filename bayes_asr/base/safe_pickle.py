"""Pickles that are read without running what a file may ask for.

A class is loadable once its module has marked it. All else that is made of a file is plain values
and NumPy arrays.
"""

import pickle
from typing import Any, BinaryIO, TypeVar

Kind = TypeVar("Kind")

# Names by which Python and NumPy, before and after version 2, pickle their own values.
PLAIN = {
    "builtins": {"frozenset"},
    "numpy": {"dtype", "ndarray"},
    "numpy._core.multiarray": {"_reconstruct", "scalar"},
    "numpy._core.numeric": {"_frombuffer"},
    "numpy.core.multiarray": {"_reconstruct", "scalar"},
    "numpy.core.numeric": {"_frombuffer"},
}

DAMAGE = (  # what `load` may raise of a pickle that is damaged, or none
    pickle.UnpicklingError,
    EOFError,
    RuntimeError,
    OverflowError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
)

_classes: dict[tuple[str, str], type] = {}


def loadable(kind: type[Kind]) -> type[Kind]:
    """Mark a class as one that `load` may make; a decorator.

    It takes effect when the module of the class is imported, as who calls a function that returns
    such values has done.
    """
    _classes[kind.__module__, kind.__qualname__] = kind
    return kind


def load(file: BinaryIO) -> Any:
    """Read one pickle; UnpicklingError for a class or function that is not loadable."""
    return _Reader(file).load()


class _Reader(pickle.Unpickler):
    """An unpickler that looks names up in the two tables, and nowhere else."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _classes:
            return _classes[module, name]
        # A name outside of the tables could run any code while it is loaded.
        if name not in PLAIN.get(module, ()):
            raise pickle.UnpicklingError(f"holds {module}.{name}")
        return super().find_class(module, name)
