"""How to search: names, meanings and defaults of Kaldi's decoders."""

from dataclasses import dataclass
from typing import get_args

from bayes_asr.base.errors import InputError
from bayes_asr.config.decoding_keys import DecodeConfig
from bayes_asr.config.values import hints

UNLIMITED = 2**31 - 1
MAX_BYTES = 50_000_000  # of a lattice that is determinized: Kaldi's --max-mem


@dataclass(frozen=True)
class DecodeOptions:
    """Options of `latgen-faster-mapped`; costs are natural-log costs after the acoustic scale.

    strict: drop tokens that cost just as much as the cutoff, as Kaldi's FasterDecoder does.
    """

    acoustic_scale: float = 0.1
    beam: float = 16.0
    max_active: int = UNLIMITED
    min_active: int = 200
    lattice_beam: float = 10.0
    allow_partial: bool = False
    beam_delta: float = 0.5
    prune_interval: int = 25
    strict: bool = False

    def __post_init__(self) -> None:
        """Refuse what no search can run with, or no configuration may say."""
        for name, hint in hints(DecodeConfig).items():
            value = getattr(self, name, None)
            if value is None:
                continue
            kind, limits = get_args(hint)
            if not limits.admits(value):
                said = limits.describe("a whole number" if kind is int else "a number")
                raise InputError(f"decode: {name} is {value:g}; it must be {said}")
        for name in ("beam_delta", "prune_interval"):
            if not 0 < getattr(self, name) < float("inf"):
                raise InputError(f"decode: {name} must be positive, not {getattr(self, name)}")
        if self.min_active > self.max_active:
            raise InputError(
                f"decode: min_active is {self.min_active}, more than max_active, {self.max_active}"
            )
