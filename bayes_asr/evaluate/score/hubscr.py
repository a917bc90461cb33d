"""NIST's own hubscr on what was scored here, to see that both count the same."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from bayes_asr.base.errors import InputError
from bayes_asr.base.jobs import read_last_line
from bayes_asr.base.kaldi_programs import find_nist_program
from bayes_asr.base.programs import start
from bayes_asr.evaluate.score.counts import ErrorCounts
from bayes_asr.evaluate.score.nist import iter_stm_lines
from bayes_asr.evaluate.score.phones import PhoneMap, fold
from bayes_asr.kaldi_io.binary import iter_lines
from bayes_asr.kaldi_io.text import write_lines

WORD = 4  # of a CTM's fields


def count_by_hubscr(
    stm: Path, ctm: Path, glm: Path, phones: PhoneMap, optional: frozenset[str], directory: Path
) -> dict[str, ErrorCounts]:
    """Score with hubscr.pl in `directory`, where its listings stay; counts by speaker.

    Phones are folded before, in both files, and the words in `optional` put in parentheses in the
    reference, as Kaldi's recipes do it.
    """
    directory.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(glm, directory / "glm")
    write_lines(_fold_stm(stm, phones, optional), directory / "stm")
    write_lines(_fold_ctm(ctm, phones), directory / "ctm")
    return read_counts(_run_hubscr(directory))


def _run_hubscr(directory: Path) -> Path:
    """Score `directory`/ctm against `directory`/stm under `directory`/glm with NIST's hubscr.pl.

    As Kaldi's local/score.sh calls it, validation of the inputs left out.  Returns the table of
    counts by speaker, ctm.filt.raw in it; InputError with the log's last line if there is none.
    """
    hubscr, log = find_nist_program("hubscr.pl"), directory / "log"
    counts = directory / "ctm.filt.raw"
    # An old table would pass for the result of a run that failed.
    counts.unlink(missing_ok=True)
    options = ["-p", str(Path(hubscr).parent), "-V", "-l", "english", "-h", "hub5", "-g", "glm"]
    status = start(["perl", hubscr, *options, "-r", "stm", "ctm"], log, cwd=directory).wait()
    if status or not counts.exists():
        raise InputError(f"hubscr.pl failed with status {status}, see {log}: {read_last_line(log)}")
    return counts


def _fold_stm(stm: Path, phones: PhoneMap, optional: frozenset[str]) -> Iterator[str]:
    """Its segments without their labels, which sclite knows only if comments declare them."""
    for _, fields in iter_stm_lines(stm):
        words = (f"({w})" if w in optional else w for w in fold(fields[5:], phones))
        yield " ".join((*fields[:5], *words))


def _fold_ctm(ctm: Path, phones: PhoneMap) -> Iterator[str]:
    """Its words without confidences: csrfilt leaves that of a deleted word as a word, and sclite
    stops at a set without errors where there are confidences to plot.
    """
    for _, fields in iter_lines(ctm):
        word = fold(fields[WORD : WORD + 1], phones)
        if word and not fields[0].startswith(";;"):
            yield " ".join((*fields[:WORD], *word))


def read_counts(raw: Path) -> dict[str, ErrorCounts]:
    """The counts of each speaker, in lower case, in sclite's table of counts (.raw)."""
    # `| speaker | 7 columns |`, with more bars between groups of columns.
    rows = re.findall(
        r"^ *\| (\S+) +\|" + r"[ |]+(\d+)" * 7, raw.read_text(errors="replace"), re.MULTILINE
    )
    counts = {}
    # Columns of sclite: sentences, words, correct, substitutions, deletions, insertions, errors.
    for speaker, _, tokens, _, substitutions, deletions, insertions, _ in rows:
        if speaker == "Sum":
            continue
        numbers = map(int, (substitutions, insertions, deletions, tokens))
        try:
            counts[speaker.lower()] = ErrorCounts(*numbers)
        except InputError as error:
            raise InputError(f"{raw}: {speaker}: {error}") from error
    if not counts:
        raise InputError(f"{raw}: no table of counts; see the log beside it")
    return counts
