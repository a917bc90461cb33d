#!/usr/bin/env python3
"""Prepare the mini recipe: a small corpus that eSpeak NG speaks, in Kaldi's formats.

Writes below OUT what a user of Kaldi has before training a network: wav/, data/{train,dev,test},
exp/ali{,_dev,_test} (exact alignments, monophone model and tree), data/dict, data/lm.arpa and
exp/graph; for a graph of words, data/words_dict. The same seed gives the same files.
"""

import bayes_asr.recipe.stages.interruption  # noqa: F401 - first: Ctrl-C may come while the others load

# isort: split
import argparse
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from corpus import PHONES, SAMPLE_RATE, SILENCE, Utterance, pronounce, utterances, write_wav
from espeak import Synthesiser

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import real_path
from bayes_asr.base.installed import find_missing, install_command
from bayes_asr.data.sound.feature_directories import write_features
from bayes_asr.data.sound.spectrum import Analysis
from bayes_asr.data.targets.marks import (
    PhoneFrames,
    count_transitions,
    describe_phones,
    find_frames,
    spread_states,
    write_alignments,
)
from bayes_asr.decode.graph.build import build_graph, write_graph
from bayes_asr.decode.graph.dictionary import write_dictionary
from bayes_asr.decode.graph.lexicon import Lang, Pronunciation
from bayes_asr.decode.graph.ngram import estimate_witten_bell, write_arpa
from bayes_asr.kaldi_io.ark import iter_matrices
from bayes_asr.kaldi_io.initial_mdl import STATES, build_monophone_model
from bayes_asr.kaldi_io.text import write_lines, write_mapping, write_speakers, write_text
from bayes_asr.kaldi_io.transition_model import TransitionModel
from bayes_asr.kaldi_io.tree import read_tree
from bayes_asr.recipe.scripts import checksum, prepare_once

PER_SPEAKER = {"train": 24, "dev": 12, "test": 12}  # by default
PHONE_IDS = {phone: number for number, phone in enumerate(PHONES, 1)}


@dataclass(frozen=True)
class Aligned:
    """An utterance and the frames of its phones."""

    utterance: Utterance
    phones: PhoneFrames


def main(argv: Sequence[str] | None = None) -> int:
    """Prepare everything below --out; return 0, or 1 after one line that says what is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--out", type=Path, default=Path("exp/mini"), help="default %(default)s")
    parser.add_argument("--seed", type=int, default=1, help="of voices, sentences and noise")
    parser.add_argument("--dim", type=int, default=40, help="mel bands (default %(default)s)")
    parser.add_argument(
        "--per-speaker",
        type=int,
        default=PER_SPEAKER["train"],
        help="training sentences of each of 20 speakers (default %(default)s)",
    )
    parser.add_argument("--force", action="store_true", help="prepare again what is complete")
    args = parser.parse_args(argv)
    counts = PER_SPEAKER | {"train": args.per_speaker}
    recipe = {"seed": args.seed, "dim": args.dim, "sentences": counts, "version": version()}
    return prepare_once(
        lambda: prepare(args.out, args.seed, args.dim, counts),
        *(args.out, parser.prog, recipe),
        force=args.force,
    )


def version() -> int:
    """A number that changes with the files of this recipe."""
    files = sorted(Path(__file__).parent.glob("*.[pt][yx]*"))
    return checksum(files)


def prepare(out: Path, seed: int, bands: int, sentences: Mapping[str, int] = PER_SPEAKER) -> None:
    """Write the whole corpus below `out`, with features of so many mel bands.

    sentences: how many each speaker of a set says.
    """
    missing = find_missing("mini")
    if missing:  # said before a minute of synthesis
        raise InputError(f"the recipe needs {', '.join(missing)}: {install_command('mini')}")
    synthesiser = Synthesiser(seed)
    sets = {}
    for name, count in sentences.items():
        spoken = list(utterances(name, synthesiser, count, seed))
        directory = real_path(out) / "data" / name
        write_data(real_path(out) / "wav", directory, spoken)
        write_features(directory, Analysis("fbank", SAMPLE_RATE, bands))
        frames = {utt: len(matrix) for utt, matrix in iter_matrices(directory / "feats.ark")}
        sets[name] = [align(utterance, frames[utterance.name]) for utterance in spoken]
        print(summary(name, sets[name]))
    model = build_monophone_model(list(PHONE_IDS.values()), STATES)
    tids = {name: {a.utterance.name: labels(a, model) for a in sets[name]} for name in sets}
    model = count_transitions(model, tids["train"].values())
    for name, folder in (("train", "ali"), ("dev", "ali_dev"), ("test", "ali_test")):
        write_alignments(tids[name].items(), model, PHONE_IDS, out / "exp" / folder)
    lexicon = [Pronunciation(phone, 1.0, (phone,)) for phone in PHONES]
    transcripts = [a.utterance.phones for a in sets["train"]]
    language_model = estimate_witten_bell(transcripts, 2, PHONES)
    write_dictionary(((p, [p]) for p in PHONES), out / "data" / "dict", silence=[SILENCE])
    write_arpa(language_model, out / "data" / "lm.arpa")
    words = {word for some in sets.values() for a in some for word in a.utterance.words}
    said = pronounce(synthesiser, sorted(words))  # after all speech, whose noise depends on it
    write_dictionary(said, out / "data" / "words_dict", silence=[SILENCE])
    print(f"lexicon of {len(words)} words: recipes/mini/README.md decodes words instead of phones")
    tree = read_tree(out / "exp" / "ali" / "tree")
    graph = build_graph(Lang(lexicon), language_model, PHONE_IDS, model, tree)
    write_graph(graph, out / "exp" / "graph", [SILENCE])
    print(f"graph: {graph.hclg.num_states} states, {graph.hclg.num_arcs} arcs")


def align(utterance: Utterance, frames: int) -> Aligned:
    """Find the frames of the phones of an utterance that has so many."""
    try:
        return Aligned(utterance, find_frames(utterance.starts, frames, SAMPLE_RATE))
    except InputError as error:
        raise InputError(f"{utterance.name}: {error}") from error


def labels(aligned: Aligned, model: TransitionModel) -> np.ndarray:
    """The alignment int32 [T] of an utterance."""
    phones = [PHONE_IDS[phone] for phone in aligned.utterance.phones]
    return spread_states(phones, aligned.phones.ends, model)


def write_data(wavs: Path, directory: Path, utts: Sequence[Utterance]) -> None:
    """Write the sound and the tables of a Kaldi data directory."""
    wavs.mkdir(parents=True, exist_ok=True)
    for utt in utts:
        write_wav(utt.samples, wavs / f"{utt.name}.wav")
    write_mapping(((u.name, str(wavs / f"{u.name}.wav")) for u in utts), directory / "wav.scp")
    write_speakers({u.name: u.speaker for u in utts}, directory)
    write_text(((u.name, u.phones) for u in utts), directory / "text")
    write_text(((u.name, u.words) for u in utts), directory / "words")
    write_lines(ctm(utts), directory / "phones.ctm")


def ctm(utts: Iterable[Utterance]) -> Iterator[str]:
    """The exact times of the phones: `utterance 1 start duration phone`, in seconds."""
    for utt in utts:
        lengths = np.diff(np.append(utt.starts, len(utt.samples)))
        for phone, start, length in zip(utt.phones, utt.starts, lengths, strict=True):
            yield f"{utt.name} 1 {start / SAMPLE_RATE:.4f} {length / SAMPLE_RATE:.4f} {phone}"


def summary(name: str, aligned: Sequence[Aligned]) -> str:
    """One line: how much speech, and how many phones are too short for their states."""
    samples = sum(len(a.utterance.samples) for a in aligned)
    speakers = len({a.utterance.speaker for a in aligned})
    return (
        f"{name}: {speakers} speakers, {len(aligned)} utterances, "
        f"{samples / SAMPLE_RATE / 60:.1f} minutes, {describe_phones([a.phones for a in aligned])}"
    )


if __name__ == "__main__":
    sys.exit(main())
