"""Differences of words that few see: white space and invisible marks in them, Unicode forms, case.

Kaldi's validators refuse the white space and the control characters among them. What is left are
formats and letters of other alphabets, so that two words look alike and are not.
"""

import unicodedata
from collections.abc import Collection, Iterator, Set

from bayes_asr.base.errors import JOINERS, count_of, name_some

CATEGORIES = ("Cc", "Cf", "Zl", "Zp", "Zs")  # Unicode's controls, formats and separators
LOST = "\ufffd"  # what a conversion has in the place of a letter that it did not know
# characters of other categories that show nothing: joiner, filler of two widths, blank of Braille
BLANKS = frozenset("\u034f\u3164\uffa0\u2800" + LOST)
DOTLESS = 0.05  # of words, with ı or İ: less are names in a text of another language
TONES = frozenset(map(chr, (*range(0x2E5, 0x2EC), *range(0xA700, 0xA717), 0xA720, 0xA721)))
"""Chao's tone letters and others, which Unicode counts as symbols."""
PUNCTUATION = '.,;:!?"…¿¡،؟。、！？«»'
ALIKE = str.maketrans(
    "\u2018\u2019\u02bc\u2032\u00b4\u0060"
    + "\u201c\u201d\u201e\u2033"
    + "\u2010\u2011\u2013\u2014\u2212"
    "АВЕКМНОРСТХУаеорсухіјѕ" + "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧο",
    6 * "'" + 4 * '"' + 5 * "-" + "ABEKMHOPCTXYaeopcyxijs" + "ABEZHIKMNOPTYXo",
)
"""Quotes, dashes, Cyrillic and Greek letters, and those of ASCII that look like them."""


def undot(word: str) -> str:
    """A word in lower case, with i for İ of Turkish: Unicode's rules give that i a second dot."""
    return word.replace("i\u0307", "i")


def has_dotless(words: Collection[str]) -> bool:
    """Whether a language has the letter ı, as Turkish and Azeri, so that I is its capital."""
    count = sum("ı" in word or "İ" in word for word in words)
    return 0 < count >= DOTLESS * len(words)


def take_dotless(word: str) -> str:
    """A word of such a language with ı for I, which lower case makes to i."""
    return word.replace("I", "ı")


def fold_case(word: str) -> str:
    """A word without case, composed (NFC), as those that are to be the same are compared."""
    return compose(undot(word.casefold()))


def compose(word: str) -> str:
    """A word as Unicode's NFC has it: a letter and its accent are one character."""
    return unicodedata.normalize("NFC", word)


def split_letters(word: str) -> list[str]:
    """The letters and digits of a word in lower case, composed, each with its marks and tones.

    These stand behind their letter; tones before the first one are its own.
    """
    letters: list[str] = []
    tones = ""
    for character in fold_case(word):
        if _is_letter(character):
            letters.append(character + tones)
            tones = ""
        elif letters and _is_attached(character):
            letters[-1] += character
        elif character in TONES:
            tones += character
    return letters


def list_unspelled(word: str) -> list[str]:
    """The characters of a word that `split_letters` leaves out, such as apostrophes and hyphens."""
    return [c for c in fold_case(word) if not (_is_letter(c) or _is_attached(c) or c in JOINERS)]


def _is_letter(character: str) -> bool:
    return unicodedata.category(character)[0] in "LN"


def _is_attached(character: str) -> bool:
    return character in TONES or unicodedata.category(character)[0] == "M"


def find_mark(field: str) -> str | None:
    """The first such character of a field, as `U+00A0 NO-BREAK SPACE`, or None."""
    if field.isprintable() and (field.isascii() or BLANKS.isdisjoint(field)):
        return None
    mark = next((c for c in field if _is_mark(c)), None)
    return mark and f"U+{ord(mark):04X} {unicodedata.name(mark, 'control character')}"


def _is_mark(character: str) -> bool:
    category = unicodedata.category(character)
    return character in BLANKS or (category in CATEGORIES and character not in JOINERS)


def describe_unlike(reference: Set[str], hypothesis: Set[str]) -> Iterator[str]:
    """Remarks on words of both sides that may be meant alike, and count as errors."""
    if differences := explain_differences(reference, hypothesis):
        yield (
            f"{count_of(len(differences), 'word')} may look alike and count as errors:"
            f" {name_some(differences)}; write spaces and NFC, and one character for what looks"
            " alike"
        )
    composed = {compose(word) for word in reference}  # another form alone is told above
    if cased := [w for w in find_cased(reference, hypothesis) if compose(w) not in composed]:
        yield (
            f"{count_of(len(cased), 'word differs', 'words differ')} by case or punctuation alone,"
            f" which is an error: {name_some(cased)}; write both alike"
        )


def describe_misspelt(words: Set[str], vocabulary: Set[str]) -> Iterator[str]:
    """Remarks on words that a vocabulary lacks, and has in another spelling."""
    if lacking := words - vocabulary:
        yield from describe_unlike(lacking, vocabulary)


def explain_differences(reference: Set[str], hypothesis: Set[str]) -> list[str]:
    """Words of one side alone that may look like those of the other, and why they are not."""
    spelled = {_unify(word): word for word in reference - hypothesis}
    differences = []
    for word in sorted(reference ^ hypothesis):
        if mark := find_mark(word):
            differences.append(f"{word} holds {mark}")
        elif word in hypothesis and (similar := spelled.get(_unify(word))):
            form = "is there in another Unicode form"
            looks = f"looks like {similar} of the reference, which has other characters"
            is_same = compose(word) == compose(similar)
            differences.append(f"{word} {form if is_same else looks}")
    return differences


def _unify(word: str) -> str:
    """A word without what few see: full width, ligatures, the alphabet of a letter."""
    return unicodedata.normalize("NFKC", word).translate(ALIKE)


def find_cased(reference: Set[str], hypothesis: Set[str]) -> list[str]:
    """Words of the hypothesis that the reference has in another case or with other punctuation at
    their ends, sorted.
    """
    folded = {_fold(word) for word in reference} - {""}
    return sorted(word for word in hypothesis - reference if _fold(word) in folded)


def _fold(word: str) -> str:
    """A word without case and punctuation at its ends; marks such as <unk> keep theirs."""
    return fold_case(word).strip(PUNCTUATION)
