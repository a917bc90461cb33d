"""Data directories of the same speech at other speeds (Ko et al. 2015).

As Kaldi's utils/perturb_data_dir_speed.sh: at a factor of 0.9 the sound is resampled to 1/0.9 of
its samples and read at the same rate, so that speech is slower and lower, and the names of
utterances, speakers and recordings begin with sp0.9-. Kaldi lets wav.scp run sox. Here a name in
wav.scp ends with [speed=0.9], which the reader understands; Kaldi refuses such a name.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import chain
from pathlib import Path

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import discard, is_there, read_text, real_path, together
from bayes_asr.base.log import LOGGER
from bayes_asr.base.places import refuse_read
from bayes_asr.data.sound.audio import split_speed
from bayes_asr.kaldi_io.ark import read_scp
from bayes_asr.kaldi_io.binary import iter_lines
from bayes_asr.kaldi_io.segments import segment_error
from bayes_asr.kaldi_io.text import (
    SPEED_PREFIX,
    read_mapping,
    write_lines,
    write_mapping,
    write_speakers,
)

Table = Callable[[Path, Fraction], Iterator[str]]


def write_speeds(data: Path, out: Path, factors: Sequence[Fraction]) -> int:
    """Write the utterances of a data directory at each speed; returns how many there are then.

    Takes wav.scp and `TABLES`, and writes utt2uniq and `SOURCE`. What is at 1 keeps its names.
    Features are to be computed anew, and alignments are those of the new features. Tables of `out`
    that `data` lacks are removed. InputError where `out` is `data`, has features already, or has
    such tables and was not written by this, for the commands of a wav.scp, and for names that two
    speeds would share.
    """
    refuse_read(out, [data])
    if len({*factors}) < len(factors):
        raise InputError(f"a speed is there twice: {', '.join(map(_format, factors))}")
    stale = [name for name in ("feats.scp", "cmvn.scp") if is_there(out / name)]
    if stale:
        raise InputError(f"{out / stale[0]}: of other speech; remove the folder, or name another")
    speakers = {
        f"{prefix}{utt}": f"{prefix}{speaker}"
        for prefix in map(_prefix, factors)
        for utt, speaker in read_mapping(data / "utt2spk").items()
    }
    # Two names that fall together leave fewer entries than utterances times speeds.
    if len(speakers) < len(factors) * len(read_mapping(data / "utt2spk")):
        raise InputError(f"{data / 'utt2spk'}: some names begin with sp already, as those to come")
    tables = {"wav.scp": _convert_sounds, **_list_tables(data)}
    old = _list_old(data, out)
    out.mkdir(parents=True, exist_ok=True)
    with together(out):
        write_speakers(speakers, out)
        write_mapping(sorted(_list_originals(data, factors)), out / "utt2uniq")
        for name, convert in tables.items():
            parts = (convert(data / name, factor) for factor in factors)
            # Kaldi wants tables sorted by their first column, not by whole lines.
            lines: list[str] = sorted(chain.from_iterable(parts), key=_name_of)
            write_lines(lines, out / name)
        for name in old:
            discard(out / name)
        write_lines([os.path.relpath(real_path(data), real_path(out))], out / SOURCE)
    if old:
        LOGGER.info("%s: removed, as %s has none: %s", out, data, ", ".join(old))
    skipped = sorted(
        path.name
        for path in data.iterdir()
        if path.is_file() and path.name not in (*tables, *WRITTEN)
    )
    if skipped:
        LOGGER.info("%s: not taken: %s", data, ", ".join(skipped))
    return len(speakers)


def find_source(directory: Path) -> Path | None:
    """The data directory whose speech this one has at other speeds; None where it has no record."""
    path = directory / SOURCE
    if not is_there(path):
        return None
    return Path(os.path.normpath(real_path(directory) / read_text(path).rstrip("\n")))


def _list_tables(directory: Path) -> dict[str, Table]:
    """The tables of a data directory, and the function that reads and changes each."""
    paths = {name: directory / name for name in TABLES}
    return {
        name: TABLES[name] for name, path in paths.items() if is_there(path) and not path.is_dir()
    }


def _list_old(data: Path, out: Path) -> list[str]:
    """The tables of `out` that `data` lacks; InputError where the folder is not of `speed`."""
    old = sorted(_list_tables(out).keys() - _list_tables(data).keys())
    if old and not is_there(out / SOURCE):
        raise InputError(
            f"{out}: has {', '.join(old)}, which {data} lacks, and was not written by speed; name"
            " another folder, or remove them"
        )
    return old


def _name_of(line: str) -> str:
    return line.split(" ", 1)[0]


def _list_originals(data: Path, factors: Iterable[Fraction]) -> Iterator[tuple[str, str]]:
    """Each utterance at each speed, and the utterance that it is."""
    utt2uniq = data / "utt2uniq"
    originals: Mapping[str, str] = read_mapping(utt2uniq) if is_there(utt2uniq) else {}
    for prefix in map(_prefix, factors):
        for utt in read_mapping(data / "utt2spk"):
            # A copy of a copy points at the first original.
            yield f"{prefix}{utt}", originals.get(utt, utt)


def _format(factor: Fraction) -> str:
    """0.9, and 1.0 for 1, as Kaldi's recipes write it."""
    return str(float(factor))


def _prefix(factor: Fraction) -> str:
    return "" if factor == 1 else SPEED_PREFIX.format(_format(factor))


def _convert_sounds(path: Path, factor: Fraction) -> Iterator[str]:
    for recording, name in read_scp(path).items():
        file, speed = split_speed(name)
        # Sound that is at a speed already has the product of both.
        total = speed * factor
        at_speed = "" if total == 1 else f"[speed={_format(total)}]"
        split_speed(file + at_speed)  # refuses what cannot be read
        yield f"{_prefix(factor)}{recording} {file}{at_speed}"


def _convert_segments(path: Path, factor: Fraction) -> Iterator[str]:
    for number, fields in iter_lines(path):
        try:
            utt, recording, begin, end, *channel = fields
            times = [_divide(begin, factor), _divide(end, factor)]
        except ValueError:
            raise segment_error(path, number, fields) from None
        yield " ".join(
            (f"{_prefix(factor)}{utt}", f"{_prefix(factor)}{recording}", *times, *channel)
        )


def _convert_durations(path: Path, factor: Fraction) -> Iterator[str]:
    for name, duration in read_mapping(path).items():
        try:
            yield f"{_prefix(factor)}{name} {_divide(duration, factor)}"
        except ValueError:
            raise InputError(
                f"{path}: the duration of {name} is {duration[:40]}; write seconds"
            ) from None


def _divide(seconds: str, factor: Fraction) -> str:
    """A time at another speed; one of -1 means the end of the recording."""
    time = float(seconds)
    return seconds if factor == 1 or time < 0 else f"{time / factor:.6f}"


def _copy(path: Path, factor: Fraction) -> Iterator[str]:
    """A table that is the same at any speed, but for the names."""
    for _, fields in iter_lines(path):
        yield f"{_prefix(factor)}{' '.join(fields)}"


COPIED = (  # of Kaldi and the recipes; what others say may hold at one speed alone, or be names
    *("text", "text_words", "words", "utt2lang", "utt2word", "utt2age", "utt2gender"),
    *("spk2age", "spk2gender", "reco2file_and_channel"),
)
TABLES: dict[str, Table] = {  # beside wav.scp
    **dict.fromkeys(COPIED, _copy),
    "segments": _convert_segments,
    "utt2dur": _convert_durations,
    "reco2dur": _convert_durations,
}
SOURCE = "speed_of"  # the path of the data directory that was read, from that of the file
WRITTEN = ("utt2spk", "spk2utt", "utt2uniq", SOURCE)
