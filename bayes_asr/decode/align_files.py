"""From a sound file and its text to words and phones with times and confidences."""

import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import discard, read_text, together
from bayes_asr.config.decoding_keys import SearchOptions
from bayes_asr.data.directories import locate
from bayes_asr.data.sound.audio import Channel
from bayes_asr.data.sound.audio import load_library as load_soundfile
from bayes_asr.data.sound.long import LongSound
from bayes_asr.data.sound.spectrum import FRAME_SHIFT
from bayes_asr.decode.align.best_path import AlignOptions
from bayes_asr.decode.align.spelling import open_pronouncer
from bayes_asr.decode.align.textgrid import TextGrids, TimedAlignment
from bayes_asr.decode.align.timed_files import TimedFiles
from bayes_asr.decode.align.timing_aligner import TimingAligner
from bayes_asr.decode.align.transcripts import TranscriptSource
from bayes_asr.decode.align_long import LongAligner, LongAlignment
from bayes_asr.decode.forward.log_likelihoods import load
from bayes_asr.decode.lattices.ctm import Place, TimedLabel, name_channel
from bayes_asr.decode.recordings import RecordingFrontEnd
from bayes_asr.decode.search.utterance import choose_engine
from bayes_asr.decode.segments import Segmentation, Segmenter, SilenceModel
from bayes_asr.decode.speakers import recording_name
from bayes_asr.train.runs.configuration import read_configuration
from bayes_asr.train.runs.run_model import locate_model

LONGEST_TEXT = 1 << 26  # bytes; a day of speech has two million


@dataclass(frozen=True)
class AlignedFile:
    """The alignment of a sound file of so many seconds; a frame lasts `frame_shift` seconds."""

    file: Path
    seconds: float
    frame_shift: float
    timed: TimedAlignment
    parts: LongAlignment | None = None
    """What of the text is where, of a long file."""
    channel: Channel | None = None
    """Of the file, counted from 0."""

    def describe(self) -> dict[str, Any]:
        """File, seconds, confidence, and words and phones with begins and ends in seconds."""
        tiers = self.timed.tiers.items()
        return {
            "file": str(self.file),
            "seconds": round(self.seconds, 3),
            "confidence": round(self.timed.confidence, 4),
            **{tier: [self._describe(x) for x in items] for tier, items in tiers},
        }

    def _describe(self, timed: TimedLabel) -> dict[str, Any]:
        return {
            "label": timed.label,
            "start": round(timed.start * self.frame_shift, 3),
            "end": round(timed.end * self.frame_shift, 3),
            "confidence": round(timed.confidence, 4),
        }

    def write(self, out: Path | None, textgrid: Path | None, outdated: Iterable[Path] = ()) -> None:
        """Write words.ctm, phones.ctm and confidence.txt below `out`, a TextGrid in `textgrid`.

        outdated: files of `out` that go as these come.
        """
        name = recording_name(self.file)
        grids = None
        if textgrid:
            grids = TextGrids(textgrid, self.frame_shift, seconds={name: self.seconds})
        if out:
            places = {name: Place(name, name_channel(self.channel), 0.0)}
            files = TimedFiles(out, self.frame_shift, places, grids)
            with together(out):
                for path in outdated:
                    discard(path)
                list(files.collect([(name, self.timed)]))
        elif grids:
            grids.add(name, self.timed)
        if grids:
            grids.finish()


def align_file(
    run: Path,
    sound: LongSound,
    lines: Sequence[Sequence[str]],
    transcripts: TranscriptSource,
    options: AlignOptions,
    *,
    segmenter: Segmenter | None = None,
) -> AlignedFile:
    """Align a sound file with the lines of words that are spoken in it, by the best network of a
    run.

    The file is a speaker of its own. transcripts: with the lexicon of these words. segmenter: finds
    speech; where it does, parts of the text may be missing or moved, and so it is by itself beyond
    a minute. InputError for words that the lexicon lacks and cannot spell, and where nothing can be
    aligned.
    """
    load_soundfile()
    config, network, file = read_configuration(run), load(run), Path(sound.name)
    words = [word for line in lines for word in line]
    pronouncer = open_pronouncer(file, locate_model(run, config), transcripts, words)
    front_end = RecordingFrontEnd.open(run, network.front_ends, config)

    def open_silence() -> SilenceModel:
        graph = locate(config.data.graph, config.data, "graph")
        return SilenceModel.open(network, graph, pronouncer.model)

    segmentation = Segmentation(front_end.compute, segmenter, "network", open_silence)
    segmented = segmentation.take(sound)
    stride = network.model.output_stride
    shift, seconds = FRAME_SHIFT * stride, sound.seconds
    timing = TimingAligner(pronouncer, options, choose_engine(), stride)
    if segmented.segmenter != "none":
        search = SearchOptions.from_config(config.decode, allow_partial=True)
        aligner = LongAligner(network, pronouncer, options, search, choose_engine(), timing.align)
        speaker = front_end.estimate(sound.name, segmented.sample())
        spans = segmented.find_speech(speaker)
        parts = aligner.align(sound.name, lines, spans, lambda x: segmented.read(x, speaker))
        timed = parts.to_timed(round(seconds / shift))
        return AlignedFile(file, seconds, shift, timed, parts, sound.channel)
    recording = front_end.read(sound)
    loglikes = network(recording.features, recording.statistics).numpy()
    timed = timing.align(sound.name, words, loglikes)
    return AlignedFile(file, seconds, shift, timed, channel=sound.channel)


def read_lines(path: Path) -> list[list[str]]:
    """The words of each line of a text file; InputError where it has none."""
    # As editors count them: a form feed between pages ends no line.
    text = io.StringIO(read_text(path, LONGEST_TEXT), newline=None)
    lines = [line.split() for line in text]
    if not any(lines):
        raise InputError(f"{path}: has no words to align")
    return lines
