"""From a sound file and its text to words and phones with times and confidences."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import read_text, together
from bayes_asr.data.sound.audio import Channel
from bayes_asr.data.sound.audio import load_library as load_soundfile
from bayes_asr.data.sound.spectrum import FRAME_SHIFT
from bayes_asr.decode.align.best_path import AlignOptions
from bayes_asr.decode.align.spelling import spell_words
from bayes_asr.decode.align.textgrid import TextGrids
from bayes_asr.decode.align.timed import TimedAlignment
from bayes_asr.decode.align.timed_files import TimedFiles
from bayes_asr.decode.align.transcript import read_pronouncer
from bayes_asr.decode.align.utterance import TimingAligner
from bayes_asr.decode.forward.log_likelihoods import load
from bayes_asr.decode.lattices.ctm import TimedLabel
from bayes_asr.decode.recordings import RecordingFrontEnd
from bayes_asr.decode.search.embedded import choose_engine
from bayes_asr.tasks.task import task_of
from bayes_asr.train.runs.configuration import read_configuration


@dataclass(frozen=True)
class AlignedFile:
    """The alignment of a sound file of so many seconds; a frame lasts `frame_shift` seconds."""

    file: Path
    seconds: float
    frame_shift: float
    timed: TimedAlignment

    def describe(self) -> dict[str, Any]:
        """File, seconds, confidence, and words and phones with begins and ends in seconds."""
        timed = self.timed
        labels = {"words": timed.words, "phones": timed.phones}
        return {
            "file": str(self.file),
            "seconds": round(self.seconds, 3),
            "confidence": round(timed.confidence, 4),
            **{tier: [self._describe(x) for x in items] for tier, items in labels.items()},
        }

    def _describe(self, timed: TimedLabel) -> dict[str, Any]:
        return {
            "label": timed.label,
            "start": round(timed.start * self.frame_shift, 3),
            "end": round(timed.end * self.frame_shift, 3),
            "confidence": round(timed.confidence, 4),
        }

    def write(self, out: Path | None, textgrid: Path | None) -> None:
        """Write words.ctm, phones.ctm and confidence.txt below `out`, a TextGrid in `textgrid`."""
        name = "_".join(self.file.stem.split())
        grids = None
        if textgrid:
            grids = TextGrids(textgrid, self.frame_shift, seconds={name: self.seconds})
        if out:
            files = TimedFiles(out, self.frame_shift, None, grids)
            with together(out):
                list(files.collect([(name, self.timed)]))
        elif grids:
            grids.add(name, self.timed)


def align_file(
    run: Path,
    file: Path,
    words: Sequence[str],
    lang: Path,
    options: AlignOptions,
    *,
    unknown: str | None = None,
    channel: Channel | None = None,
) -> AlignedFile:
    """Align a sound file with the words that are spoken in it, by the best network of `run`.

    The file is a speaker of its own. lang: as of `TranscriptSource`, likewise `unknown`. InputError
    for words that the lexicon lacks and cannot spell, and where nothing can be aligned.
    """
    load_soundfile()
    config, network = read_configuration(run), load(run)
    speech = read_pronouncer(lang, task_of(config).locate_model(), unknown)
    try:
        speech = spell_words(speech, words)
    except InputError as error:
        raise InputError(f"{file}: {error}") from None
    front_end = RecordingFrontEnd.open(run, network.front_ends, config)
    recording = front_end.read(str(file), channel)
    recording = front_end.estimate(recording.file, [recording]).apply(recording)
    loglikes = network(recording.features, recording.statistics).numpy()
    stride = network.model.output_stride
    timed = TimingAligner(speech, options, choose_engine(), stride).align(
        str(file), words, loglikes
    )
    return AlignedFile(file, recording.seconds, FRAME_SHIFT * stride, timed)


def read_words(path: Path) -> list[str]:
    """The words of a text file; InputError where it has none."""
    words = read_text(path).split()
    if not words:
        raise InputError(f"{path}: has no words to align")
    return words
