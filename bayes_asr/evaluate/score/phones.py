"""Folding of phone sets: TIMIT's 60 symbols to 48 for training and to 39 for scoring."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from bayes_asr.base.errors import InputError
from bayes_asr.kaldi_io.binary import iter_lines

PhoneMap = Mapping[str, str | None]
"""Where a phone goes; None deletes it; phones that are not named stay as they are."""

# Lee and Hon (1989) as Kaldi's phones.60-48-39.map has it; only what changes. The glottal stop q
# is deleted, not turned into silence.
_TO_48: PhoneMap = {
    "ax-h": "ax",
    "axr": "er",
    "bcl": "vcl",
    "dcl": "vcl",
    "em": "m",
    "eng": "ng",
    "gcl": "vcl",
    "h#": "sil",
    "hv": "hh",
    "kcl": "cl",
    "nx": "n",
    "pau": "sil",
    "pcl": "cl",
    "q": None,
    "tcl": "cl",
    "ux": "uw",
}
_48_TO_39: PhoneMap = {
    "ao": "aa",
    "ax": "ah",
    "cl": "sil",
    "el": "l",
    "en": "n",
    "epi": "sil",
    "ix": "ih",
    "vcl": "sil",
    "zh": "sh",
}


def timit_map(to: int) -> PhoneMap:
    """The map of TIMIT's 60 or 48 phones to 48 or 39."""
    if to == 48:
        return _TO_48
    if to == 39:
        # The maps are applied one after the other: 60 to 48, then 48 to 39.
        folded = {a: b if b is None else _48_TO_39.get(b, b) for a, b in _TO_48.items()}
        return {**_48_TO_39, **folded}
    raise InputError(f"TIMIT phones fold to 48 or 39 classes, not to {to}")


def read_phone_map(path: Path, to: int) -> PhoneMap:
    """Read a map in columns, finest first (Kaldi's 60-48-39 files), ending at `to` classes.

    The column with `to` distinct names is the target and every column before it a source; a row
    that stops short of the target deletes its phone.
    """
    lines = dict(iter_lines(Path(path)))
    rows = [*lines.values()]
    width = max((len(row) for row in rows), default=0)
    sizes = [len({row[c] for row in rows if len(row) > c}) for c in range(width)]
    if to not in sizes[1:]:
        raise InputError(
            f"{path}: no column after the first has {to} distinct phones (columns have {sizes})"
        )
    # The search begins after the first column, which is a source in any case.
    column = sizes.index(to, 1)
    phone_map: dict[str, str | None] = {}
    for number, row in lines.items():
        target = row[column] if len(row) > column else None
        for source in row[:column]:
            if phone_map.setdefault(source, target) != target:
                raise InputError(
                    f"{path}, line {number}: {source} goes to {phone_map[source]} and to {target};"
                    " keep one of them"
                )
    return phone_map


def read_folding(path: Path) -> PhoneMap:
    """Read lines `phone target`; a phone alone in its line is deleted."""
    phone_map: dict[str, str | None] = {}
    for number, (phone, *target) in iter_lines(Path(path)):
        if len(target) > 1 or phone in phone_map:
            fault = "a second time" if phone in phone_map else f"with {len(target)} targets"
            raise InputError(f"{path}, line {number}: {phone} is there {fault}; name it once")
        phone_map[phone] = target[0] if target else None
    return phone_map


def fold(phones: Iterable[str], phone_map: PhoneMap) -> list[str]:
    """Fold each phone; deleted ones vanish and unknown ones pass."""
    folded = (phone_map.get(phone, phone) for phone in phones)
    return [phone for phone in folded if phone is not None]
