"""TextGrids of alignments, for Praat and ELAN, by praatio (the extra `textgrid`).

Tiers are `words` and `phones`, as those of the Montreal Forced Aligner; where a recording has
several speakers, each has a pair of tiers, `SPEAKER - words` and `SPEAKER - phones`.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import discard, replacing, together
from bayes_asr.base.installed import install_command
from bayes_asr.base.safe_pickle import loadable
from bayes_asr.decode.align.best_path import Alignment
from bayes_asr.decode.graph.lexicon import Pronunciation, bears_positions, strip_position
from bayes_asr.decode.lattices.ctm import Place, TimedLabel, find_place

TIERS = ("words", "phones")
SAME_LENGTH = 0.05  # seconds: a TextGrid of a set ends with the last frame of its recording


@loadable
@dataclass(frozen=True)
class TimedAlignment:
    """An alignment with its words and phones, and the mean posterior of the frames of speech."""

    alignment: Alignment
    words: list[TimedLabel]
    phones: list[TimedLabel]
    confidence: float

    @property
    def tiers(self) -> dict[str, list[TimedLabel]]:
        """Words and phones; phones without their places in words, where all of a word bear them."""
        starts = [phone.start for phone in self.phones]
        edges = [(bisect_left(starts, w.start), bisect_left(starts, w.end)) for w in self.words]
        phones, spelled = self.phones, (tuple(p.label for p in self.phones[i:j]) for i, j in edges)
        if bears_positions(Pronunciation("", 1.0, labels) for labels in spelled if labels):
            phones = [p._replace(label=strip_position(p.label)) for p in phones]
        return dict(zip(TIERS, (self.words, phones), strict=True))


TimedResult = tuple[str, TimedAlignment | InputError]


class PlacedUtterance(NamedTuple):
    """An utterance in a recording: its labels by tier, and when it ends, in seconds."""

    utt: str
    speaker: str
    begin: float
    end: float
    tiers: Mapping[str, Sequence[tuple[float, float, str]]]


def load_library() -> Any:
    """Import praatio's textgrid, or raise InputError that says how to get it."""
    try:
        from praatio import textgrid
    except ImportError as error:
        raise InputError(
            f"TextGrids need praatio: {install_command('textgrid')} ({error})"
        ) from error
    return textgrid


def name_textgrid(recording: str) -> str:
    """The name of the TextGrid of a recording."""
    return f"{recording.replace('/', '_')}.TextGrid"


def refuse_other_length(grid: Path, file: Path, seconds: float) -> None:
    """InputError where a TextGrid is there of a recording that is not so long as `file`.

    Files of two folders may have one name. A TextGrid that cannot be read tells nothing.
    """
    library = load_library()
    try:
        end = library.openTextgrid(str(grid), includeEmptyIntervals=True).maxTimestamp
    except Exception:  # praatio has many for what is no TextGrid, beside those of files
        return
    if abs(end - seconds) >= SAME_LENGTH:
        raise InputError(
            f"{grid}: is {end:.3f} s long, and {file} {seconds:.3f} s: it may be of another"
            " recording of that name; name a folder for each by --textgrid, or give --force"
        )


def refuse_namesakes(recordings: Iterable[str]) -> None:
    """InputError where two recordings would have a TextGrid of the same name."""
    by_name: dict[str, str] = {}
    for recording in recordings:
        name = name_textgrid(recording)
        if (namesake := by_name.setdefault(name, recording)) != recording:
            raise InputError(f"{namesake} and {recording} would both be {name}; rename one")


def refuse_overlaps(recording: str, utterances: Sequence[PlacedUtterance], overlap: float) -> None:
    """InputError where two utterances of a speaker have `overlap` or more seconds in common."""
    for earlier, later in pairwise(sorted(utterances, key=attrgetter("begin"))):
        if round(earlier.end - later.begin, 6) >= overlap:
            raise InputError(
                f"{recording}: {later.utt} begins at {later.begin:.2f} s, before {earlier.utt}"
                f" of the same speaker ends, at {earlier.end:.2f} s: a tier holds one of them;"
                " give them different speakers in utt2spk, or leave --textgrid"
            )


@dataclass
class TextGrids:
    """Writer of a TextGrid of each recording.

    out: their folder; frame_shift: seconds; speakers: of each utterance; places: of utterances in
    recordings, None where each utterance is one; seconds: how long recordings are, where that is
    known, otherwise they end with their last frame.
    """

    out: Path
    frame_shift: float
    speakers: Mapping[str, str] = field(default_factory=dict)
    places: Mapping[str, Place] | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse to begin without praatio."""
        self.library = load_library()
        self._recordings: dict[str, list[PlacedUtterance]] = defaultdict(list)

    def add(self, utt: str, timed: TimedAlignment) -> None:
        """Take an utterance."""
        place = find_place(utt, self.places)
        tiers = {
            tier: [self._place(label, place.begin) for label in labels]
            for tier, labels in timed.tiers.items()
        }
        end = self._seconds(len(timed.alignment.transition_ids), place.begin)
        placed = PlacedUtterance(utt, self.speakers.get(utt, utt), place.begin, end, tiers)
        self._recordings[place.recording].append(placed)

    @property
    def recordings(self) -> list[str]:
        """Those of all utterances whose speakers are known."""
        utts = [utt for utt in self.speakers if self.places is None or utt in self.places]
        return sorted({find_place(utt, self.places).recording for utt in utts})

    def check(self, ends: Mapping[str, float], frame_length: float) -> None:
        """InputError where `finish` would refuse utterances that end so, whatever is aligned.

        frame_length: the last frame may end so much before its utterance, in seconds.
        """
        refuse_namesakes(self.recordings)
        by_tier: dict[tuple[str, str], list[PlacedUtterance]] = defaultdict(list)
        for utt, end in ends.items():
            place, speaker = find_place(utt, self.places), self.speakers.get(utt, utt)
            placed = PlacedUtterance(utt, speaker, place.begin, end, {})
            by_tier[place.recording, speaker].append(placed)
        for (recording, _), utterances in by_tier.items():
            refuse_overlaps(recording, utterances, frame_length + self.frame_shift)

    def finish(self) -> None:
        """Write the recordings of all utterances that were taken, or none of them.

        Those of which none was taken lose what an earlier call has written.
        """
        refuse_namesakes(self._recordings)
        with together(self.out):
            for recording, utterances in self._recordings.items():
                ordered = sorted(utterances, key=attrgetter("begin"))
                self._write(recording, ordered, self.out / name_textgrid(recording))
            written = {*map(name_textgrid, self._recordings)}
            for name in {*map(name_textgrid, self.recordings)} - written:
                discard(self.out / name)

    def _seconds(self, frame: float, begin: float) -> float:
        # Rounded, so that the end of a label and the begin of the next are the same number.
        return round(begin + frame * self.frame_shift, 6)

    def _place(self, timed: TimedLabel, begin: float) -> tuple[float, float, str]:
        return self._seconds(timed.start, begin), self._seconds(timed.end, begin), timed.label

    def _separate(
        self, recording: str, utterances: Sequence[PlacedUtterance], end: float
    ) -> Iterator[dict[str, list[tuple[float, float, str]]]]:
        """Yield the labels of each utterance by tier; intervals of one tier cannot overlap.

        A last frame that reaches into the next utterance, or behind the end of the recording, ends
        there; InputError for more of the first.
        """
        refuse_overlaps(recording, utterances, self.frame_shift)
        limits = [*(later.begin for later in utterances[1:]), end]
        for utterance, limit in zip(utterances, limits, strict=True):
            yield {
                tier: [(begin, min(until, limit), label) for begin, until, label in labels]
                for tier, labels in utterance.tiers.items()
            }

    def _write(self, recording: str, utterances: Sequence[PlacedUtterance], path: Path) -> None:
        """Write the TextGrid of a recording, its utterances in the order of their begins."""
        last = max(utterance.end for utterance in utterances)
        seconds = self.seconds.get(recording, last)
        end = seconds if round(last - seconds, 6) < self.frame_shift else last
        grid = self.library.Textgrid(0.0, end)
        by_speaker: dict[str, list[PlacedUtterance]] = defaultdict(list)
        for utterance in utterances:
            by_speaker[utterance.speaker].append(utterance)
        for speaker, members in by_speaker.items():
            separate = [*self._separate(recording, members, end)]
            for tier in TIERS:
                name = tier if len(by_speaker) == 1 else f"{speaker} - {tier}"
                labels = [label for tiers in separate for label in tiers[tier]]
                grid.addTier(self.library.IntervalTier(name, labels, 0.0, end))
        with replacing(path) as temporary:
            grid.save(str(temporary), format="long_textgrid", includeBlankSpaces=True)
