#!/usr/bin/env python3
"""Prepare AMI: the public manual annotations and the headset recordings, in Kaldi's formats.

Writes below OUT data/{train,dev,eval}, data/local/dict and data/local/lm.arpa. Without recordings
everything is written but the content of wav.scp.
"""

import bayes_asr.recipe.stages.interruption  # noqa: F401 - first: Ctrl-C may come while the others load

# isort: split
import argparse
import math
import sys
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from pathlib import Path

from data_dir import SOUNDS, WrittenSet, distinct, find_sounds, write_set
from dictionary import SILENCES, UNKNOWN, default_lexicon, own_lexicon
from nxt import Participant, find_annotations, read_participants, read_turns
from transcripts import Utterance, count_lost, utterances

from bayes_asr.base.errors import InputError, name_some
from bayes_asr.decode.graph.dictionary import write_dictionary
from bayes_asr.decode.graph.ngram import NgramModel, estimate_witten_bell, read_arpa, write_arpa
from bayes_asr.decode.graph.transducers import END, START
from bayes_asr.kaldi_io.binary import iter_lines
from bayes_asr.recipe.scripts import exit_status

SETS = ("train", "dev", "eval")
ORDER = 3


def main(argv: Sequence[str] | None = None) -> int:
    """Prepare everything below --out; return 0, or 1 after one line that says what is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument(
        "--corpus", type=Path, required=True, help="folder of annotations and, below it, recordings"
    )
    parser.add_argument("--out", type=Path, default=Path("exp/ami"), help="default %(default)s")
    parser.add_argument(
        "--dict", type=Path, metavar="FILE", help="default: CORPUS/lexicon.txt if there, or CMUdict"
    )
    parser.add_argument(
        "--lm",
        type=Path,
        metavar="ARPA",
        help="default: CORPUS/lm.arpa if there, or a trigram of the training transcripts",
    )
    parser.add_argument(
        "--mic", default="ihm", help="ihm, the headsets (default), or sdm, one microphone far away"
    )
    for name in SETS:
        parser.add_argument(
            f"--{name}-meetings", type=Path, metavar="FILE", help="one in a line, your own choice"
        )
    args = parser.parse_args(argv)
    lists = {name: getattr(args, f"{name}_meetings") for name in SETS}
    return exit_status(
        parser.prog, lambda: prepare(args.corpus, args.out, lists, args.dict, args.lm, args.mic)
    )


def refuse_other_microphones(mic: str) -> None:
    """InputError unless the recordings are those of headsets, or of one microphone."""
    if mic not in SOUNDS:
        raise InputError(f"--mic {mic}: is not available; choose {' or '.join(SOUNDS)}")


def prepare(
    corpus: Path,
    out: Path,
    lists: Mapping[str, Path | None],
    lexicon: Path | None,
    lm: Path | None,
    mic: str,
) -> None:
    """Write everything below `out`, of the meetings in `lists` or those of Kaldi's recipe."""
    refuse_other_microphones(mic)
    annotations = find_annotations(corpus)
    participants = read_participants(annotations)
    meetings = {name: chosen(name, path, participants) for name, path in lists.items()}
    refuse_shared(meetings)
    lexicon, lm = lexicon or beside(corpus / "lexicon.txt"), lm or beside(corpus / "lm.arpa")
    entries = own_lexicon(lexicon) if lexicon else default_lexicon()
    sounds = find_sounds(corpus, mic)
    written: dict[str, WrittenSet] = {}
    transcripts: dict[str, list[Utterance]] = {}
    for name, members in meetings.items():
        people = [person for meeting in members for person in participants[meeting]]
        transcripts[name] = said_by(name, people, annotations, mic)
        written[name] = write_set(
            transcripts[name], sounds, out / "data" / name, mend_overlaps=name != "train"
        )
        print(summary(name, len(members), written[name]))
    local = out / "data" / "local"
    write_dictionary(entries, local / "dict", silence=SILENCES, questions=[SILENCES])
    words = {word for word, _ in entries}
    texts = {name: known_words(spoken, words) for name, spoken in transcripts.items()}
    model = read_arpa(lm) if lm else estimate_witten_bell(texts["train"], ORDER, words)
    write_arpa(model, local / "lm.arpa")
    for name in SETS:
        print(quality(name, texts[name], model))
    missing = [name for w in written.values() for name in w.missing]
    if missing:
        total = sum(w.recordings for w in written.values())
        print(
            f"{len(missing)} of {total} recordings are missing below {corpus}, and what is said in"
            f" them gets no features: {name_some(missing)}; when they are there, prepare again (the"
            " same run.sh command does)"
        )


def beside(file: Path) -> Path | None:
    """A dictionary or language model of the user's that lies in the corpus folder."""
    if file.exists():
        print(f"{file} is taken")
        return file
    return None


def chosen(
    name: str, path: Path | None, participants: Mapping[str, Sequence[Participant]]
) -> list[str]:
    """The meetings of a set: of the user's list all, of Kaldi's those that are annotated here."""
    file = path or Path(__file__).with_name(f"{name}_meetings.txt")
    listed = [line[0] for _, line in iter_lines(file)]
    here = [meeting for meeting in listed if meeting in participants]
    absent = [meeting for meeting in listed if meeting not in participants]
    if not here or (path and absent):
        raise InputError(
            f"{file}: {len(absent)} of {len(listed)} meetings are not in the annotations, such as "
            f"{' '.join(absent[:3])}: name others by --{name}-meetings FILE"
        )
    if absent:
        print(f"{name}: {len(absent)} of {len(listed)} meetings are not in the annotations")
    return here


def refuse_shared(meetings: Mapping[str, Sequence[str]]) -> None:
    """InputError for a meeting that is listed twice, in one set or in two."""
    seen: dict[str, str] = {}
    for name, members in meetings.items():
        for meeting in members:
            if meeting in seen:
                raise InputError(f"the meeting {meeting} is listed in {seen[meeting]} and {name}")
            seen[meeting] = name


def said_by(
    name: str, people: Iterable[Participant], annotations: Path, mic: str
) -> list[Utterance]:
    """What the participants said; lines that the annotation holds twice are named and taken once.

    Words that Kaldi's recipe drops are counted and named, as are participants of whom segments name
    several channels.
    """
    everything: list[Utterance] = []
    lost: dict[str, int] = {}
    for person in people:
        who, channels = f"{person.meeting}.{person.agent}", set[str]()
        for turn in read_turns(annotations, person):
            spoken = [*utterances(turn, mic)]
            everything += spoken
            channels.add(turn.transcribed)
            if count := count_lost(turn, spoken):
                lost[f"{who} at {turn.start} s ({count})"] = count
        if len(channels) > 1:
            print(
                f"{name}: the segments of {who} name the channels {', '.join(sorted(channels))};"
                f" all are taken from that of meetings.xml, {person.channel}"
            )
    spoken = distinct(everything)
    if not spoken:
        raise InputError(f"{annotations}: nobody says anything in {name}")
    if lost:
        print(
            f"{name}: {sum(lost.values())} words of {len(lost)} turns left out, as no time says"
            f" when they were said: {name_some([*lost])}"
        )
    if len(everything) > len(spoken):
        twice = Counter(u.name for u in everything)
        named = ", ".join(utt for utt, times in twice.items() if times > 1)
        print(f"{name}: {len(everything)} utterances, of which annotated twice: {named}")
    return spoken


def known_words(spoken: Iterable[Utterance], words: Container[str]) -> list[list[str]]:
    """Transcripts in which a word without pronunciation is <unk>."""
    return [[word if word in words else UNKNOWN for word in u.words] for u in spoken]


def summary(name: str, meetings: int, written: WrittenSet) -> str:
    """One line: how much speech there is, and where sound is missing."""
    line = (
        f"{name}: {meetings} meetings, {written.recordings} recordings, {written.utterances} "
        f"utterances, {written.duration / 360000:.2f} hours"
    )
    if written.left_out:
        line += f"; left out, as they lie inside another: {', '.join(written.left_out)}"
    return line


def quality(name: str, texts: Sequence[Sequence[str]], model: NgramModel) -> str:
    """One line: how many words are unknown, and the perplexity of the others and sentence ends."""
    tokens = unknown = 0
    log_prob = 0.0
    for text in texts:
        sentence = (START, *text, END)
        for place in range(1, len(sentence)):
            score = model.score(sentence[place], sentence[:place])
            known = sentence[place] != UNKNOWN and score > -math.inf
            unknown += not known
            log_prob += score if known else 0.0
        tokens += len(text)
    perplexity = math.exp(-log_prob / (tokens + len(texts) - unknown))
    return (
        f"{name}: {tokens} words, {100 * unknown / tokens:.2f} % out of vocabulary, "
        f"perplexity {perplexity:.1f}"
    )


if __name__ == "__main__":
    sys.exit(main())
