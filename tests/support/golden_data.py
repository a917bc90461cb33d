"""The cepstra that Kaldi's golden GMMs were trained on, as a data directory."""

import shutil
from pathlib import Path

from bayes_asr.tables.ark import iter_matrices, write_matrices
from tests.support.mixtures import GoldenGmms

SILENCE = {1}  # silence.csl of the TIMIT sample


def write_golden_data(golden: GoldenGmms, folder: Path) -> Path:
    """Write feats.scp, cmvn.scp, text and utt2spk."""
    source = golden.root / "data"
    folder.mkdir(parents=True)
    for name in ("feats", "cmvn"):
        archive = source / f"{name.replace('feats', 'mfcc')}_train.ark"
        write_matrices(iter_matrices(archive), folder / f"{name}.ark", folder / f"{name}.scp")
    for name in ("text", "utt2spk"):
        shutil.copyfile(source / name, folder / name)
    return folder
