"""Memory that a process offers to others of its machine."""

import mmap
import os
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress


@contextmanager
def offer_memory(size: int) -> Iterator[tuple[str, str] | None]:
    """Yield the path and the name of new memory that other processes can open; None if none can.

    It has no name in a file system, and goes with the last process that sees it.
    """
    name, offer = f"bayes_asr-{uuid.uuid4()}", None
    with ExitStack() as stack:
        with suppress(AttributeError, OSError):  # not Linux, or not allowed
            descriptor = os.memfd_create(name)
            stack.callback(os.close, descriptor)
            os.truncate(descriptor, size)
            # The link's text has the random name, which proves that it is the same memory.
            offer = f"/proc/{os.getpid()}/fd/{descriptor}", f"/memfd:{name} (deleted)"
        yield offer


def open_memory(path: str, name: str, size: int) -> mmap.mmap | None:
    """The memory that is offered at `path`, unless this is another machine."""
    with suppress(OSError):
        if os.readlink(path) == name:
            with open(path, "r+b") as file:
                return mmap.mmap(file.fileno(), size)
    return None
