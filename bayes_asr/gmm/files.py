"""Files of the folders that GMMs are trained of and in, by the names that Kaldi's scripts give."""

from pathlib import Path

from bayes_asr.base.files import is_there

MODEL = "final.mdl"
UNADAPTED = "final.alimdl"  # of unadapted features, with the Gaussians of final.mdl
MATRIX = "final.mat"  # of LDA and MLLT
TRANSFORMS = "trans.1"  # of speakers
PIPELINE = ("cmvn_opts", "delta_opts", "splice_opts", MATRIX, "full.mat")
OUTPUTS = (  # patterns of all files that the first phase removes
    MODEL,
    UNADAPTED,
    "tree",
    *PIPELINE,
    "ali.*.gz",
    "fsts.*.gz",
    "trans.*",
    "final.occs",
    "phone_lm.fst",
    "den.fst",
)
DATA_FILES = ("feats.scp", "cmvn.scp", "utt2spk", "text")  # read in a data directory
LANG_FILES = (  # read in a lang folder
    "L.fst",
    "words.txt",
    "oov.txt",
    "phones.txt",
    "phones/silence.int",
    "phones/optional_silence.int",
)
TREE_FILES = (  # read there too, where a tree is grown
    "topo",
    "phones/sets.int",
    "phones/roots.int",
    "phones/extra_questions.int",
    "phones/context_indep.int",
)


def is_adapted(model_dir: Path) -> bool:
    """Whether the model of a folder wants features that are adapted to the speaker."""
    return is_there(model_dir / UNADAPTED)


def find_unadapted(model_dir: Path) -> Path:
    """The model of a folder for features as they are: final.mdl where it was not adapted."""
    return model_dir / (UNADAPTED if is_adapted(model_dir) else MODEL)
