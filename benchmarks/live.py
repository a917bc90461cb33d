"""How soon words of sound that arrives are heard, and settled.

Every utterance of a data directory is sent in pieces of 0.1 s to a run whose network reads forwards
only. Of each word of the end it is told how many frames after its end it stood in the best path for
good, and how many after it no later sound could change it; and whether the words at the end are
those of the same sound offline.

    python benchmarks/live.py RUN --data DIR [--speaker FILE] [--json FILE]
"""

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import record

from bayes_asr.data.sound.audio import bring_to_rate, read_audio
from bayes_asr.data.sound.spectrum import FRAME_SHIFT
from bayes_asr.decode.live import LiveRecogniser, PartialResult, open_live
from bayes_asr.decode.python import transcribe
from bayes_asr.decode.recognise import RecognisedWord
from bayes_asr.kaldi_io.ark import read_scp

PIECE = 0.1  # seconds


def hear(
    live: LiveRecogniser, samples: np.ndarray
) -> tuple[list[RecognisedWord], list[tuple[float, PartialResult]]]:
    """The words of an utterance, and what was heard of it when so many seconds were there."""
    size = int(live.rate * PIECE)
    words: list[RecognisedWord] = []
    heard: list[tuple[float, PartialResult]] = []
    begin = 0
    for end in range(size, len(samples) + size, size):
        news = live.push(samples[begin:end])
        begin = end
        if isinstance(news, PartialResult):
            heard.append((min(end, len(samples)) / live.rate, news))
        else:
            words += news.words
    return [*words, *live.finish().words], heard


def delays(
    words: list[RecognisedWord], heard: list[tuple[float, PartialResult]], seconds: float
) -> tuple[list[float], list[float]]:
    """Frames from the end of each word until it stood for good, and until it was settled.

    Words that only the end of the sound has settled count from there.
    """
    stood, settled = [], []
    for place, word in enumerate(words):
        name = word.word
        there = [
            (at, (*news.settled, *news.open)[place : place + 1] == (name,), len(news.settled))
            for at, news in heard
        ]
        wrong = [at for at, is_there, _ in there if not is_there]
        since = next((at for at, *_ in there if not wrong or at > wrong[-1]), seconds)
        fixed = next((at for at, _, count in there if count > place), seconds)
        stood.append((since - word.end) / FRAME_SHIFT)
        settled.append((max(fixed, since) - word.end) / FRAME_SHIFT)
    return stood, settled


def main() -> None:
    """Send, print and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("run", type=Path, metavar="RUN")
    parser.add_argument("--data", type=Path, required=True, metavar="DIR")
    parser.add_argument("--speaker", type=Path, metavar="FILE")
    record.add_options(parser)
    args = parser.parse_args()
    stood: list[float] = []
    settled: list[float] = []
    took = length = 0.0
    names = [*read_scp(args.data / "wav.scp").values()]
    words_of: list[list[str]] = []
    for name in names:
        # A pause that no utterance has ends none: each is one, as it is offline.
        live = open_live(args.run, args.speaker, pause=1e9)
        samples, rate = read_audio(name)
        samples = bring_to_rate(samples, rate, live.rate, name)
        begin = time.process_time()
        words, heard = hear(live, samples)
        took += time.process_time() - begin
        length += len(samples) / live.rate
        before, after = delays(words, heard, len(samples) / live.rate)
        stood += before
        settled += after
        words_of.append([word.word for word in words])
    offline = transcribe(args.run, names)
    pairs = zip(offline, words_of, strict=True)
    figures: dict[str, Any] = {
        "utterances": len(names),
        "with the words of offline": sum([w.word for w in o.words] == heard for o, heard in pairs),
        "words": len(stood),
        "seconds of processor for a second of sound": took / length,
    }
    for what, values in (("stood", stood), ("settled", settled)):
        for share in (50, 90):
            figures[f"frames until {what}, {share} %"] = float(np.percentile(values, share))
    for what, value in figures.items():
        print(f"{what:45s} {value:.3f}" if isinstance(value, float) else f"{what:45s} {value}")
    record.save(figures, "live", args)


if __name__ == "__main__":
    main()
