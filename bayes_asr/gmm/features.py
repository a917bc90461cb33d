"""Features of GMMs: cepstra less the speaker's mean, with deltas or spliced, then transformed.

A model directory records them as Kaldi's scripts do: by cmvn_opts, delta_opts, splice_opts,
final.mat, full.mat and, beside an alignment, trans.N.
"""

import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import discard, find_files, is_there, replacing, together
from bayes_asr.base.places import refuse_foreign, refuse_read
from bayes_asr.base.progress import follow
from bayes_asr.data.corpus.labelled import Features
from bayes_asr.data.features import fmllr_record
from bayes_asr.data.features.fmllr_record import FmllrRecord, write_record
from bayes_asr.data.features.front_end import (
    DELTA_WINDOW,
    Cmvn,
    FrontEnd,
    cmvn_statistics,
    read_analysis,
)
from bayes_asr.data.features.skipped import report_skipped
from bayes_asr.gmm.affine import apply_transform
from bayes_asr.gmm.files import MATRIX, MODEL, TRANSFORMS
from bayes_asr.kaldi_io.ark import iter_matrices, read_matrix, write_matrices, write_matrix
from bayes_asr.kaldi_io.byte_reader import OpenPipe
from bayes_asr.kaldi_io.data_dir import read_data_dir
from bayes_asr.kaldi_io.jobs import find_jobs
from bayes_asr.kaldi_io.option_files import read_options
from bayes_asr.kaldi_io.text import DataDir, write_lines

SPLICED = {"left-context": 4, "right-context": 4}  # defaults of splice-feats
DELTAS = {"delta-order": 2, "delta-window": DELTA_WINDOW}  # of add-deltas
CMVN = {"norm-means": True, "norm-vars": False}  # of apply-cmvn
TABLES = (  # of a data directory that do not depend on its features
    "utt2spk",
    "spk2utt",
    "spk2gender",
    "text",
    "text_words",
    "stm",
    "glm",
    "ctm",
    "segments",
    "wav.scp",
    "reco2file_and_channel",
    "reco2dur",
    "frame_shift",
    "utt2lang",
    "utt2dur",
    "utt2uniq",
)


@dataclass(frozen=True)
class Pipeline:
    """The steps from stored features to those of a model, in this order.

    cmvn: normalisation by speaker; deltas: order of the derivatives; left_context, right_context:
    frames that are spliced; matrix: [D, F'], or [D, F'+1] with an offset; full: the square matrix
    of LDA from which `matrix` was cut, which is only kept; transforms: [D, D+1] by speaker.
    """

    cmvn: Cmvn = "mean"
    deltas: int = 2
    left_context: int = 0
    right_context: int = 0
    matrix: np.ndarray | None = None
    full: np.ndarray | None = None
    transforms: Mapping[str, np.ndarray] | None = None

    @classmethod
    def spliced(cls, left_context: int, right_context: int, cmvn: Cmvn = "mean") -> "Pipeline":
        """Frames with their neighbours and without derivatives, as LDA reads them."""
        return cls(cmvn, 0, left_context, right_context)

    @property
    def front_end(self) -> FrontEnd:
        """The steps before the transforms."""
        return FrontEnd(self.cmvn, self.deltas, self.left_context, self.right_context)

    def transform(self, x: np.ndarray) -> np.ndarray:
        """Features [T, D] of what `front_end` has prepared, [T, F'], as of no speaker."""
        return x if self.matrix is None else apply_transform(self.matrix, x)

    def find_dim(self, dimensions: int, where: Path) -> int:
        """Values D of a frame by those stored; InputError where the matrix is of others."""
        # Each of the spliced frames has the static values and the derivatives of every order.
        size = dimensions * (self.deltas + 1) * (self.left_context + 1 + self.right_context)
        if self.matrix is None:
            return size
        if self.matrix.shape[1] not in (size, size + 1):
            raise InputError(
                f"{where}: the features have {dimensions} values, {size} with their context, but"
                f" the matrix of the model is [{self.matrix.shape[0]}, {self.matrix.shape[1]}];"
                " extract the features that the model was trained on"
            )
        return len(self.matrix)


RAW = Pipeline("none", deltas=0)
"""The pipeline that changes nothing, for the features of `write_fmllr`; Kaldi's feat_type raw."""


@dataclass(frozen=True)
class JobInputs:
    """Inputs of a job: the features of `data` by the pipeline of `directory`, and a model.

    moment: a number that changes with the contents of `directory`; silence: phones that LDA, MLLT
    and fMLLR leave out; pipeline: takes the place of the one of `directory`.
    """

    data: Path
    directory: Path
    model: Path
    moment: int = 0
    silence: frozenset[int] = frozenset()
    open_pipe: OpenPipe | None = None
    pipeline: Pipeline | None = None


class SpeakerFeatures:
    """The features that a GMM reads of a data directory, utterance by utterance.

    Nothing is held but tables, statistics and transforms of speakers. Statistics are those of
    cmvn.scp or, without it, of the speaker's own utterances. open_pipe: as in `Features`.
    """

    def __init__(
        self, data: DataDir, pipeline: Pipeline, *, open_pipe: OpenPipe | None = None
    ) -> None:
        """Open the tables; InputError where a matrix does not fit the features."""
        self._features = Features(data, pipeline.front_end, open_pipe=open_pipe)
        self.pipeline = pipeline
        self.dim = pipeline.find_dim(self._features.dimensions, self.directory / "feats.scp")
        self._check_transforms()

    def __getitem__(self, utt: str) -> np.ndarray:
        """Features of one utterance, float32 [T, D]; InputError where it has none."""
        if utt not in self._features:
            raise InputError(
                f"{self.directory / 'feats.scp'}: {utt} has no features; extract them, or remove it"
                " from utt2spk"
            )
        x = self.pipeline.transform(self._features[utt])
        if self.pipeline.transforms is None:
            return x
        speaker = self.speakers[utt]
        if speaker not in self.pipeline.transforms:
            raise InputError(
                f"{self._features.where(utt)}: speaker {speaker} of {utt} has no transform, but"
                f" {len(self.pipeline.transforms)} others have; estimate it for all speakers"
            )
        return apply_transform(self.pipeline.transforms[speaker], x)

    def check_dimension(self, dim: int, model: Path) -> None:
        """InputError where `model` reads features of another dimension."""
        if self.dim != dim:
            raise InputError(
                f"{self.directory / 'feats.scp'}: the model {model} reads features of {dim} values,"
                f" but here are {self.dim}; extract those that it was trained on"
            )

    @property
    def directory(self) -> Path:
        """The data directory."""
        return self._features.directories[0]

    @property
    def speakers(self) -> dict[str, str]:
        """The speaker of each utterance."""
        return self._features.speakers

    @property
    def utterances(self) -> list[str]:
        """All utterances of feats.scp in its order."""
        return self._features.utterances

    def has_frames(self, utt: str) -> bool:
        """Whether an utterance has any; Kaldi's features of too little sound have none."""
        return self._features.has_frames(utt)

    def _check_transforms(self) -> None:
        where = self.directory / "feats.scp"
        for speaker, transform in (self.pipeline.transforms or {}).items():
            if transform.shape != (self.dim, self.dim + 1):
                raise InputError(
                    f"{where}: the transform of {speaker} is {list(transform.shape)}, not"
                    f" {[self.dim, self.dim + 1]}; estimate the transforms with this model"
                )


def read_pipeline(model_dir: Path) -> Pipeline:
    """Read the pipeline of the model in `model_dir`, without transforms of speakers.

    As in Kaldi's scripts, frames are spliced if there is a final.mat, and get deltas if there is
    none. InputError for an unknown option.
    """
    cmvn = _read_cmvn(model_dir / "cmvn_opts")
    final, full = model_dir / MATRIX, model_dir / "full.mat"
    if not is_there(final):
        options = read_options(model_dir / "delta_opts", DELTAS)
        if options["delta-window"] != DELTA_WINDOW:
            raise InputError(
                f"{model_dir / 'delta_opts'}: derivatives over {options['delta-window']} frames"
                f" are not supported, only over {DELTA_WINDOW}; train with --delta-window=2"
            )
        return Pipeline(cmvn, options["delta-order"])
    options = read_options(model_dir / "splice_opts", SPLICED)
    spliced = Pipeline.spliced(options["left-context"], options["right-context"], cmvn)
    return replace(
        spliced,
        matrix=read_matrix(str(final), "the matrix"),
        full=read_matrix(str(full), "the matrix") if is_there(full) else None,
    )


def write_pipeline(pipeline: Pipeline, model_dir: Path) -> None:
    """Write what `read_pipeline` reads; files of another pipeline are removed."""
    left_context, right_context = pipeline.left_context, pipeline.right_context
    options = {
        "none": ["--norm-means=false"],
        "mean": [],
        "mean-variance": ["--norm-means=true", "--norm-vars=true"],
    }[pipeline.cmvn]
    lines = {
        "cmvn_opts": " ".join(options),
        "splice_opts": f"--left-context={left_context} --right-context={right_context}",
        "delta_opts": f"--delta-order={pipeline.deltas}",
    }
    # As in Kaldi's scripts, an absent file stands for the defaults of the program.
    spliced = pipeline.matrix is not None
    absent = {"delta_opts"} if spliced or pipeline.deltas == 2 else set()
    absent |= set() if spliced else {"splice_opts"}
    for name, line in lines.items():
        if name in absent:
            discard(model_dir / name)
        else:
            write_lines([line], model_dir / name)
    for name, matrix in ((MATRIX, pipeline.matrix), ("full.mat", pipeline.full)):
        if matrix is None:
            discard(model_dir / name)
        else:
            write_matrix(matrix, model_dir / name)


def has_transforms(directory: Path) -> bool:
    """Whether there are transforms of speakers."""
    return is_there(directory / TRANSFORMS)


def find_transforms(directory: Path) -> list[Path]:
    """The archives of transforms, trans.N, of all jobs; InputError where a job's is missing."""
    return find_jobs(directory, "trans", suffix="")


def read_transforms(directory: Path) -> dict[str, np.ndarray]:
    """The transforms float32 [D, D+1] by speaker of trans.N, those of all jobs.

    InputError where there are none, where a job's are missing, and where a speaker is in two.
    """
    paths = find_transforms(directory)
    if not paths:
        raise InputError(
            f"{directory}: there is no trans.1; estimate the transforms of its speakers"
        )
    transforms: dict[str, np.ndarray] = {}
    for path in paths:
        for speaker, matrix in iter_matrices(f"ark:{path}"):
            if speaker in transforms:
                raise InputError(
                    f"{path}: {speaker} has a transform in an archive before it too; give each"
                    " speaker to one job"
                )
            transforms[speaker] = matrix
    return transforms


def write_transforms(transforms: Iterable[tuple[str, np.ndarray]], directory: Path) -> int:
    """Write trans.1 with the transforms of all speakers; returns how many.

    Archives of other jobs are removed.
    """
    for path in find_files(directory, "trans.*[0-9]"):
        discard(path)
    return write_matrices(transforms, directory / TRANSFORMS)


def write_fmllr(
    data: Path, model_dir: Path, transforms: Path, out: Path, *, open_pipe: OpenPipe | None = None
) -> int:
    """Write a data directory of speaker-adapted features, as Kaldi's make_fmllr_feats.sh.

    transforms: the folder of trans.N. `out` gets feats, the statistics of its speakers, the tables
    of `data` that say nothing of the features and, where `data` has a frontend.json, fmllr.json.
    Returns how many utterances; those without frames are named and left out. InputError where
    `model_dir` has no model, for transforms beside another LDA, for a speaker without one, and
    where `out` is read or a data directory of others; nothing is written then.
    """
    refuse_read(out, [data, model_dir, transforms])
    _check_folders(model_dir, out)
    _check_same_lda(model_dir / MATRIX, transforms / MATRIX)
    pipeline = replace(read_pipeline(model_dir), transforms=read_transforms(transforms))
    directory = read_data_dir(data, open_pipe=open_pipe)
    features = SpeakerFeatures(directory, pipeline, open_pipe=open_pipe)
    # CMVN statistics of the adapted features are summed while these are written.
    sums: dict[str, np.ndarray] = {}
    empty: list[str] = []

    def adapt() -> Iterator[tuple[str, np.ndarray]]:
        for utt in follow(features.utterances, "features"):
            if not features.has_frames(utt):
                empty.append(utt)
                continue
            x = features[utt]
            speaker = features.speakers[utt]
            sums[speaker] = sums.get(speaker, 0.0) + cmvn_statistics([x])
            yield utt, x

    with together(out):
        count = write_matrices(adapt(), out / "feats.ark", out / "feats.scp")
        write_matrices(sorted(sums.items()), out / "cmvn.ark", out / "cmvn.scp")
        _copy_tables(data, out)
        discard(out / "frontend.json")  # of features of sound that were there before
        if sound := read_analysis(data):
            write_record(FmllrRecord(model_dir, sound), out)
        else:
            discard(out / fmllr_record.FILE)
    report_skipped(f"no frames in {data}", empty, len(features.utterances), limit=1)
    return count


def _copy_tables(data: Path, out: Path) -> None:
    """Copy what says nothing of the features, and remove what `data` lacks."""
    for name in TABLES:
        if is_there(data / name):
            with replacing(out / name) as temporary:
                shutil.copyfile(data / name, temporary)
        else:
            discard(out / name)


def _check_folders(model_dir: Path, out: Path) -> None:
    """InputError where a folder has no model, and for a data directory not of `write_fmllr`."""
    # Without any file the pipeline would be that of deltas.
    if not any(is_there(model_dir / name) for name in (MODEL, "tree")):
        raise InputError(f"{model_dir / MODEL}: is not there; name the folder of the model")
    # Without a frontend.json in `data` there is no record, but both archives are in the folder.
    ours = all(is_there(out / name) for name in ("feats.ark", "cmvn.ark"))
    if not is_there(out / fmllr_record.FILE) and (not ours or is_there(out / "frontend.json")):
        refuse_foreign(out, ["feats.scp", *TABLES], "gmm features")


def _check_same_lda(of_model: Path, of_transforms: Path) -> None:
    """InputError where two matrices, if both are there, are not one."""
    if not (is_there(of_model) and is_there(of_transforms)):
        return
    first, second = (read_matrix(str(path), "the matrix") for path in (of_model, of_transforms))
    if first.shape != second.shape or not np.allclose(first, second, rtol=1e-4, atol=1e-6):
        raise InputError(
            f"{of_transforms}: is not {of_model}, so that the transforms are of other features;"
            " align anew by this model"
        )


def _read_cmvn(path: Path) -> Cmvn:
    options = read_options(path, CMVN)
    if options["norm-vars"] and not options["norm-means"]:
        raise InputError(f"{path}: variances are normalised only with means; correct it")
    if options["norm-means"]:
        return "mean-variance" if options["norm-vars"] else "mean"
    return "none"
