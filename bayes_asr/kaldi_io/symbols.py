"""Symbol tables: words.txt and phones.txt, which number words and phones."""

import re
from pathlib import Path

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import is_there
from bayes_asr.kaldi_io.binary import iter_lines, refuse_repeated
from bayes_asr.kaldi_io.byte_reader import SPARSE

PHONES = "phones.txt"
SYMBOL_ID = re.compile(r"\d{1,9}", re.ASCII)


def read_symbols(path: Path) -> dict[str, int]:
    """Read a symbol table (words.txt, phones.txt): symbol -> id; no symbol or id may repeat."""
    table: dict[str, int] = {}
    lines: dict[int, int] = {}
    for number, fields in iter_lines(Path(path)):
        if len(fields) != 2 or not SYMBOL_ID.fullmatch(fields[1]):
            shown = " ".join(fields)[:40]
            raise InputError(f"{path}, line {number}: not a symbol and its id: {shown}; correct it")
        symbol, identity = fields[0], int(fields[1])
        refuse_repeated(table, symbol, path, number)
        if identity in lines:
            raise InputError(
                f"{path}, line {number}: {symbol} has the id {identity} of line {lines[identity]};"
                " give each its own"
            )
        table[symbol], lines[identity] = identity, number
    largest = max(lines, default=0)
    if largest >= max(SPARSE, len(lines)):
        raise InputError(
            f"{path}, line {lines[largest]}: the id {largest} in a table of {len(lines)} symbols;"
            " number them from 0"
        )
    return table


def check_same_phones(
    lang: Path,
    model_dir: Path,
    advice: str = "take the lang folder that the model was trained with",
) -> None:
    """InputError where the phones.txt of two folders number phones differently, if both are there.

    advice: what to do then. Symbols with # and <eps> may differ, and one may have fewer phones. As
    Kaldi's utils/lang/check_phones_compatible.sh, which wants all phones in both.
    """
    paths = [folder / PHONES for folder in (lang, model_dir)]
    if not all(map(is_there, paths)):
        return
    first, second = (
        {
            phone: number
            for phone, number in read_symbols(path).items()
            if number and phone[0] != "#"
        }
        for path in paths
    )
    by_number = {number: phone for phone, number in second.items()}
    for phone, number in first.items():
        if second.get(phone, number) != number or by_number.get(number, phone) != phone:
            raise InputError(
                f"{paths[0]}: the id of {phone} is {number}, but {second.get(phone, 'none')} in"
                f" {paths[1]}; {advice}"
            )


class WordSymbols(dict[int, str]):
    """Words by their numbers, read from a words.txt; InputError for a number that it lacks."""

    def __init__(self, path: Path) -> None:
        """Read the table."""
        super().__init__((number, word) for word, number in read_symbols(path).items())
        self.path = path

    def __missing__(self, number: int) -> str:
        raise InputError(
            f"{self.path}: no symbol for word {number}; take the words.txt of the decoding graph"
        )
