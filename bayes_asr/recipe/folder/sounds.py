"""Sound files below a folder by the names that its text calls them, and what else lies there."""

import re
import shlex
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bayes_asr.base.errors import InputError, complaint, count_of, name_some, printable
from bayes_asr.base.files import open_to_read
from bayes_asr.base.walk import walk_once
from bayes_asr.data.sound.audio import load_library, read_head
from bayes_asr.data.sound.containers import check_complete
from bayes_asr.data.sound.file_bytes import FileBytes
from bayes_asr.kaldi_io.binary import open_bytes
from bayes_asr.kaldi_io.marks import compose

SOUND = {
    *(".aif", ".aiff", ".au", ".bwf", ".caf", ".flac", ".mp3", ".oga", ".ogg", ".opus", ".rf64"),
    *(".snd", ".sph", ".w64", ".wav"),
}
UNREAD = {  # of sound and of films, which ffmpeg knows
    *(".3gp", ".aac", ".amr", ".avi", ".m4a", ".m4b", ".mka", ".mkv", ".mov", ".mp4", ".webm"),
    *(".wma", ".wmv"),
}
TEXTS = {".lab", ".txt", ".textgrid", ".trn", ".wrd", ".phn", ".json"}  # beside sounds
BESIDE = "--set 'recipe.options=[--beside]'"
BESIDE_KINDS = (".lab", ".txt", ".textgrid")
BLOCK = 1 << 14  # samples: of most files one block is enough to hear something
COUNTED = 6  # kinds of files that a message counts
TRIED = 3  # names without a sound file for which a reason is looked for
SEPARATORS = re.compile(r"[,;|:]")  # of tables, in which a name ends there
APPLE_DOUBLE = b"\0\5\x16\7"  # begins ._FILE, in which macOS keeps what other drives cannot
UNWRITABLE = re.compile(r"[\n\r\ud800-\udfff]")  # in a path: no UTF-8, or the end of a line
OF_DRIVES = re.compile(r"lost\+found|System Volume Information|\$RECYCLE\.BIN|\.Trash.*")
FORM = "`NAME WORD WORD ...` for each sound file, NAME without its extension"
Sounds = Mapping[str, list[Path]]  # files by what they may be called


def find_files(corpus: Path) -> list[Path]:
    """The files below a folder, at any depth and through links; each folder once.

    OSError for a folder that may not be read. What systems keep on every drive, of deleted or
    damaged files and often for root alone, is passed over, and so is what macOS puts beside files.
    """
    files: list[Path] = []
    for folder, subfolders, names in walk_once(corpus, _raise_unless_gone):
        subfolders[:] = sorted(x for x in subfolders if not OF_DRIVES.fullmatch(x))
        files += (Path(folder, name) for name in names if not _is_of_macos(Path(folder, name)))
    return sorted(files)


def _is_of_macos(file: Path) -> bool:
    if not file.name.startswith("._") or not file.is_file():
        return False
    with open_to_read(str(file)) as opened:
        return opened.read(len(APPLE_DOUBLE)) == APPLE_DOUBLE


def _raise_unless_gone(error: OSError) -> None:
    """Let `os.walk` pass over what is no folder, but not over what it cannot look into."""
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        raise error


def find_sound(corpus: Path) -> list[Path]:
    """The sound files below a folder."""
    return [file for file in find_files(corpus) if file.suffix.lower() in SOUND]


def name_sounds(corpus: Path) -> dict[str, list[Path]]:
    """The sound files by their stems and by their paths below `corpus` without the extension.

    A path goes before stems that are the same. Names are in NFC; on disk they may be in NFD, as
    macOS writes them.
    """
    stems: dict[str, list[Path]] = {}
    paths: dict[str, list[Path]] = {}
    for file in find_sound(corpus):
        refuse_endless(file)
        stems.setdefault(compose(file.stem), []).append(file)
        paths.setdefault(_path_name(file, corpus), []).append(file)
    files = stems | paths
    if not files:
        kaldi = "; what wav.scp names is not read: copy or link it here"
        raise InputError(
            f"{corpus}: no sound files ({' '.join(sorted(SOUND))}); name their folder"
            f"{kaldi * (corpus / 'wav.scp').is_file()}{describe_seen(corpus)}"
        )
    return files


def refuse_endless(path: Path) -> None:
    """Raise InputError for a named pipe or a device in the place of a file."""
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise InputError(f"{path}: is a pipe or a device; give a file")


def _path_name(file: Path, corpus: Path) -> str:
    return compose(file.relative_to(corpus).with_suffix("").as_posix())


def describe_seen(corpus: Path) -> str:
    """The kinds of files below a folder and how many there are, for the end of a message."""
    kinds = Counter(
        file.suffix.lower() or file.name for file in find_files(corpus) if file.is_file()
    )
    listing = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common(COUNTED))
    return f"; seen there: {listing or 'nothing'}"


def refuse_missing_text(corpus: Path, text: Path) -> None:
    """Raise InputError where there is no `text`, with a way to make it of what lies there."""
    if text.is_file():
        return
    sounds = {file.with_suffix("") for file in find_sound(corpus)}
    beside = {
        file.suffix
        for file in find_files(corpus)
        if file.suffix.lower() in TEXTS and file.with_suffix("") in sounds
    }
    alike = [f.name for f in sorted(corpus.glob("*")) if f.name.lower().partition(".")[0] == "text"]
    remedy = f"; or is it {alike[0]}? rename it, and save it as plain text" if alike else ""
    if any(file.name.endswith(".trans.txt") for file in find_files(corpus)):
        remedy = f"; join lines: find {corpus} -name '*.trans.txt' -exec cat {{}} + > {text}"
    elif beside:
        remedy = (
            f"; the files {' '.join(sorted(beside))} beside the sound are not read: write a line"
            " of the words in each, behind its name"
            + f"; {BESIDE} reads {', '.join(BESIDE_KINDS)}"
            * any(suffix.lower() in BESIDE_KINDS for suffix in beside)
        )
    raise InputError(f"{text}: is missing; it has a line {FORM}{remedy}{describe_seen(corpus)}")


def choose_files(
    texts: Collection[str], files: Sounds, corpus: Path, text: Path
) -> dict[str, Path]:
    """The sound file of each name of `text`; files that no name calls are counted."""
    absent = [name for name in texts if name not in files]
    if absent:
        raise InputError(
            f"{text}: no sound file for {len(absent)} of {len(texts)} names, the first is"
            f" {absent[0]}; {_explain_absence(absent[:TRIED], files, corpus)}"
        )
    for name in texts:
        if len(files[name]) > 1:
            paths = ", ".join(str(file.relative_to(corpus)) for file in files[name][:3])
            several = len({_path_name(file, corpus) for file in files[name]}) > 1
            remedy = "name them by their paths" if several else "remove or rename all but one"
            raise InputError(f"{text}: {name} is {len(files[name])} files: {paths}; {remedy}")
    file_of = {name: files[name][0] for name in texts}
    for name, file in file_of.items():
        if UNWRITABLE.search(str(file)):
            raise InputError(
                f"{text}: the path of {name}, {str(file)!r}, has the end of a line or a letter that"
                " is not UTF-8, which Kaldi's tables cannot hold: rename the folder or the file"
            )
    silent = {file for same in files.values() for file in same} - {*file_of.values()}
    if silent:
        lacking = count_of(len(silent), "file is", "files are")
        left_out = f"{lacking} not in {text}, the first is {min(silent)}: left out"
        print(printable(left_out))
    return file_of


def _explain_absence(names: Iterable[str], files: Sounds, corpus: Path) -> str:
    """The likeliest reason why names call no sound files, and what to do."""
    return next(
        (reason for name in names for reason in _reasons(name, files, corpus)),
        f"names are those of files below {corpus}, without extension",
    )


def _reasons(name: str, files: Sounds, corpus: Path) -> Iterator[str]:
    stem = compose(str(Path(name).with_suffix("")))
    if Path(name).suffix.lower() in SOUND and stem in files:
        yield f"write {stem}, without the extension"
    alike = [candidate for candidate in files if candidate.casefold() == name.casefold()]
    if alike:
        yield f"there is {alike[0]}, which differs in upper and lower case: write it so"
    for file in find_files(corpus):
        below = compose(file.relative_to(corpus).as_posix())
        # A name is a whole path or its last part; extensions may follow it.
        if not f"/{below}".startswith(f"/{name}.") and not file.name.startswith(f"{name}."):
            continue
        if file.suffix.lower() in SOUND:
            yield f"there is {below}: rename it {name}{file.suffix.lower()}"
        elif file.suffix.lower() not in TEXTS and file.is_file():
            yield f"there is {below}, which is not read: convert it, for example by {convert(file)}"
    # A cell of a table, or the path of another computer, ends in a name.
    cell = Path(SEPARATORS.split(name)[0].strip("\"'").replace("\\", "/"))
    parts = (cell.with_suffix("") if cell.suffix.lower() in SOUND else cell).parts
    for tail in ("/".join(parts[start:]) for start in range(len(parts))):
        if len(files.get(tail, ())) == 1:
            yield f"write {tail} and a space in the place of {name}"


def convert(file: Path) -> str:
    """A command that makes a sound file which is read."""
    # As it is on disk, where accents may be characters of their own.
    return shlex.join(["ffmpeg", "-i", str(file), str(file.with_suffix(".wav"))])


def describe_unheard(files: Collection[Path]) -> Iterator[str]:
    """What is wrong with sound files: those that are none, and those of digital silence.

    Also without soundfile, which Kaldi's way does not need: then silence is not looked for.
    """
    unreadable = {file: fault for file in files if (fault := _find_fault(file))}
    if unreadable:
        fault = next(iter(unreadable.values()))
        yield (
            f"{len(unreadable)} of {len(files)} files cannot be read as sound, at which stage 1"
            f" will stop: {name_some([*map(str, unreadable)])} ({fault}); replace them, or take"
            " them out"
        )
    try:
        library = load_library()
    except InputError:
        return
    silence = {file: _find_silence(file, library) for file in files if file not in unreadable}
    if silent := [str(file) for file, channels in silence.items() if all(channels)]:
        yield (
            f"{len(silent)} of {len(files)} files are digital silence, without any sound:"
            f" {name_some(silent)}; replace them, or take them out"
        )
    if beside := {file: x.index(False) + 1 for file, x in silence.items() if x[0] and not all(x)}:
        file, channel = next(iter(beside.items()))
        command = shlex.join(["sox", str(file), "OUT.wav", "remix", str(channel)])
        yield (
            f"{len(beside)} of {len(files)} files are digital silence on their first channel, which"
            f" is heard, and have sound on another: {name_some([*map(str, beside)])}; extract that,"
            f" for example by {command}"
        )


def _find_fault(file: Path) -> str:
    """Why the bytes of a file are not those of sound, or too few; empty where they are."""
    try:
        with open_bytes(file) as source:
            read_head(source)
            check_complete(FileBytes(source.file, source.size or 0), str(file))
    except (InputError, OSError) as error:
        return complaint(error).removeprefix(f"{file}: ")
    return ""


def _find_silence(file: Path, library: Any) -> list[bool]:
    """Whether all samples of a channel are the same, of each channel.

    The first one is heard, so that others do not matter where it has sound. Nor does what cannot be
    decoded, which stage 1 says.
    """
    sounding = [False]
    try:
        with library.SoundFile(file) as sound:
            level = sound.read(1, always_2d=True)
            if not len(level):
                return sounding
            sound.seek(0)
            silent = np.full(sound.channels, True)
            for block in sound.blocks(BLOCK, always_2d=True):
                silent &= (block == level).all(axis=0)
                if not silent[0]:
                    return sounding
    except library.LibsndfileError:
        return sounding
    return silent.tolist()


def describe_unread(corpus: Path, tables: Collection[str]) -> str:
    """The files beside the tables of a corpus that nothing reads, named; empty without any."""
    sounds = {file.with_suffix("") for file in find_sound(corpus)}
    unread = sorted(
        path.name
        for path in corpus.iterdir()
        if path.is_file()
        and path.name not in tables
        and path.suffix.lower() not in SOUND
        and not (path.name.startswith(".") or path.with_suffix("") in sounds)
    )
    if not unread:
        return ""
    return f"{corpus}: not read: {name_some(unread)} (what is read is called {', '.join(tables)})"
