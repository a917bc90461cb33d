"""How near posteriors of lattices are to those that Kaldi's programs print, utterance by utterance.

    KALDI_ROOT=DIR python benchmarks/posteriors.py --lattices lat.1.gz --alignments DIR \\
        [--acoustic-scale 0.2] [--silence-phones 1:2] [--utterances 300] [--json FILE]
"""

import argparse
import os
import shlex
import subprocess
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import record

from bayes_asr.cli import main as run_verb
from bayes_asr.data.targets.alignments import Alignments
from bayes_asr.kaldi_io.lattice_files import iter_lattices, write_lattices
from bayes_asr.kaldi_io.text import write_text

BOOST = "lattice-boost-ali --b=0.1 {silence} {model} ark:lat.ark ark,t:ali.txt ark:- | "
LIKELIHOODS = "lattice-to-post {scale} ark:- ark,t:theirs.txt"
ACCURACIES = "{scale} {silence} {one} {model} ark,t:ali.txt ark:lat.ark ark,t:theirs.txt"
KALDIS = {
    "mmi": f"lattice-copy ark:lat.ark ark:- | {LIKELIHOODS}",
    "bmmi": f"{BOOST}{LIKELIHOODS}",
    "mpe": f"lattice-to-mpe-post {ACCURACIES}",
    "smbr": f"lattice-to-smbr-post {ACCURACIES}",
}
"""How Kaldi computes what a criterion wants."""

Shares = dict[tuple[int, int], float]
"""What a file has for each frame and transition-id."""


def read_posteriors(path: Path) -> Iterator[tuple[str, Shares]]:
    """Posteriors in text: for each frame [ transition-id share ... ]."""
    with path.open() as file:
        for line in file:
            utt, said = line.split(None, 1)
            frames = [frame.split() for frame in said.replace("[", "").split("]")[:-1]]
            yield (
                utt,
                {
                    (t, int(tid)): float(share)
                    for t, frame in enumerate(frames)
                    for tid, share in zip(frame[::2], frame[1::2], strict=True)
                },
            )


def lay_out(lattices: Path, alignments: Path, most: int, folder: Path) -> None:
    """Write some lattices, and what was said in them, for Kaldi."""
    aligned = Alignments(alignments)
    chosen = list(islice(((u, x) for u, x in iter_lattices(lattices) if u in aligned), most))
    write_lattices(chosen, folder / "lat.ark")
    said = ((utt, aligned.transition_ids(utt).astype(str).tolist()) for utt, _ in chosen)
    write_text(said, folder / "ali.txt")


def compare(
    criterion: str, folder: Path, alignments: Path, scale: float, silence: str, one: bool
) -> dict[str, Any]:
    """Compute posteriors of what `lay_out` has written, here and by Kaldi; a row of the table."""
    model, ours = alignments / "final.mdl", folder / "ours.txt"
    options = [f"--acoustic-scale={scale}", f"--silence-phones={silence}"]
    paths = [f"--lattices={folder / 'lat.ark'}", f"--model={model}", f"--out={ours}"]
    choice = [f"--criterion={criterion}", f"--alignments={alignments}"]
    one_class = ["--one-silence-class"] if one else []
    if run_verb(["lattice-posteriors", *paths, *choice, *options, *one_class]):
        raise SystemExit(1)
    source = Path(os.environ["KALDI_ROOT"]) / "src"
    named = {
        "scale": options[0],
        "silence": options[1],
        "one": f"--one-silence-class={str(one).lower()}",
        "model": shlex.quote(str(model.absolute())),
    }
    subprocess.run(  # noqa: S603 - the pipeline is our own
        ["/bin/bash", "-o", "pipefail", "-c", KALDIS[criterion].format(**named)],
        cwd=folder,
        env={**os.environ, "PATH": f"{source / 'latbin'}:{os.environ['PATH']}"},
        stderr=subprocess.DEVNULL,
        check=True,
    )
    found, wanted = (dict(read_posteriors(path)) for path in (ours, folder / "theirs.txt"))
    if found.keys() != wanted.keys():
        raise ArithmeticError(f"{len(found)} utterances here, {len(wanted)} by Kaldi")
    apart = [
        abs(found[utt].get(place, 0.0) - wanted[utt].get(place, 0.0))
        for utt in wanted
        for place in found[utt].keys() | wanted[utt].keys()
    ]
    return {
        "criterion": criterion,
        "one_silence_class": one,
        "utterances": len(wanted),
        "posteriors": len(apart),
        "largest": max(abs(share) for shares in wanted.values() for share in shares.values()),
        "largest_difference": max(apart),
    }


def main() -> None:
    """Compare all criteria, print and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--lattices", type=Path, required=True, metavar="lat.N.gz")
    parser.add_argument("--alignments", type=Path, required=True, help="with final.mdl")
    parser.add_argument("--acoustic-scale", type=float, default=0.2, help="default 0.2")
    parser.add_argument("--silence-phones", default="", metavar="1:2:3", help="default: none")
    parser.add_argument("--utterances", type=int, default=300, help="default 300")
    record.add_options(parser)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        lay_out(args.lattices, args.alignments, args.utterances, Path(folder))
        rows = [
            compare(
                criterion,
                Path(folder),
                args.alignments,
                args.acoustic_scale,
                args.silence_phones,
                one,
            )
            for criterion in KALDIS
            for one in ((False, True) if criterion in ("mpe", "smbr") else (False,))
        ]
    for row in rows:
        print(", ".join(f"{key} {value}" for key, value in row.items()))
    record.save(rows, "posteriors", args)


if __name__ == "__main__":
    main()
