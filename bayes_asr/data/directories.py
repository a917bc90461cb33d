"""The directories that a configuration names: which of its candidates are there."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import find_files, is_there
from bayes_asr.base.installed import recipe_script
from bayes_asr.base.log import LOGGER
from bayes_asr.config.inputs import DataConfig

OF_FEATURES = ("feats.scp", "cmvn.scp", "utt2spk", "frontend.json")


def locate(
    candidates: Sequence[str],
    data: DataConfig,
    what: str,
    several: str = "",
    *,
    announce: bool = True,
) -> Path:
    """Return the first of the candidate directories that exists, and say which it is.

    `*` stands for any part of the last name. Raises InputError where several directories fit that.
    Of those that exist too, the ones of another name are said, with `several`: the key that would
    take them all. One of the same name, as data-fmllr/dev and data/dev, is another form of the set.
    """
    paths = [Path(data.dir) / candidate for candidate in candidates]
    existing = [(path, matches) for path in paths if (matches := find_existing(path))]
    if not existing:
        tried = ", ".join(map(str, paths)) or "no directory is configured"
        raise InputError(f"{what}: none of these exists: {tried}; {_advise(candidates, data)}")
    (path, matches), *remaining = existing
    if len(matches) > 1:
        names = " and ".join(match.name for match in matches)
        raise InputError(f"{path}: {names} are there; choose one of them as {what}")
    passed_over = [
        match for _, further in remaining for match in further if match.name != matches[0].name
    ]
    if announce:
        LOGGER.info("%s: %s%s", what, matches[0], _say_others(passed_over, several))
    return matches[0]


def _advise(candidates: Sequence[str], data: DataConfig) -> str:
    """The option that names the directories, and a folder below with one of them, as where the
    parent of an experiment was named.
    """
    is_recipe = bool(recipe_script())
    for directory in (*Path(data.dir).glob("*"), *Path(data.dir).glob("*/*")):
        with suppress(PermissionError):
            if any(find_existing(directory / candidate) for candidate in candidates):
                option = "--kaldi-dir" if is_recipe else "data.dir"
                return f"{directory} looks like the experiment: name it by {option}"
    if is_recipe:
        return "stages 0 to 2 make them, or --kaldi-dir names the experiment that has them"
    return "set data.dir or name the directory; of a run that moved, in its config.yaml"


def find_existing(path: Path) -> list[Path]:
    """The paths that a candidate means and that exist; its last part may hold `*`."""
    if "*" in path.name:
        return [match for match in find_files(path.parent, path.name) if is_there(match)]
    return [path] if is_there(path) else []


def _say_others(paths: Sequence[Path], several: str) -> str:
    if not paths:
        return ""
    key = f" ({several} takes several together)" if several else ""
    return f", the first that exists; not used: {', '.join(map(str, paths))}{key}"


def locate_all(
    data: DataConfig, name: str, kind: str, entry: str = "", *, announce: bool = True
) -> list[Path]:
    """The directories of the features or alignments (`kind`) of the set `name`; or, of a stream or
    a label set `entry` this name, those of the streams or labels (`kind`).

    All of those that are to be taken together, or else the first that exists.
    """
    where, what = getattr(data, name), f"{name} {entry or kind}"
    candidates, together = getattr(where, kind), getattr(where, f"{kind}_all_of", ())
    if entry:
        candidates, together = candidates.get(entry, ()), dict(together).get(entry, ())
        if not candidates and not together:
            raise InputError(
                f"data.{name}.{kind} has no {entry}, but data.train.{kind} has; name the"
                f" directories of {entry} there"
            )
    # Directories to be joined must all be there; of candidates the first that exists is enough.
    if together:
        return [locate([candidate], data, what, announce=announce) for candidate in together]
    several = f"data.{name}.{kind}_all_of" if hasattr(where, f"{kind}_all_of") else ""
    return [locate(candidates, data, what, several, announce=announce)]


def locate_streams(data: DataConfig, name: str) -> list[Path]:
    """The directories of all streams of a set."""
    further = (
        path
        for stream in data.train.stream_names
        for path in locate_all(data, name, "streams", stream)
    )
    return [*locate_all(data, name, "features"), *further]
