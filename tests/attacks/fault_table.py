"""faults.md beside this file: as a script, meets every fault and prints the page.

usage: python -m tests.attacks.fault_table > tests/attacks/faults.md
"""

import re
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.attacks.faults import FAULTS, Fault
from tests.attacks.interruptions import INTERRUPTIONS
from tests.attacks.laboratory import bayes_asr, build, contents, copy, inside

PAGE = Path(__file__).with_name("faults.md")
INTRODUCTION = """\
# What was broken, and what happened

The promises stand in [reliability.md](../../docs/reliability.md). This page lists how they were
tried. The tests make every row happen again: its status, the names and numbers of its last line and
what has changed must be these; the wording may differ. `python -m tests.attacks.fault_table` prints
the page.

## Damaged, missing and hostile input

A small corpus, its graph or its run is broken, and then a command is given. The last line stands
here without `bayes-asr VERB: error: `. Where *changed* is empty, every file that was there is what
it was, byte for byte, and none was added but logs, the `state.json` of a run and the index of its
data.

"""
HEAD = """\
| what is broken | command | status | last line | changed |
|---|---|---|---|---|
"""
INTERRUPTED = """\
## Training that is interrupted

Each row names its test in `tests/`. *Intact* is what a run directory still holds. A run that is
given the same command again then ends, bit for bit, as if nothing had happened, unless the row says
otherwise.

| what happens | status | what is said | intact | test |
|---|---|---|---|---|
"""


@dataclass(frozen=True)
class Row:
    """What was seen of a fault."""

    broken: str
    verb: str
    status: int
    complaint: str
    changed: tuple[str, ...]

    def line(self) -> str:
        """The row in Markdown."""
        said = f"`{self.complaint}`" if self.status else "the result is the same"
        changed = ", ".join(f"`{name}`" for name in self.changed) if self.status else ""
        cells = (self.broken, f"`{self.verb}`", str(self.status), said, changed)
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def meet(fault: Fault, lab: Path) -> Row:
    """Break the laboratory and run the command."""
    with inside(lab):
        wanted = (lab / fault.same[1]).read_bytes() if fault.same else b""
        fault.how(lab)
        before = contents(lab)
        with fault.during():
            said = bayes_asr(fault.command)
        after = contents(lab)
        assert not (lab / "executed").exists()
        assert "Traceback" not in said.err
        if fault.same:
            assert said.status == 0, said.err
            assert (lab / fault.same[0]).read_bytes() == wanted
    assert not list(lab.rglob(".*.partial*"))
    changed = sorted(n for n in before.keys() | after.keys() if before.get(n) != after.get(n))
    complaint = said.complaint.replace(str(lab), "HERE")
    complaint = re.sub(r"\d+", "…", complaint) if fault.measured else complaint
    return Row(fault.broken, fault.verb, said.status, complaint, tuple(changed))


def facts_of(line: str) -> tuple[str, ...]:
    """Parts of a row that hold in other words too: cells, and names and numbers of the line."""
    broken, command, status, complaint, changed = re.split(r"(?<!\\)\|", line)[1:6]
    facts = re.findall(r"[\w./+:-]*[\d/._][\w./+:-]*\w|\d+", complaint)
    return broken, command, status, changed, *sorted(set(facts))


def rows_of(page: str) -> list[str]:
    """The rows of the fault table of a page."""
    _, _, table = page.partition(HEAD)
    return [f"{line}\n" for line in table.partition("\n\n")[0].splitlines()]


def page_of(rows: Iterable[str]) -> str:
    """The page with these rows of the fault table."""
    interruptions = "".join(one.line() for one in INTERRUPTIONS)
    return f"{INTRODUCTION}{HEAD}{''.join(rows)}\n{INTERRUPTED}{interruptions}"


def main() -> None:
    """Meet every fault and print the page."""
    with tempfile.TemporaryDirectory() as folder:
        laboratory = build(Path(folder) / "laboratory")
        rows = [
            meet(fault, copy(laboratory, Path(folder) / str(number))).line()
            for number, fault in enumerate(FAULTS)
        ]
    print(page_of(rows), end="")


if __name__ == "__main__":
    main()
