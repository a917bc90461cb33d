"""The files of a recipe as modules."""

import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType


@contextmanager
def loaded(recipe: Path, *names: str) -> Iterator[Callable[[str], ModuleType]]:
    """Load files of a recipe as its scripts see them, each after those that it imports."""
    sys.path.insert(0, str(recipe))
    before = {name: sys.modules.pop(name) for name in names if name in sys.modules}
    modules = {}
    for name in names:
        spec = importlib.util.spec_from_file_location(name, recipe / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(modules[name])
    yield modules.__getitem__
    sys.path.remove(str(recipe))
    for name in names:
        del sys.modules[name]
    sys.modules.update(before)
