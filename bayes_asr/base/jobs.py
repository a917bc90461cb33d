"""Jobs of one command with their number in it: here, or by Kaldi's run.pl, queue.pl or slurm.pl."""

import os
import re
import shlex
from collections.abc import Sequence
from glob import escape
from itertools import count
from pathlib import Path

from bayes_asr.base.errors import InputError
from bayes_asr.base.kaldi_programs import find_program
from bayes_asr.base.programs import Process, start, start_printing

JOB = "\0"  # stands for the number of a job; no argument of a program can hold it
SAFE = re.compile(r"[\w@%+=:,./-]*", re.ASCII)  # what a shell takes as it is


def run_jobs(command: Sequence[str | Path], jobs: int, log: Path, cmd: str = "") -> None:
    """Run a command as jobs 1 to `jobs`; the constant JOB in arguments and `log` is the number.

    `cmd` is what Kaldi's cmd.sh calls decode_cmd: run.pl, queue.pl or slurm.pl with its options.
    Without it the jobs run here, all at once.  Raises InputError with the log's last line if a job
    fails.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    arguments = [str(part) for part in command]
    if cmd:
        running = [(log, _start_array(arguments, 1, jobs, log, cmd))]
    else:
        running = []
        for job in range(1, jobs + 1):
            own_log = Path(str(log).replace(JOB, str(job)))
            job_arguments = [argument.replace(JOB, str(job)) for argument in arguments]
            running.append((own_log, start(job_arguments, own_log)))
    statuses = _wait_for([process for _, process in running])
    for (own_log, _), status in zip(running, statuses, strict=True):
        if status:
            raise InputError(
                f"{Path(arguments[0]).name} failed with status {status}, see "
                f"{str(own_log).replace(JOB, '*')}: {read_last_line(own_log)}"
            )


def run_array(command: Sequence[str], begin: int, last: int, log: Path, cmd: str) -> None:
    """Run a command as jobs `begin` to `last` by `cmd`, otherwise as `run_jobs` does.

    Returns when all jobs have ended, well or not.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    _wait_for([_start_array(command, begin, last, log, cmd)])


def _start_array(command: Sequence[str], begin: int, last: int, log: Path, cmd: str) -> Process:
    """Start Kaldi's script, which gets its options, JOB=first:last, the log and the command.

    InputError if a log cannot lie there.
    """
    script, *options = split_command(cmd)
    if not all(SAFE.fullmatch(part) for part in str(log).split(JOB)):
        raise InputError(
            f"{log.parent}: {script} cannot write to a path with white space, quotes or other signs"
            " of a shell; choose another"
        )
    # The mark of the job stays outside of quotes, where the script replaces it.
    words = [str(log), *(JOB.join(map(_quote, word.split(JOB))) for word in command)]
    name = _choose_name([*options, *words])
    substituted = [word.replace(JOB, name) for word in words]
    array = [find_program(script), *options, f"{name}={begin}:{last}", *substituted]
    return start_printing(array)


def _wait_for(processes: Sequence[Process]) -> list[int]:
    """The statuses of processes, which end with us."""
    try:
        return [process.wait() for process in processes]
    except BaseException:
        for process in processes:
            process.terminate()
        raise


def split_command(cmd: str) -> list[str]:
    """A script and its options, as a shell divides them; InputError if there is no script."""
    try:
        words = shlex.split(cmd)
    except ValueError as error:
        raise InputError(f"--cmd {cmd!r}: {error}; close it") from None
    if not words:
        raise InputError(f"--cmd {cmd!r}: names no script; give one, such as run.pl")
    return words


def _quote(word: str) -> str:
    """A word for bash without white space: the scripts quote what has some in their own ways."""
    if SAFE.fullmatch(word):
        return word
    # Octal escapes of bash have no sign that a script could take for its own.
    return "$'" + "".join(f"\\{byte:03o}" for byte in os.fsencode(word)) + "'"


def _choose_name(arguments: Sequence[str]) -> str:
    """The word that Kaldi's scripts replace by the number: JOB, or a name that no argument holds.

    They replace it wherever it stands, also within the word JOBS of a path.
    """
    names = ("JOB" + "_" * underscores for underscores in count())
    return next(name for name in names if not any(name in argument for argument in arguments))


def read_last_line(log: Path) -> str:
    """Return the last line that a program wrote to a log; of all jobs' logs to the first there.

    Lines that begin with "#" are of what started the program.
    """
    logs = sorted(log.parent.glob(escape(log.name).replace(JOB, "*")))
    lines = [line for file in logs[:1] for line in file.read_text(errors="replace").splitlines()]
    return next((line for line in reversed(lines) if line[:1] != "#" and line), "no message")
