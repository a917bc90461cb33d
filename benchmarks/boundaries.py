"""Boundaries and confidences of alignments against hand marks.

Prints the share of phones that begin within 10, 20 and 50 ms of the hand mark, the same where all
begin 7.5 ms later, the median of how much later they begin, and the share of frames with the
hand-marked phone. Of alignments with a phones.ctm, also how well its confidences are calibrated: by
deciles, their mean and the share of these phones that the hand mark's phone covers.

DATA has the hand marks in phones.ctm, as recipes timit and timit_sample prepare it; the text of the
alignments is that of the marks.

    python benchmarks/boundaries.py DATA NAME=DIR... [--leave-out UTT...] [--json FILE]
"""

import argparse
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import record

from bayes_asr.data.targets.alignments import Alignments
from bayes_asr.kaldi_io.symbols import read_symbols
from bayes_asr.kaldi_io.transition_model import phone_spans

NEAR = (10, 20, 50)  # ms
SHIFT = 0.01
MIDDLE = 0.0075  # the middle between the windows of 25 ms of two frames, after the second begins
DECILES = 10
Spans = list[tuple[float, float, str]]


class Phone(NamedTuple):
    """An aligned phone against the hand mark of the same place in the text."""

    later: float  # seconds by which it begins after the hand mark
    overlap: float  # the share of it that has the hand mark's phone
    seconds: float
    confidence: float | None


def read_ctm(path: Path) -> tuple[dict[str, Spans], dict[str, list[float]]]:
    """Begin, end and phone by utterance, and the confidences where the file has them."""
    spans: dict[str, Spans] = defaultdict(list)
    confidences: dict[str, list[float]] = defaultdict(list)
    for line in path.read_text(encoding="utf-8").splitlines():
        utt, _, begin, length, phone, *confidence = line.split()
        spans[utt].append((float(begin), float(begin) + float(length), phone))
        confidences[utt] += map(float, confidence)
    return spans, confidences


def read_alignments(folder: Path) -> tuple[dict[str, Spans], dict[str, list[float]]]:
    """The phones of an alignment directory, and the confidences of its phones.ctm."""
    alignments = Alignments(folder)
    table = next(
        p
        for p in (folder / "phones.txt", folder.parent.parent / "data/lang/phones.txt")
        if p.exists()
    )
    names = {number: phone for phone, number in read_symbols(table).items()}
    spans = {}
    for utt, tids in alignments.items():
        rows = zip(*(x.tolist() for x in phone_spans(alignments.model, tids)), strict=True)
        spans[utt] = [(SHIFT * start, SHIFT * end, names[phone]) for phone, start, end in rows]
    ctm = folder / "phones.ctm"
    return spans, read_ctm(ctm)[1] if ctm.exists() else {}


def overlap(span: tuple[float, float, str], marks: Spans) -> float:
    """The share of a span that hand marks of the same phone cover."""
    begin, end, phone = span
    shared = [min(end, e) - max(begin, b) for b, e, p in marks if p == phone]
    return sum(x for x in shared if x > 0) / (end - begin)


def compare(
    spans: dict[str, Spans], confidences: dict[str, list[float]], marks: dict[str, Spans]
) -> list[Phone]:
    """The aligned phones of utterances whose text is that of the marks."""
    phones = []
    for utt, aligned in spans.items():
        if [p for *_, p in aligned] != [p for *_, p in marks[utt]]:
            raise SystemExit(f"{utt}: the text of the alignment is not that of the hand marks")
        values: Sequence[float | None] = confidences.get(utt) or [None] * len(aligned)
        phones += [
            Phone(span[0] - mark[0], overlap(span, marks[utt]), span[1] - span[0], confidence)
            for span, mark, confidence in zip(aligned, marks[utt], values, strict=True)
        ]
    return phones


def measure(phones: list[Phone]) -> dict[str, Any]:
    """The figures of an alignment; shares in per cent, times in ms."""
    later, overlaps, seconds = (np.array([row[i] for row in phones]) for i in range(3))
    inner = later[later != 0.0]  # the first phone of an utterance begins with it
    figures: dict[str, Any] = {"phones": len(phones), "boundaries": len(inner)}
    for name, delays in (("within", inner), ("moved_within", inner + MIDDLE)):
        for near in NEAR:
            figures[f"{name}_{near}_ms"] = 100 * float((np.abs(delays) <= near / 1000).mean())
    figures["median_later_ms"] = 1000 * float(np.median(inner))
    figures["mean_error_ms"] = 1000 * float(np.abs(inner).mean())
    figures["frames_right"] = 100 * float((overlaps * seconds).sum() / seconds.sum())
    if phones[0].confidence is not None:
        values = np.array([row.confidence for row in phones], float)
        parts = np.array_split(np.argsort(values, kind="stable"), DECILES)
        figures["deciles"] = [
            (float(values[part].mean()), float(overlaps[part].mean())) for part in parts
        ]
        gaps = [abs(confidence - right) for confidence, right in figures["deciles"]]
        figures["calibration_error"] = float(np.mean(gaps))
        figures["confidence"] = float((values * seconds).sum() / seconds.sum())
    return figures


def main() -> None:
    """Measure each alignment, print the figures and write them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("data", type=Path, metavar="DATA")
    parser.add_argument("alignments", nargs="+", metavar="NAME=DIR")
    parser.add_argument("--leave-out", nargs="+", default=[], metavar="UTT")
    record.add_options(parser)
    args = parser.parse_args()
    marks, _ = read_ctm(args.data / "phones.ctm")
    by_name = dict(entry.split("=", 1) for entry in args.alignments)
    aligned = {name: read_alignments(Path(folder)) for name, folder in by_name.items()}
    # All are measured on the utterances that all of them have.
    common = set.intersection(*(set(spans) for spans, _ in aligned.values()), set(marks))
    common -= set(args.leave_out)
    rows = []
    for name, (spans, confidences) in aligned.items():
        selected = {utt: spans[utt] for utt in sorted(common)}
        rows.append(
            {
                "name": name,
                "utterances": len(selected),
                **measure(compare(selected, confidences, marks)),
            }
        )
        print(f"{name}: {rows[-1]}")
    record.save(rows, "boundaries", args)


if __name__ == "__main__":
    main()
