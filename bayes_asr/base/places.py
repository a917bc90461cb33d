"""Places to write to, judged before the work whose results they shall hold."""

import os
from pathlib import Path


def find_obstacle(directory: Path) -> str:
    """What keeps files out of a folder, which may be new, in words; empty where nothing does."""
    place = directory.absolute()
    # Of a new folder the nearest one that exists must allow writing.
    existing = next(path for path in (place, *place.parents) if os.path.lexists(path))
    if not existing.is_dir():
        return f"{existing} is no folder"
    allowed = os.access(existing, os.W_OK | os.X_OK, effective_ids=True)
    return "" if allowed else f"{existing} may not be written to"
