"""Scripts that run jobs as Kaldi's do: stand-ins for run.pl, and the real one where it is."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from bayes_asr.base.jobs import JOB
from bayes_asr.cli import main

# Quotes as Kaldi's scripts do, which leave what has no white space to bash.
RUN = """#!/usr/bin/env bash
NOTE
while [[ $1 == -* ]]; do shift 2; done
name=${1%%=*} range=${1#*=} log=$2
shift 2
command=
for word; do
    [[ $word =~ ^[^[:space:]]+$ ]] || word="\\"$word\\""
    command+="$word "
done
jobs=()
for ((job = ${range%:*}; job <= ${range#*:}; job++)); do
    {
        echo "# $job"
        bash -c "( BEFORE ${command//$name/$job} )"
        status=$?
        echo "# Ended (code $status)"
        exit "$status"
    } >"${log//$name/$job}" 2>&1 &
    jobs+=($!)
done
failed=0
for job in "${jobs[@]}"; do
    wait "$job" || failed=1
done
exit "$failed"
"""
CMD = "queue.pl --mem 2G"
PARALLEL = "egs/wsj/s5/utils/parallel"


def write_run(folder: Path, name: str = "run.pl", *, note: str = "", before: str = "") -> Path:
    """The stand-in, as a program of a folder; `note` is done at first, `before` before each job."""
    script = folder / name
    folder.mkdir(parents=True, exist_ok=True)
    script.write_text(RUN.replace("NOTE\n", note).replace("BEFORE", before))
    script.chmod(0o755)
    return script


def find_script(name: str) -> str | None:
    """Kaldi's own script of this name: below KALDI_ROOT, else on PATH."""
    below = Path(os.environ.get("KALDI_ROOT", "/nowhere"), PARALLEL, name)
    return str(below) if below.exists() else shutil.which(name)


class Jobs:
    """Runs jobs here in place of the script of CMD: all but `lost`; `calls` are noted."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, int]] = []
        self.lost: set[int] = set()

    def __call__(self, command: Sequence[str], first: int, last: int, log: Path, cmd: str) -> None:
        assert cmd == CMD
        self.calls.append((first, last))
        log.parent.mkdir(parents=True, exist_ok=True)
        words = command[command.index("bayes_asr") + 1 :]
        for job in set(range(first, last + 1)) - self.lost:
            status = main([word.replace(JOB, str(job)) for word in words])
            Path(str(log).replace(JOB, str(job))).write_text(f"# run\nstatus {status}\n# end\n")
