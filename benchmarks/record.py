"""Where benchmarks leave their figures: a JSON file, and a dated page with the machine beside them.

A page is named DATE-THEME-PROCESSOR.md and never written over; a second one of the same day gets
the next number.
"""

import argparse
import datetime
import itertools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
VECTORS = re.compile(r"(fma|avx.*|amx.*|asimd.*|sve.*|bf16|i8mm)$")
SETTINGS = ("OMP_NUM_THREADS", "BAYES_ASR_KERNELS", "BAYES_ASR_DECODER", "ONEDNN_MAX_CPU_ISA")
NOTHING: Mapping[str, str] = {}
Row = Mapping[str, Any]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Let the user choose what figures are written to."""
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument(
        "--record",
        type=Path,
        nargs="?",
        const=RESULTS,
        metavar="FOLDER",
        help="write a dated page into this folder, by default benchmarks/results",
    )


def save(
    figures: Row | Sequence[Row],
    theme: str,
    args: argparse.Namespace,
    device: Mapping[str, str] = NOTHING,
) -> None:
    """Write the figures, rows of a table, to where `args` of `add_options` say.

    Lists of raw figures are left to the JSON file. device: what is to be told of the device that
    was measured beside the processor; the page is named after its `card`.
    """
    if args.json:
        args.json.write_text(json.dumps(figures, indent=1) + "\n")
    if args.record:
        rows = [figures] if isinstance(figures, Mapping) else figures
        print(f"recorded in {write_page(rows, theme, args.record, device)}")


def write_page(
    rows: Sequence[Row], theme: str, folder: Path, device: Mapping[str, str] = NOTHING
) -> Path:
    """Write the figures and the machine into a new file of the folder; returns its path."""
    machine = {**device, **describe_machine()}
    lines = [f"# {theme}, {datetime.date.today().isoformat()}", ""]
    lines += [f"- {name}: {value}" for name, value in machine.items() if value]
    lines += ["", "```sh", describe_command(), "```", "", *tables(rows)]
    folder.mkdir(parents=True, exist_ok=True)
    for path in free_names(folder, theme, machine.get("card", machine["processor"])):
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write("\n".join(lines) + "\n")
        except FileExistsError:
            continue
        return path
    raise AssertionError("numbers do not end")


def free_names(folder: Path, theme: str, processor: str) -> Iterator[Path]:
    """The names that a page of today may have, the first one without a number."""
    marks = re.sub(r"\((r|tm)\)|\b(cpu|processor)\b|@.*", " ", processor.lower())
    name = "-".join([str(datetime.date.today()), theme, *re.findall(r"[a-z0-9]+", marks)])
    yield folder / f"{name}.md"
    for number in itertools.count(2):
        yield folder / f"{name}-{number}.md"


def describe_machine() -> dict[str, str]:
    """What figures depend on beside the command; what cannot be found out is empty."""
    cpu = dict(line.split(":", 1) for line in run("lscpu").splitlines() if ":" in line)
    cpu = {name.strip(): value.strip() for name, value in cpu.items()}
    flags = cpu.get("Flags", "").split()
    numbers = {"family": cpu.get("CPU family"), "model": cpu.get("Model")}
    caches = {name.removesuffix(" cache"): size for name, size in cpu.items() if "cache" in name}
    return {
        "processor": " ".join(
            [cpu.get("Model name", os.uname().machine)]
            + [f"{name} {number}" for name, number in numbers.items() if number]
        ),
        "vector extensions": " ".join(flag for flag in flags if VECTORS.match(flag)),
        "cores": str(os.cpu_count()),
        "caches": ", ".join(f"{name} {size}" for name, size in caches.items()),
        "threads": os.environ.get("OMP_NUM_THREADS", "one for each core"),
        "versions": f"torch {version('torch')}, Python {sys.version.split()[0]}",
        "compiler": run(*shlex.split(os.environ.get("CXX", "c++")), "--version").partition("\n")[0],
        "commit": run("git", "-C", ROOT, "describe", "--always", "--dirty", "--exclude=*"),
    }


def describe_command() -> str:
    """The command line of this process, with the settings of the environment that matter."""
    script = Path(sys.argv[0]).resolve()
    shown = script.relative_to(ROOT) if script.is_relative_to(ROOT) else script.name
    settings = [f"{name}={os.environ[name]}" for name in SETTINGS if name in os.environ]
    return shlex.join([*settings, "python", str(shown), *sys.argv[1:]])


def run(*command: str | Path) -> str:
    """What a program prints, empty where there is none or where it fails."""
    if shutil.which(command[0]) is None:
        return ""
    done = subprocess.run(  # noqa: S603 - the commands are our own
        command, env=os.environ | {"LC_ALL": "C"}, capture_output=True, text=True, check=False
    )
    return "" if done.returncode else done.stdout.strip()


def tables(rows: Sequence[Row]) -> list[str]:
    """Lines of Markdown: a table for each run of rows that have the same keys."""
    lines: list[str] = []
    shown = [{k: x for k, x in row.items() if not isinstance(x, list)} for row in rows]
    for names, group in itertools.groupby(shown, key=tuple):
        lines += [""] if lines else []
        lines += [line(names), line("---" for _ in names)]
        lines += [line(cell(row[name]) for name in names) for row in group]
    return lines


def line(cells: Any) -> str:
    """One line of a table."""
    return f"| {' | '.join(cells)} |"


def cell(value: Any) -> str:
    """A value in few characters."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return "" if value is None else str(value)
