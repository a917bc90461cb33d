"""bayes-asr lattice-posteriors: what Kaldi's lattice-to-post, -smbr-post and -mpe-post print."""

import argparse
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import replacing
from bayes_asr.base.log import LOGGER
from bayes_asr.cli.arguments import acoustic_scale, key, positive
from bayes_asr.config.catalogue import OF_LATTICES
from bayes_asr.data.targets.alignments import Alignments, check_transitions
from bayes_asr.decode.lattices.aligned import align_lattice
from bayes_asr.decode.lattices.posteriors import Posteriors, compare_posteriors
from bayes_asr.decode.lattices.reference import LatticeComparison
from bayes_asr.kaldi_io.byte_reader import check_name
from bayes_asr.kaldi_io.lattice_files import check_lattice_jobs, iter_lattices
from bayes_asr.kaldi_io.mdl import read_transition_model
from bayes_asr.kaldi_io.text import write_text


def phones(text: str) -> tuple[int, ...]:
    """Numbers of phones with : between them, as Kaldi's programs take them."""
    try:
        return tuple(int(positive(number)) for number in text.split(":") if number)
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not phones as 1:2:3") from None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments, by the names of Kaldi's programs."""
    parser.add_argument("--criterion", choices=OF_LATTICES, default="mmi", help="default mmi")
    parser.add_argument("--lattices", nargs="+", required=True, type=Path, metavar="lat.N.gz")
    parser.add_argument("--model", type=Path, required=True, help="final.mdl of the lattices")
    parser.add_argument(
        "--alignments", type=Path, metavar="DIR", help="what was said; not needed for mmi"
    )
    parser.add_argument("--acoustic-scale", type=acoustic_scale, default=1.0, help="default 1")
    parser.add_argument(
        "--lm-scale", type=key("train.sequence.lm_scale"), default=1.0, help="default 1"
    )
    parser.add_argument(
        "--silence-phones", type=phones, default=(), metavar="1:2:3", help="default: none"
    )
    parser.add_argument("--one-silence-class", action="store_true", help="of mpe and smbr")
    parser.add_argument(
        "--boost", type=key("train.sequence.boost"), default=0.1, help="of bmmi (default 0.1)"
    )
    parser.add_argument(
        "--max-silence-error",
        type=key("train.sequence.max_silence_error"),
        default=0.0,
        help="of bmmi (default 0)",
    )
    parser.add_argument("--loglikes", type=Path, metavar="FILE", help="write those of lattices")
    parser.add_argument("--out", type=Path, metavar="FILE", help="default: standard output")


def run(args: argparse.Namespace) -> None:
    """Print posteriors utterance by utterance, and say what they are in the mean."""
    check_lattice_jobs(args.lattices)
    model = read_transition_model(args.model)
    references = Alignments(args.alignments) if args.alignments else None
    if references is not None:
        check_transitions(model, args.model, references)
    names = ("silence_phones", "one_silence_class", "boost", "max_silence_error")
    comparison = LatticeComparison(
        args.criterion, model, **{name: vars(args)[name] for name in names}
    )
    # Frames, log-likelihood, accuracy: sums over utterances, divided once at the end.
    totals, likelihoods = np.zeros(3), []
    with replacing(args.out) if args.out else nullcontext() as temporary:
        target = temporary.open("w", encoding="utf-8") if temporary else nullcontext(sys.stdout)
        with target as file:
            for utt, posteriors in _compare_all(args, references, comparison):
                print(utt, format_posteriors(posteriors), file=file)
                totals += (posteriors.num_frames, posteriors.log_likelihood, posteriors.accuracy)
                likelihoods.append((utt, [f"{posteriors.log_likelihood:.7g}"]))
        if not likelihoods:
            raise InputError(f"{args.lattices[0]}: there is no lattice with an alignment")
    if args.loglikes:
        write_text(likelihoods, args.loglikes)
    frames, log_likelihood, accuracy = totals
    what = "frame-accuracy" if comparison.of_accuracy else "log-like/frame"
    mean = (accuracy if comparison.of_accuracy else log_likelihood) / frames
    LOGGER.info("overall average %s is %.6g over %d frames", what, mean, frames)


def _compare_all(
    args: argparse.Namespace, references: Alignments | None, comparison: LatticeComparison
) -> Iterator[tuple[str, Posteriors]]:
    """Utterances and their posteriors; those without alignment are named and left out."""
    names = set[str]()
    for path in args.lattices:
        for utt, lattice in iter_lattices(path):
            check_name(utt, names, path)
            if references is not None and utt not in references:
                LOGGER.warning("%s: no alignment in %s; it is left out", utt, args.alignments)
                continue
            reference = references.transition_ids(utt) if references is not None else None
            try:
                aligned = align_lattice(lattice, args.acoustic_scale, args.lm_scale)
                yield utt, compare_posteriors(aligned, reference, comparison)
            except InputError as error:
                raise InputError(f"{path}: {utt}: {error}") from None


def format_posteriors(posteriors: Posteriors) -> str:
    """Posteriors as Kaldi prints them: for each frame [ transition-id posterior ... ]."""
    frames: list[list[str]] = [[] for _ in range(posteriors.num_frames)]
    columns = (
        posteriors.frame.tolist(),
        posteriors.tid.tolist(),
        posteriors.share.astype(np.float32).tolist(),
    )
    # What float32 rounds to 0 is left out.
    for frame, tid, share in zip(*columns, strict=True):
        if share:
            frames[frame].append(f"{tid} {share:.7g}")
    return " ".join(f"[ {' '.join(pairs)} ]" if pairs else "[ ]" for pairs in frames)
