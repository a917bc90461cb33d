"""TIMIT on disk: where its utterances are, who speaks them, and which phones are marked when."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from bayes_asr.base.errors import InputError
from bayes_asr.evaluate.score.phones import fold, timit_map
from bayes_asr.kaldi_io.binary import iter_lines

Phone = tuple[int, str]  # its first sample and its name
SETS = ("train", "dev", "test")
PARTS = ("train", "test")  # the folders of the publisher
SET_OF_REGION = {**dict.fromkeys("12345", "train"), "6": "dev", **dict.fromkeys("78", "test")}

TO_48 = timit_map(48)
SPOKEN = """aa ae ah ao aw ax ay b ch d dh dx eh el en epi er ey f g hh ih ix iy jh k l m n ng ow oy
p r s sh t th uh uw v w y z zh"""
PHONES = {*TO_48, *SPOKEN.split()}


@dataclass(frozen=True)
class Recording:
    """A spoken sentence. `part`: train or test, as the publisher has it, or the dialect region.

    Names are in lower case whatever the case of the files, so that speakers and their sex (f or m,
    the first letter) are known by them.
    """

    name: str
    speaker: str
    part: str
    wav: Path
    marks: Path

    @property
    def sex(self) -> str:
        """The first letter of the speaker: f or m."""
        return self.speaker[0]


def recordings(corpus: Path) -> list[Recording]:
    """Find all sentences but SA1 and SA2, which everybody speaks, in the order of their names.

    The corpus is laid out as LDC's (TRAIN/DR1/FCJF0/SI1027.WAV, upper or lower case), or flat as
    NLTK's sample (dr1-fvmh0/si1466.wav).
    """
    parts = _parts(corpus)
    if parts:
        speakers = [
            (part, speaker)
            for part, folder in parts.items()
            for region in _folders(folder)
            for speaker in _folders(region)
        ]
    else:
        flat = [(*folder.name.lower().partition("-"), folder) for folder in _folders(corpus)]
        speakers = [
            (region.removeprefix("dr"), folder)
            for region, _, speaker, folder in flat
            if speaker and region.removeprefix("dr") in SET_OF_REGION
        ]
    found = [recording for part, folder in speakers for recording in _spoken_by(folder, part)]
    if not found:
        raise InputError(
            f"{corpus}: no TIMIT here: neither TRAIN and TEST nor folders such as dr1-fvmh0"
        )
    names = sorted((recording.name, str(recording.wav)) for recording in found)
    for (name, one), (other, two) in pairwise(names):
        if name == other:
            raise InputError(f"{two}: {name} is there a second time, also as {one}; keep one")
    return sorted(found, key=lambda recording: recording.name)


def _parts(corpus: Path) -> dict[str, Path]:
    """The folders of the publisher's training and test part, where `corpus` has both."""
    for root in (corpus, *(f for f in _folders(corpus) if f.name.lower() in ("timit", "data"))):
        below = {folder.name.lower(): folder for folder in _folders(root)}
        if all(part in below for part in PARTS):
            return {part: below[part] for part in PARTS}
    return {}


def _folders(path: Path) -> list[Path]:
    return sorted(folder for folder in path.iterdir() if folder.is_dir())


def _spoken_by(folder: Path, part: str) -> Iterator[Recording]:
    speaker = folder.name.lower().rpartition("-")[2]
    # SI1027.WAV.wav, a second copy of the sound in some distributions, is not SI1027.wav.
    files = {f.name.lower(): f for f in sorted(folder.iterdir()) if f.name.count(".") == 1}
    names = {name.partition(".")[0] for name in files if name.endswith((".wav", ".phn"))}
    for name in sorted(n for n in names if not n.startswith("sa")):
        for suffix in (".wav", ".phn"):
            if name + suffix not in files:
                copies = sorted(f.name for f in folder.iterdir() if f.stem.lower() == name + suffix)
                remedy = f"rename {copies[0]}, or copy" if copies else "copy"
                raise InputError(f"{folder}: {name} has no {suffix[1:]} file; {remedy} it again")
        wav, marks = files[f"{name}.wav"], files[f"{name}.phn"]
        yield Recording(f"{speaker}_{name}", speaker, part, wav, marks)


def read_phones(marks: Path) -> list[Phone]:
    """Read a .phn file: the phones of the 48 classes and the first sample of each.

    The glottal stop q is deleted: the phone after it begins where it began. Raises InputError for
    marks that go back, and for names that are not TIMIT's.
    """
    phones: list[Phone] = []
    begin: int | None = None
    last = 0
    for number, fields in iter_lines(marks):
        where = f"{marks}, line {number}"
        if len(fields) != 3 or not (fields[0].isdecimal() and fields[1].isdecimal()):
            raise InputError(f"{where}: not first sample, end and phone: {' '.join(fields)}")
        first, phone = int(fields[0]), fields[2]
        if phone not in PHONES:
            raise InputError(f"{where}: {phone} is no phone of TIMIT")
        if first < last:
            raise InputError(f"{where}: {phone} begins at {first}, the phone before it at {last}")
        last = first
        begin = first if begin is None else begin
        for folded in fold([phone], TO_48):
            phones.append((begin, folded))
            begin = None
    if not phones:
        raise InputError(f"{marks}: no phone is marked")
    return phones


def chosen(spoken: Sequence[Recording], lists: Mapping[str, Path]) -> dict[str, list[Recording]]:
    """Distribute recordings over train, dev and test.

    lists: files of speakers, one in a line, by set; without any, dialect regions 1 to 5 are train,
    6 is dev, 7 and 8 are test. Where train has no list, it gets everyone but the publisher's test
    part who is in no other list. Raises InputError for a set without speakers, and for a speaker
    who is in two lists or not in the corpus.
    """
    if lists:
        set_of = _listed(lists, {recording.speaker for recording in spoken})
        if "train" not in lists:
            rest = {r.speaker for r in spoken if r.part != "test"} - set_of.keys()
            set_of |= dict.fromkeys(rest, "train")
    else:
        set_of = {r.speaker: SET_OF_REGION[r.part] for r in spoken}
    for name in SETS:
        if name not in set_of.values():
            raise InputError(f"{name} has no speakers: list them by --{name}-speakers FILE")
    return {name: [r for r in spoken if set_of.get(r.speaker) == name] for name in SETS}


def _listed(lists: Mapping[str, Path], known: Collection[str]) -> dict[str, str]:
    """The set of each speaker in some lists."""
    set_of: dict[str, str] = {}
    for name, path in lists.items():
        for _, (speaker, *_) in iter_lines(path):
            speaker = speaker.lower()
            if speaker in set_of:
                raise InputError(f"{path}: {speaker} is in the list of {set_of[speaker]} too")
            if speaker not in known:
                raise InputError(
                    f"{path}: {speaker} is not among the {len(known)} speakers of the corpus; "
                    f"give your own list by --{name}-speakers FILE"
                )
            set_of[speaker] = name
    return set_of
