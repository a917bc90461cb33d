"""Global mapping rules (GLM) of NIST: spellings that count as the same.

What SCTK's rfilter1 and csrfilt do to a line of words, rule by rule in the order of the file.
"""

import re
import string
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import read_bytes
from bayes_asr.kaldi_io.binary import BLANKS, iter_lines, split_words

ENGLISH = Path(__file__).with_name("english.glm")
"""The project's own rules."""

Purpose = Literal["ref", "hyp"]
_PURPOSE_FORMAT = {"ref": "stm", "hyp": "ctm"}
_SECOND = re.compile(r"(\(\s+[^()\s]+\s+)([^()\s]+)", re.ASCII)
_INSIDE = re.compile(r"(\()\s+|\s+(\))", re.ASCII)
_APPLIES = re.compile(r';;\s+INPUT_DEPENDENT_APPLICATION\s*=\s*"([^"]*)"')
_NO_WORD = re.compile(r"<.*>|\[.*\]")
_SETTING = re.compile(r"""\*\s*(?P<key>\w+)\s*=?\s*["'](?P<value>[^"']*)["']""")


@dataclass(frozen=True)
class Rule:
    """Replace `source` by `target` where `left` stands before it and `right` after it."""

    source: str
    target: str
    left: str
    right: str


@dataclass(frozen=True)
class Glm:
    """Rules by the first letter of what they replace, in the order of the file."""

    rules: dict[str, tuple[Rule, ...]]
    case_sensitive: bool

    def apply(self, text: str) -> str:
        """Rewrite `text` from left to right; contexts are matched with the text as it was."""
        matched = text if self.case_sensitive else text.lower()
        written, at = [], 0
        while at < len(text):
            rule = self._rule_at(matched, at)
            written.append(rule.target if rule else text[at])
            # The context of a rule is only looked at and not consumed.
            at += len(rule.source) if rule else 1
        return "".join(written)

    def _rule_at(self, text: str, at: int) -> Rule | None:
        for rule in self.rules.get(text[at], ()):
            end = at + len(rule.source)
            if (
                text.startswith(rule.source, at)
                and text.startswith(rule.right, end)
                and text[:at].endswith(rule.left)
            ):
                return rule
        return None


def find_glm(name: str | Path, directory: Path = Path()) -> Path:
    """The rules that `score.glm` names: the project's own, `english`, or a file in `directory`."""
    return ENGLISH if str(name) == "english" else directory / name


def read_glm(path: Path, purpose: Purpose) -> Glm:
    """Read the rules that apply to references (stm) or to hypotheses (ctm).

    Raises InputError naming file and line for what is not a rule.
    """
    try:
        lines = read_bytes(path).decode("utf-8", "surrogateescape").split("\n")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}; name a GLM file, or english") from error
    # The first word of the file is the mark that begins its comments.
    comment = next(iter(split_words(lines[0])), "")
    if not comment or any(map(str.isalnum, comment)) or "\r" in lines[0].rstrip():
        raise InputError(
            f"{path}, line 1: has the mark of comments alone, such as ;; and a rule there would be"
            " lost; write this line above"
        )
    settings = {"case_sensitive": "T"}
    rules: list[Rule] = []
    applies = True
    for number, line in enumerate(lines, 1):
        if only := _APPLIES.match(line):
            kinds = (purpose, _PURPOSE_FORMAT[purpose])
            try:
                # A pattern holds for all rules that follow, until the next one.
                applies = any(re.search(only[1].lower(), kind) for kind in kinds)
            except re.error as error:
                raise InputError(f"{path}, line {number}: {only[1]!r}: {error}") from None
        if not applies or number == 1 or not split_words(line):
            continue
        if line.startswith("*"):
            setting = _SETTING.match(line)
            if not setting:
                raise InputError(f"{path}, line {number}: a setting without a quoted value: {line}")
            settings[setting["key"].lower()] = setting["value"]
            continue
        data = line.split(comment, 1)[0] if comment else line
        if split_words(data):
            rules.append(_parse_rule(data, path, number))
    return _index_rules(rules, case_sensitive=settings["case_sensitive"].upper().startswith("T"))


def _index_rules(rules: Sequence[Rule], case_sensitive: bool) -> Glm:
    by_letter: dict[str, list[Rule]] = {}
    for rule in rules:
        # The target keeps its case: only what is looked for is compared.
        if not case_sensitive:
            left, right = rule.left.lower(), rule.right.lower()
            rule = Rule(rule.source.lower(), rule.target, left, right)
        by_letter.setdefault(rule.source[0], []).append(rule)
    return Glm({letter: tuple(matching) for letter, matching in by_letter.items()}, case_sensitive)


def _parse_rule(line: str, path: Path, number: int) -> Rule:
    """`source => target / left __ right`, where each part may stand in brackets or quotes."""
    source, arrow, replacement = line.partition("=>")
    source = _unwrap(source)
    if not arrow or not source:
        raise InputError(f"{path}, line {number}: not a rule `a => b / [ ] __ [ ]`: {line}")
    # The last slash parts the context, as the target may be an alternation with slashes.
    target, slash, context = replacement.rpartition("/")
    # The slot is `__`: the first underscore splits, and the others are stripped.
    left, slot, right = context.partition("_")
    if not (slash and slot):
        return Rule(source, _unwrap(replacement), "", "")
    return Rule(source, _unwrap(target), _unwrap(left), _unwrap(right.lstrip("_")))


def _unwrap(part: str) -> str:
    """A part of a rule without the brackets or quotes that keep its spaces.

    A bracket that does not close (english.glm has one) is dropped.
    """
    part = part.strip(BLANKS)
    if part.startswith("[") and "]" not in part:
        return part[1:]
    if len(part) >= 2 and part[0] + part[-1] in ("[]", '""'):
        return part[1:-1]
    return part


_UPPER = str.maketrans(string.ascii_lowercase, string.ascii_uppercase)
LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


def filter_words(text: str, glm: Glm | None) -> list[str]:
    """Words of `text` after the rules, with hyphens between letters split, in lower case.

    Words in parentheses may be missing, `(a b)` becomes `(a) (b)`; braces and slashes of an
    alternation `{a b/c}` are words of their own.
    """
    # Words are upper case while the rules apply, as csrfilt has them.
    spaced = f" {text.strip(BLANKS)} ".translate(_UPPER).replace("(", "( ").replace(")", " )")
    if glm:
        spaced = glm.apply(f" {spaced} ")
    spaced = re.sub(r"\{[^}]*\}", lambda m: re.sub(r"([{}/])", r" \1 ", m[0]), spaced)
    # A hyphen at the edge of a word marks a fragment and stays.
    spaced = re.sub(r"([^( ])-(?=[^) ])", r"\1 ", spaced)
    # Each pass takes one word out of a parenthesis of several.
    while (split := _SECOND.sub(r"\1) ( \2", spaced)) != spaced:
        spaced = split
    joined = _INSIDE.sub(lambda m: m[1] or m[2], spaced)
    # Where a rule deletes a word in parentheses, or makes it an alternation of such words.
    joined = re.sub(r"\(([{}/]?)\)", r"\1", joined)
    return split_words(joined.translate(LOWER))


def iter_scored_lines(ctm: Path, glm: Path) -> Iterator[str]:
    """The lines of a CTM without `<unk>`, noises `[noise]`, and words that a rule deletes.

    So does Kaldi's local/score_asclite.sh, as csrfilt leaves the confidence of a deleted word as a
    word.
    """
    rules = read_glm(glm, "hyp")
    for _, fields in iter_lines(ctm):
        word = fields[4]
        if not _NO_WORD.fullmatch(word) and filter_words(word, rules):
            yield " ".join(fields)
