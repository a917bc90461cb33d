"""A recording of an hour against its whole text: made of a corpus, aligned, and measured.

`make` joins the utterances of a data directory to one file, in their order, and writes the text of
the whole with faults: passages without text, passages that nobody says (of another data directory)
and places where two passages stand in the wrong order. `score` compares an alignment of that file
with where the utterances are, and the words with an alignment of the utterances one by one.

    python benchmarks/long_recording.py make OUT/data/test OUT/data/train WORK [--seed 1]
    bayes-asr align RUN WORK/long.wav --text WORK/long.txt --lang LANG --out WORK/aligned
    bayes-asr align RUN --on test --text OUT/data/test/text_words --lang LANG --out WORK/apart
    python benchmarks/long_recording.py score WORK [--json FILE]
    bayes-asr transcribe RUN WORK/long.wav --segments vad --rttm WORK/vad.rttm
    python benchmarks/long_recording.py score WORK --rttm WORK/vad.rttm
"""

import argparse
import json
import random
import wave
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import record

from bayes_asr.data.sound.audio import read_audio
from bayes_asr.kaldi_io.ark import read_scp
from bayes_asr.kaldi_io.text import read_text

RATE = 16000
REMOVED, FOREIGN, SWAPPED = 3, 3, 5  # passages without text, without sound, pairs in wrong order
LINES = (4, 10)  # of such a passage
SILENCES = {"sil", "spn"}
ROUNDING = 0.006  # seconds, of the times of a CTM


@dataclass
class Utterance:
    """An utterance in the long file, in seconds; `line` of the text from 0, None where removed."""

    name: str
    start: float
    end: float
    words: list[str]
    line: int | None = None


def join(
    sounds: dict[str, str], texts: dict[str, list[str]], minutes: float, out: Path
) -> list[Utterance]:
    """Write the sound of utterances, one behind the other, to a RIFF file of so many minutes."""
    utterances, samples = [], 0
    with wave.open(str(out), "wb") as file:
        file.setparams((1, 2, RATE, 0, "NONE", ""))
        for name, sound in sounds.items():
            x, rate = read_audio(sound)
            if rate != RATE:
                raise SystemExit(f"{sound}: {rate} Hz, not {RATE}")
            file.writeframes(x.astype(np.int16).tobytes())
            begin, samples = samples, samples + len(x)
            utterances.append(Utterance(name, begin / RATE, samples / RATE, texts[name]))
            if samples >= minutes * 60 * RATE:
                break
    return utterances


def draw_blocks(count: int, lines: int, rng: random.Random) -> list[range]:
    """Passages of the text that neither overlap nor touch, in random order."""
    places = sorted(rng.sample(range(0, lines - 2 * LINES[1], 2 * LINES[1] + 2), count))
    blocks = [range(place, place + rng.randint(*LINES)) for place in places]
    rng.shuffle(blocks)
    return blocks


def spoil(
    utterances: Sequence[Utterance], foreign: Sequence[list[str]], rng: random.Random
) -> list[list[str]]:
    """The lines of a faulty text; sets `line` of each utterance that is left."""
    blocks = draw_blocks(REMOVED + FOREIGN + SWAPPED, len(utterances), rng)
    removed, inserted, swapped = blocks[:REMOVED], blocks[REMOVED:-SWAPPED], blocks[-SWAPPED:]
    order = [*range(len(utterances))]
    for block in swapped:
        middle = block.start + len(block)
        further = range(middle, middle + len(block))
        order[block.start : further.stop] = [*further, *block]
    begin_of = {block.start: block for block in inserted}
    lines: list[list[str]] = []
    for place, index in enumerate(order):
        if place in begin_of:
            at = rng.randrange(len(foreign) - LINES[1])
            lines += foreign[at : at + len(begin_of[place])]
        if not any(index in block for block in removed):
            utterances[index].line = len(lines)
            lines.append(utterances[index].words)
    return lines


def make(data: Sequence[Path], out: Path, minutes: float, seed: int) -> None:
    """Write long.wav, long.txt, long.json, which says where each utterance is, and `utterances`."""
    out.mkdir(parents=True, exist_ok=True)
    texts = {utt: words for part in data for utt, words in read_text(part / "text_words").items()}
    sounds = {utt: file for part in data for utt, file in read_scp(part / "wav.scp").items()}
    utterances = join(sounds, texts, minutes, out / "long.wav")
    foreign = [*texts.values()][len(utterances) :]
    lines = spoil(utterances, foreign, random.Random(seed))
    (out / "long.txt").write_text("".join(f"{' '.join(line)}\n" for line in lines))
    (out / "long.json").write_text(json.dumps([asdict(utt) for utt in utterances]))
    joined = {utt.name: texts[utt.name] for utt in utterances}
    write_data(data, joined, out / "utterances")


def write_data(data: Sequence[Path], texts: dict[str, list[str]], out: Path) -> None:
    """A data directory of the utterances that have texts, with the features of `data`."""
    out.mkdir(exist_ok=True)
    rows = {
        name: [line for part in data for line in (part / name).read_text().splitlines()]
        for name in ("feats.scp", "cmvn.scp", "utt2spk")
    }
    for name in ("feats.scp", "utt2spk"):
        rows[name] = [line for line in rows[name] if line.split()[0] in texts]
    rows["cmvn.scp"] = [*{line.split()[0]: line for line in rows["cmvn.scp"]}.values()]
    rows["text"] = [" ".join([utt, *words]) for utt, words in texts.items()]
    for name, lines in rows.items():
        (out / name).write_text("".join(f"{line}\n" for line in sorted(lines)))


def read_ctm(path: Path) -> dict[str, list[tuple[float, float]]]:
    """Begins and ends of the words of each recording."""
    times: dict[str, list[tuple[float, float]]] = {}
    for line in path.read_text().splitlines():
        name, _, begin, length, *_ = line.split()
        times.setdefault(name, []).append((float(begin), float(begin) + float(length)))
    return times


def score(folder: Path) -> dict[str, Any]:
    """Shares in per cent of what is found, and of boundaries near those of short files."""
    utterances = [Utterance(**fields) for fields in json.loads((folder / "long.json").read_text())]
    report = json.loads((folder / "aligned" / "lines.json").read_text())
    words = sorted(read_ctm(folder / "aligned" / "words.ctm")["long"])
    apart = read_ctm(folder / "apart" / "words.ctm")
    lines, present = report["lines"], [utt for utt in utterances if utt.line is not None]
    placed = [(utt, lines[utt.line]) for utt in present if lines[utt.line]["spoken"]]
    right = [
        line["start"] >= utt.start - 0.5 and line["end"] <= utt.end + 0.5 for utt, line in placed
    ]
    errors: list[float] = []
    for utt, line in placed:
        if line["spoken"] == line["words"]:
            inside = [
                w for w in words if line["start"] - 0.006 <= w[0] and w[1] <= line["end"] + 0.006
            ]
            reference = [(a + utt.start, b + utt.start) for a, b in apart[utt.name]]
            if len(inside) == len(reference):
                errors += np.abs(np.subtract(inside, reference)).ravel().tolist()
    foreign = {*range(len(lines))} - {utt.line for utt in present}
    removed = [utt for utt in utterances if utt.line is None]
    covered = sum(
        max(0.0, min(end, utt.end) - max(begin, utt.start))
        for begin, end in report["extra"]
        for utt in removed
    )
    spoken = sum(apart[utt.name][-1][1] - apart[utt.name][0][0] for utt in removed)
    shares = {
        f"word_boundaries_within_{ms}_ms": 100
        * float(np.mean(np.array(errors) <= ms / 1000 + 1e-6))
        for ms in (20, 50, 100, 500)
    }
    total = sum(len(utt.words) for utt in present)
    return {
        "minutes": utterances[-1].end / 60,
        "utterances_with_text": len(present),
        "found": 100 * len(placed) / len(present),
        "within_their_utterance": 100 * sum(right) / len(placed),
        "entire": 100 * sum(line["spoken"] == line["words"] for _, line in placed) / len(present),
        "words": 100 * sum(line["spoken"] for _, line in placed) / total,
        **shares,
        "boundaries": len(errors),
        "foreign_words_said": sum(lines[n]["spoken"] for n in foreign),
        "foreign_words": sum(lines[n]["words"] for n in foreign),
        "speech_without_text_named": 100 * covered / spoken,
        "extra_seconds": sum(end - begin for begin, end in report["extra"]),
    }


def rate_segments(folder: Path, rttm: Path) -> dict[str, float]:
    """Missed speech and false alarms of segments in per cent of all time, by frames of 10 ms.

    Speech is what is no silence phone where utterances are aligned one by one.
    """
    utterances = json.loads((folder / "long.json").read_text())
    starts = {utt["name"]: utt["start"] for utt in utterances}
    speech, segments = np.zeros((2, int(100 * utterances[-1]["end"])), bool)
    for line in (folder / "apart" / "phones.ctm").read_text().splitlines():
        name, _, begin, length, phone, *_ = line.split()
        start = int(100 * (starts[name] + float(begin)) + 0.5)
        speech[start : start + round(100 * float(length))] = phone not in SILENCES
    for line in rttm.read_text().splitlines():
        onset, duration = map(float, line.split()[3:5])
        segments[round(100 * onset) : round(100 * (onset + duration))] = True
    missed, alarms = (speech & ~segments).mean(), (segments & ~speech).mean()
    return {"missed_speech": 100 * float(missed), "false_alarms": 100 * float(alarms)}


def main() -> None:
    """Make the recording, or score what an alignment has found."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    making, scoring = verbs.add_parser("make"), verbs.add_parser("score")
    making.add_argument("data", type=Path, nargs="+")
    making.add_argument("out", type=Path)
    making.add_argument("--minutes", type=float, default=60)
    making.add_argument("--seed", type=int, default=1)
    scoring.add_argument("out", type=Path)
    scoring.add_argument("--rttm", type=Path, help="segments of transcribe to be rated instead")
    record.add_options(scoring)
    args = parser.parse_args()
    if args.verb == "make":
        make(args.data, args.out, args.minutes, args.seed)
        return
    figures = rate_segments(args.out, args.rttm) if args.rttm else score(args.out)
    for name, value in figures.items():
        print(f"{name:32s} {value:.4g}")
    record.save(figures, "long-recording", args)


if __name__ == "__main__":
    main()
