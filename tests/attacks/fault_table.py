"""The rows of the fault table in docs/reliability.md; as a script, writes them there.

usage: python -m tests.attacks.fault_table
"""

import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.attacks.faults import FAULTS, Fault
from tests.attacks.laboratory import bayes_asr, build, contents, copy, inside
from tests.support.places import ROOT

PAGE = ROOT / "docs" / "reliability.md"
HEAD = """\
| what is broken | command | status | last line | changed |
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
    complaint = re.sub(r"\d+", "…", said.complaint) if fault.measured else said.complaint
    return Row(fault.broken, fault.verb, said.status, complaint, tuple(changed))


def rows_of(page: str) -> list[str]:
    """The rows of the fault table of a page."""
    _, _, table = page.partition(HEAD)
    return [f"{line}\n" for line in table.partition("\n\n")[0].splitlines()]


def main() -> None:
    """Meet every fault and write the table."""
    with tempfile.TemporaryDirectory() as folder:
        laboratory = build(Path(folder) / "laboratory")
        rows = [
            meet(fault, copy(laboratory, Path(folder) / str(number))).line()
            for number, fault in enumerate(FAULTS)
        ]
    page = PAGE.read_text(encoding="utf-8")
    head, _, rest = page.partition(HEAD)
    _, _, tail = rest.partition("\n\n")
    PAGE.write_text(head + HEAD + "".join(rows) + "\n" + tail, encoding="utf-8")


if __name__ == "__main__":
    main()
