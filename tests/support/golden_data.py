"""The cepstra that Kaldi's golden GMMs were trained on, as a data directory."""

import shutil
from collections.abc import Collection
from pathlib import Path

from bayes_asr.kaldi_io.ark import iter_matrices, write_matrices
from bayes_asr.kaldi_io.text import write_lines
from tests.support.mixtures import GoldenGmms, golden_gmms

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


def write_few(folder: Path, every: int = 7) -> Path:
    """The same with one of `every` utterances alone; 7 leave a dozen, of all speakers."""
    data = write_golden_data(golden_gmms(), folder)
    names = [utt for utt, _ in iter_matrices(data / "feats.scp")]
    for name in ("feats.scp", "text", "utt2spk"):
        keep_lines(data / name, names[::every])
    return data


def keep_lines(table: Path, utterances: Collection[str]) -> None:
    """Remove the lines of all other utterances."""
    lines = table.read_text().splitlines()
    write_lines([line for line in lines if line.split()[0] in utterances], table)


def lay_out(name: str, folder: Path) -> Path:
    """The folder of golden alignments by a model of Kaldi's, as align_si.sh leaves it."""
    root = golden_gmms().root
    model = root / name.removesuffix("_ali")
    out = folder / name
    out.mkdir()
    for kept in ("final.mdl", "tree", "cmvn_opts", "splice_opts"):
        if (model / kept).exists():
            shutil.copyfile(model / kept, out / kept)
    for matrix in ("final.mat", "full.mat"):
        if (model / f"{matrix}.txt").exists():
            shutil.copyfile(model / f"{matrix}.txt", out / matrix)
    shutil.copyfile(root / name / "ali.1.gz", out / "ali.1.gz")
    return out


def find_lang() -> Path:
    """The lang folder of the golden GMMs."""
    return golden_gmms().root.parents[1] / "data" / "lang"
