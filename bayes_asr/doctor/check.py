"""What the doctor says of one thing."""

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "absent", "warning", "error"]
LEAST_FREE = 2**30  # bytes of a disk, so that there is no warning


@dataclass(frozen=True)
class Check:
    """One thing that was looked at; only an error keeps a training from starting.

    absent: something that not everybody needs, and that cannot be used here.
    """

    name: str
    state: State
    message: str
