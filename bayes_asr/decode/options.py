"""How to search: names, meanings and defaults of Kaldi's decoders."""

from dataclasses import dataclass

from bayes_asr.errors import InputError

UNLIMITED = 2**31 - 1
MAX_BYTES = 50_000_000  # of a lattice that is determinized: Kaldi's --max-mem


@dataclass(frozen=True)
class DecodeOptions:
    """Options of `latgen-faster-mapped`; costs are natural-log costs after the acoustic scale."""

    acoustic_scale: float = 0.1
    beam: float = 16.0
    max_active: int = UNLIMITED
    min_active: int = 200
    lattice_beam: float = 10.0
    allow_partial: bool = False
    beam_delta: float = 0.5
    prune_interval: int = 25

    def __post_init__(self) -> None:
        """Refuse values that no search can run with."""
        for name in ("acoustic_scale", "beam", "lattice_beam", "beam_delta", "prune_interval"):
            if not 0 < getattr(self, name) < float("inf"):
                raise InputError(f"decode: {name} must be positive, not {getattr(self, name)}")
        if not (1 < self.max_active <= UNLIMITED and 0 <= self.min_active <= self.max_active):
            raise InputError(
                f"decode: max_active must be above 1, up to {UNLIMITED} and at least min_active, "
                f"not {self.max_active} and {self.min_active}"
            )
