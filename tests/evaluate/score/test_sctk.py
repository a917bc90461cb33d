"""The tests of NIST's hubscr that score a CTM by an STM, where SCTK names a clone of theirs."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.evaluate.score.test_nist import as_sclite, by_speaker, raw_counts, score

CLONE = Path(os.environ.get("SCTK", ""), "src")
TAGGED = ("lvc_refe.stm", "example.glm")
UNTAGGED = ("lvc_refe.notag.noat.stm", "example.glm")
TESTS = [
    ("test1", "lvc_hyp.ctm", *TAGGED),
    ("test1", "lvc_hyp2.ctm", *TAGGED),
    ("test1-notag", "lvc_hyp.notag.ctm", *UNTAGGED),
    ("test1-notag", "lvc_hyp2.notag.ctm", *UNTAGGED),
    ("test1-notag-a", "lvc_hyp.notag.ctm", *UNTAGGED),
    ("test1-notag-a", "lvc_hyp2.notag.ctm", *UNTAGGED),
    ("testArb", "test.arb2004.txt.ctm", "test.arb2004.txt.stm", "test.arb2004.glm"),
]


@pytest.mark.parametrize(("name", "ctm", "stm", "glm"), TESTS)
def test_counts_are_those_that_hubscr_stored(
    name: str, ctm: str, stm: str, glm: str, tmp_path: Path
) -> None:
    stored = CLONE / "hubscr" / f"{name}.base"
    if not stored.is_dir():
        pytest.skip("SCTK does not name a clone of usnistgov/SCTK")
    for file in (stm, ctm):
        content = (stored / file).read_bytes()
        (tmp_path / file).write_bytes(spell_arabic(content, file[-3:]) if "arb" in ctm else content)
    utterances = score(tmp_path / stm, tmp_path / ctm, stored / glm)
    expected = raw_counts(stored / f"{ctm}.filt.raw")
    counts = {speaker: as_sclite(c) for speaker, c in by_speaker(utterances).items()}
    assert counts == {speaker.lower(): numbers for speaker, numbers in expected.items()}


def spell_arabic(content: bytes, kind: str) -> bytes:
    """A table of words after hubscr's -H and -T: one hamza, and without tanween."""
    for program, options in (("hamzaNorm", []), ("tanweenFilt", ["-a"])):
        script = CLONE / program / f"{program}.pl"
        command = ["perl", str(script), *options, "-i", kind, "--", "-", "-"]
        content = subprocess.run(command, input=content, capture_output=True, check=True).stdout
    return content
