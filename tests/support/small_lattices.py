"""Lattices of the made-up corpus: the alignment, and other states beside it in each frame."""

from pathlib import Path

import numpy as np

from bayes_asr.kaldi_io.lattice import Lattice
from bayes_asr.kaldi_io.lattice_files import write_lattices
from tests.support.small_corpus import MODEL, SETS, made_up


def make_lattice(alignment: np.ndarray, rng: np.random.Generator, others: int = 2) -> Lattice:
    """A chain of frames, each passed by the transition-id of the alignment or by one of others."""
    frames = len(alignment)
    wrong = rng.integers(1, MODEL.num_transition_ids + 1, (frames, others))
    tids = np.concatenate([alignment[:, None], wrong], 1).astype(np.int32)
    per_state = np.append(np.arange(frames + 1) * (others + 1), frames * (others + 1))
    final = np.full(frames + 1, np.inf, np.float32)
    final[-1] = 0
    return Lattice(
        offsets=per_state.astype(np.int64),
        ilabel=tids.ravel(),
        olabel=np.zeros(tids.size, np.int32),
        graph=rng.random(tids.size).astype(np.float32),
        acoustic=rng.random(tids.size).astype(np.float32),
        nextstate=np.repeat(np.arange(1, frames + 1, dtype=np.int32), others + 1),
        final_graph=final,
        final_acoustic=final,
    )


def write_denlats(folder: Path, *sets: str, without: str = "") -> Path:
    """Write lattices of all utterances of sets, but for one, as lat.1.gz; returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(5)
    lattices = [
        (utt, make_lattice(alignment, rng))
        for name in sets
        for utt, alignment in made_up(name, SETS[name])[1].items()
        if utt != without
    ]
    write_lattices(lattices, folder / "lat.1.gz")
    return folder
