#!/usr/bin/env python3
"""Prepare the mini recipe: a small corpus that eSpeak NG speaks, in Kaldi's formats.

Writes below OUT what a user of Kaldi has before training a network: wav/, data/{train,dev,test},
exp/ali{,_dev,_test} (exact alignments, monophone model and tree), data/dict, data/lm.arpa and
exp/graph. The same seed gives the same files.
"""

import argparse
import json
import sys
import wave
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from corpus import PHONES, SAMPLE_RATE, SILENCE, VARIANTS, Utterance, utterances
from espeak import INSTALL, Synthesiser

from bayes_asr.data.features import statistics
from bayes_asr.decode.graph import build_graph, write_graph
from bayes_asr.decode.lexicon import Pronunciation
from bayes_asr.decode.ngram import witten_bell, write_arpa
from bayes_asr.errors import InputError
from bayes_asr.files import replacing
from bayes_asr.tables.ark import write_int_vectors, write_matrices
from bayes_asr.tables.mdl import TransitionModel, monophone_model, write_transition_model
from bayes_asr.tables.text import write_mapping, write_text
from bayes_asr.tables.tree import monophone_tree, write_tree

STATES = 3  # a phone
SHIFT, WINDOW = 160, 400  # samples: 10 and 25 ms
PER_SPEAKER = {"train": 24, "dev": 12, "test": 12}
PHONE_IDS = {phone: number for number, phone in enumerate(PHONES, 1)}


@dataclass(frozen=True)
class Aligned:
    """An utterance with its features [T, F] and the last frame + 1 of each of its phones."""

    utterance: Utterance
    features: np.ndarray
    ends: np.ndarray
    short: int
    moved: int


def main(argv: Sequence[str] | None = None) -> int:
    """Prepare everything below --out; return 0, or 1 after one line that says what is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--out", type=Path, default=Path("exp/mini"), help="default %(default)s")
    parser.add_argument("--seed", type=int, default=1, help="of voices, sentences and noise")
    parser.add_argument("--dim", type=int, default=40, help="mel bands (default %(default)s)")
    parser.add_argument("--force", action="store_true", help="prepare again what is complete")
    args = parser.parse_args(argv)
    recipe = {"seed": args.seed, "dim": args.dim, "version": version()}
    stamp = args.out / "prepared.json"
    if not args.force and stamp.exists() and json.loads(stamp.read_text()) == recipe:
        print(f"{args.out} is prepared")
        return 0
    stamp.unlink(missing_ok=True)
    try:
        prepare(args.out, args.seed, args.dim)
        write_lines([json.dumps(recipe)], stamp)
    except (InputError, OSError) as error:
        print(f"{parser.prog}: error: {error}", file=sys.stderr)
        return 1
    return 0


def version() -> int:
    """A number that changes with the files of this recipe."""
    files = sorted(Path(__file__).parent.glob("*.[pt][yx]*"))
    return zlib.crc32(b"".join(file.read_bytes() for file in files))


def prepare(out: Path, seed: int, bands: int) -> None:
    """Write the whole corpus below `out`, with features of so many mel bands."""
    synthesiser = Synthesiser(seed)
    model = monophone_model(list(PHONE_IDS.values()), STATES)
    sets = {}
    for name, count in PER_SPEAKER.items():
        spoken = utterances(name, synthesiser, count, seed)
        sets[name] = [align(utterance, features(utterance.samples, bands)) for utterance in spoken]
        write_data(out.resolve() / "wav", out.resolve() / "data" / name, sets[name])
        print(summary(name, sets[name]))
    tids = [transition_ids(a, model) for a in sets["train"]]
    model = with_counted_transitions(model, np.concatenate(tids))
    tree = monophone_tree({p: pdfs_of(p).tolist() for p in PHONE_IDS.values()})
    for name, folder in (("train", "ali"), ("dev", "ali_dev"), ("test", "ali_test")):
        directory = out / "exp" / folder
        named = ((a.utterance.name, transition_ids(a, model)) for a in sets[name])
        write_int_vectors(named, directory / "ali.1.gz")
        write_transition_model(model, directory / "final.mdl")
        write_tree(tree, directory / "tree")
        write_mapping({"<eps>": 0, **PHONE_IDS}.items(), directory / "phones.txt")
    lexicon = [Pronunciation(phone, 1.0, (phone,)) for phone in PHONES]
    transcripts = [a.utterance.phones for a in sets["train"]]
    language_model = witten_bell(transcripts, 2, PHONES)
    write_dictionary(lexicon, out / "data" / "dict")
    write_arpa(language_model, out / "data" / "lm.arpa")
    graph = build_graph(lexicon, language_model, PHONE_IDS, model, tree)
    write_graph(graph, out / "exp" / "graph", [SILENCE])
    print(f"graph: {graph.hclg.num_states} states, {graph.hclg.num_arcs} arcs")


def features(samples: np.ndarray, bands: int) -> np.ndarray:
    """Log mel energies float32 [T, bands] of int16 samples at 16 kHz, without dither."""
    try:
        import kaldi_native_fbank as knf
    except ImportError as error:
        raise InputError(f"the mini recipe needs kaldi-native-fbank: {INSTALL}") from error
    options = knf.FbankOptions()
    options.frame_opts.samp_freq = SAMPLE_RATE
    options.frame_opts.dither = 0.0
    options.mel_opts.num_bins = bands
    fbank = knf.OnlineFbank(options)
    fbank.accept_waveform(SAMPLE_RATE, samples.astype(np.float32).tolist())
    fbank.input_finished()
    return np.stack([fbank.get_frame(i) for i in range(fbank.num_frames_ready)])


def align(utterance: Utterance, matrix: np.ndarray) -> Aligned:
    """Find the frames of each phone: those whose middle lies in it, and at least one a state.

    A phone of fewer than STATES frames takes them from the next phone, at the end of the utterance
    from the previous one; `short` counts such phones, `moved` the frames that changed their phone.
    """
    middle = np.arange(len(matrix)) * SHIFT + WINDOW // 2
    exact = np.append(np.searchsorted(middle, utterance.starts[1:]), len(matrix))
    count = len(exact)
    if len(matrix) < STATES * count:
        raise InputError(f"{utterance.name}: {len(matrix)} frames do not hold {count} phones")
    steps = STATES * np.arange(1, count + 1)
    ends = np.maximum.accumulate(np.maximum(exact - steps, 0)) + steps
    ends = np.minimum(ends, len(matrix) - steps[::-1] + STATES)
    short = int((np.diff(exact, prepend=0) < STATES).sum())
    return Aligned(utterance, matrix, ends, short, int(np.abs(ends - exact).sum()))


def pdfs_of(phone: int) -> np.ndarray:
    """The pdf-ids of the states of a phone."""
    return STATES * (phone - 1) + np.arange(STATES)


def transition_ids(aligned: Aligned, model: TransitionModel) -> np.ndarray:
    """The alignment int32 [T]: each phone's frames shared evenly among its states.

    As in Kaldi's alignments a state begins with its forward transition; self-loops follow.
    """
    lengths = np.diff(aligned.ends, prepend=0)
    phones = np.array([PHONE_IDS[phone] for phone in aligned.utterance.phones])
    shares = (lengths[:, None] + np.arange(STATES)) // STATES
    pdf = np.repeat(np.concatenate([pdfs_of(phone) for phone in phones]), shares.ravel())
    tids = np.arange(1, len(model.pdf))
    loop, forward = np.zeros((2, model.num_pdfs), np.int32)
    loop[model.pdf[tids[model.self_loop[1:]]]] = tids[model.self_loop[1:]]
    forward[model.pdf[tids[~model.self_loop[1:]]]] = tids[~model.self_loop[1:]]
    first = np.zeros(len(pdf), bool)
    first[np.cumsum(shares.ravel()) - shares.ravel()] = True
    return np.where(first, forward[pdf], loop[pdf]).astype(np.int32)


def with_counted_transitions(model: TransitionModel, tids: np.ndarray) -> TransitionModel:
    """The model with transition probabilities as counted in the alignments, one added to each."""
    counts = np.bincount(tids, minlength=len(model.pdf)) + 1.0
    total = np.bincount(model.pdf[1:], counts[1:])
    log_prob = np.append(0.0, np.log(counts[1:] / total[model.pdf[1:]]))
    return replace(model, log_prob=log_prob.astype(np.float32))


def write_data(wavs: Path, directory: Path, aligned: Sequence[Aligned]) -> None:
    """Write the sound and a Kaldi data directory with features and CMVN statistics by speaker."""
    wavs.mkdir(parents=True, exist_ok=True)
    utts = [a.utterance for a in aligned]
    for utt in utts:
        write_wav(utt.samples, wavs / f"{utt.name}.wav")
    by_speaker: dict[str, list[Aligned]] = {}
    for a in aligned:
        by_speaker.setdefault(a.utterance.speaker, []).append(a)
    write_mapping(((u.name, str(wavs / f"{u.name}.wav")) for u in utts), directory / "wav.scp")
    write_mapping(((u.name, u.speaker) for u in utts), directory / "utt2spk")
    write_text(
        ((s, [a.utterance.name for a in group]) for s, group in by_speaker.items()),
        directory / "spk2utt",
    )
    write_text(((u.name, u.phones) for u in utts), directory / "text")
    write_text(((u.name, u.words) for u in utts), directory / "words")
    write_lines(ctm(utts), directory / "phones.ctm")
    write_matrices(
        ((a.utterance.name, a.features) for a in aligned),
        directory / "feats.ark",
        directory / "feats.scp",
    )
    write_matrices(
        ((s, statistics(a.features for a in group)) for s, group in by_speaker.items()),
        directory / "cmvn.ark",
        directory / "cmvn.scp",
    )


def write_wav(samples: np.ndarray, path: Path) -> None:
    """Write int16 samples at 16 kHz as RIFF."""
    with replacing(path) as temporary, wave.open(str(temporary), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(SAMPLE_RATE)
        file.writeframes(samples.astype("<i2").tobytes())


def ctm(utts: Iterable[Utterance]) -> Iterator[str]:
    """The exact times of the phones: `utterance 1 start duration phone`, in seconds."""
    for utt in utts:
        lengths = np.diff(np.append(utt.starts, len(utt.samples)))
        for phone, start, length in zip(utt.phones, utt.starts, lengths, strict=True):
            yield f"{utt.name} 1 {start / SAMPLE_RATE:.4f} {length / SAMPLE_RATE:.4f} {phone}"


def write_dictionary(lexicon: Sequence[Pronunciation], directory: Path) -> None:
    """Write the lexicon, in which every phone is a word, as Kaldi's scripts expect it."""
    write_text(((entry.word, entry.phones) for entry in lexicon), directory / "lexicon.txt")
    write_lines([SILENCE], directory / "silence_phones.txt")
    write_lines([SILENCE], directory / "optional_silence.txt")
    write_lines([p for p in PHONES if p != SILENCE], directory / "nonsilence_phones.txt")


def write_lines(lines: Iterable[str], path: Path) -> None:
    """Write a text file, complete or not at all."""
    with replacing(path) as temporary:
        temporary.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def summary(name: str, aligned: Sequence[Aligned]) -> str:
    """One line: how much speech, and how many phones are too short for their states."""
    frames = sum(len(a.features) for a in aligned)
    phones = sum(len(a.ends) for a in aligned)
    short, moved = sum(a.short for a in aligned), sum(a.moved for a in aligned)
    return (
        f"{name}: {len(VARIANTS[name].split())} speakers, {len(aligned)} utterances, "
        f"{frames * SHIFT / SAMPLE_RATE / 60:.1f} minutes, {phones} phones; {short} "
        f"({100 * short / phones:.1f} %) lasted fewer than {STATES} frames and were given "
        f"{STATES}, which moved {moved} of {frames} frames to a neighbour"
    )


if __name__ == "__main__":
    sys.exit(main())
