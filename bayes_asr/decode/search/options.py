"""Options of the search: names and meanings of Kaldi's decoders."""

from dataclasses import dataclass, fields
from typing import get_args

from bayes_asr.base.errors import InputError
from bayes_asr.config.decoding_keys import DecodeConfig
from bayes_asr.config.values import hints

UNLIMITED = 2**31 - 1
MAX_BYTES = 50_000_000  # of a lattice that is determinized: Kaldi's --max-mem


@dataclass(frozen=True)
class SearchOptions:
    """Options of `latgen-faster-mapped`; costs are natural-log costs after the acoustic scale.

    The defaults of keys of a configuration (`SEARCH_KEYS`) are those of conf/base.yaml. strict:
    drop tokens that cost just as much as the cutoff, as Kaldi's FasterDecoder does.
    """

    acoustic_scale: float = 0.1
    beam: float = 13.0
    max_active: int = 7000
    min_active: int = 200
    lattice_beam: float = 8.0
    allow_partial: bool = False
    beam_delta: float = 0.5
    prune_interval: int = 25
    strict: bool = False

    @classmethod
    def from_config(cls, config: DecodeConfig, *, allow_partial: bool = False) -> "SearchOptions":
        """The options that a configuration has under `decode`."""
        keys = {name: getattr(config, name) for name in SEARCH_KEYS}
        return cls(**keys, allow_partial=allow_partial)

    def __post_init__(self) -> None:
        """Refuse what no search can run with, or no configuration may say."""
        for name in SEARCH_KEYS:
            kind, limits = get_args(hints(DecodeConfig)[name])
            value = getattr(self, name)
            if not limits.admits(value):
                limit = limits.describe("a whole number" if kind is int else "a number")
                raise InputError(f"decode: {name} is {value:g}; it must be {limit}")
        for name in ("beam_delta", "prune_interval"):
            if not 0 < getattr(self, name) < float("inf"):
                raise InputError(f"decode: {name} must be positive, not {getattr(self, name)}")
        if self.min_active > self.max_active:
            raise InputError(
                f"decode: min_active is {self.min_active}, more than max_active, {self.max_active}"
            )


SEARCH_KEYS = tuple(
    key.name for key in fields(DecodeConfig) if key.name in {o.name for o in fields(SearchOptions)}
)
KALDI_DEFAULTS = SearchOptions(beam=16.0, max_active=UNLIMITED, lattice_beam=10.0)
"""Options of latgen-faster-mapped where none is given."""
