"""The only module that runs other programs: one call, one log, its status checked."""

import io
import os
import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from glob import escape
from itertools import count
from pathlib import Path
from typing import BinaryIO, NoReturn

from bayes_asr.base.errors import InputError

ROOT = "KALDI_ROOT"
JOB = "\0"  # stands for the number of a job; no argument of a program can hold it
SAFE = re.compile(r"[\w@%+=:,./-]*", re.ASCII)  # what a shell takes as it is
STARTS = 20.0  # seconds
STDERR = 2  # descriptor
CANNOT_START = (126, 127)  # what shells and loaders say
DEBIAN_SCTK = Path("/usr/lib/sctk/bin")
SCRIPTS = ("egs/wsj/s5/utils/parallel", "egs/wsj/s5/utils")


class CommandOutput(io.BufferedReader):
    """The output of a shell command; closing it waits for the command and checks its status."""

    def __init__(self, command: str) -> None:
        self._command = command.strip()
        # The user asked for it: this is what --allow-pipes allows.
        self._process = subprocess.Popen(command, shell=True, bufsize=0, stdout=subprocess.PIPE)  # noqa: S602
        super().__init__(self._process.stdout)  # type: ignore[arg-type]

    def close(self) -> None:
        """Close; InputError if the command failed, other than by our not reading to its end."""
        if self.closed:
            return
        super().close()
        status = self._process.wait()
        # A shell reports a command that died by a signal as 128 and its number.
        if status not in (0, -signal.SIGPIPE, 128 + signal.SIGPIPE):
            raise InputError(f"{self._command!r} failed with status {status}; run it by hand")


def open_pipe(command: str) -> BinaryIO:
    """Run a shell command, as Kaldi does for `command |` in an scp, and return its output."""
    return CommandOutput(command)


def find_program(name: str) -> str:
    """Return the path of a Kaldi program or script: below KALDI_ROOT, else on PATH.

    Raises InputError that says where it was looked for.
    """
    root = os.environ.get(ROOT, "")
    folders = []
    if root:
        folders = [*sorted(Path(root, "src").glob("*bin")), *(Path(root, s) for s in SCRIPTS)]
    program = _find(name, folders)
    if program is None:
        where = f"below {ROOT}={root} nor on PATH" if root else f"on PATH, and {ROOT} is not set"
        raise InputError(f"{name} is not {where}: build Kaldi, or set {ROOT} to where it lies")
    return program


def find_nist_program(name: str) -> str:
    """Return the path of a program of NIST's SCTK: Kaldi's copy, else on PATH, else Debian's."""
    root = os.environ.get(ROOT, "")
    kaldis = [Path(root, "tools/sctk/bin")] if root else []
    program = _find(name, kaldis) or _find(name, [DEBIAN_SCTK])
    if program is None:
        raise InputError(f"{name} is not installed: it is part of NIST's SCTK, Debian package sctk")
    return program


def explain_failure(program: str) -> str:
    """Why a program does not start, such as a library that it lacks; empty if it does."""
    try:
        process = subprocess.run(
            [program, "--help"], stdin=subprocess.DEVNULL, capture_output=True, timeout=STARTS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{program} does not run: {error}"
    if process.returncode in CANNOT_START or process.returncode < 0:
        lines = process.stderr.decode(errors="replace").splitlines() or ["no message"]
        return f"{program} does not run: status {process.returncode}, {lines[0]}"
    return ""


def _find(name: str, folders: Sequence[Path]) -> str | None:
    """The first executable of this name in the folders, or else on PATH."""
    for directory in folders:
        if (directory / name).is_file() and os.access(directory / name, os.X_OK):
            return str(directory / name)
    return shutil.which(name)


def run_hubscr(directory: Path) -> Path:
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


def _start_array(
    command: Sequence[str], begin: int, last: int, log: Path, cmd: str
) -> subprocess.Popen:
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
    return subprocess.Popen(array, stdin=subprocess.DEVNULL, stdout=STDERR)


def _wait_for(processes: Sequence[subprocess.Popen]) -> list[int]:
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


def become(command: Sequence[str], variables: Mapping[str, str]) -> NoReturn:
    """Go on as another program, with more variables; InputError where it is not installed."""
    program = shutil.which(command[0])
    if program is None:
        raise InputError(f"{command[0]} is not on PATH; install it")
    os.execve(program, list(command), {**os.environ, **variables})  # noqa: S606 - no shell is wanted


def start(command: Sequence[str], log: Path, cwd: Path | None = None) -> subprocess.Popen:
    """Start a program with its command line, output and messages in `log`."""
    with log.open("wb") as file:
        file.write(f"# {shlex.join(command)}\n".encode())
        # The program writes to the file itself, so our line must be there before it starts.
        file.flush()
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, cwd=cwd
        )


def read_last_line(log: Path) -> str:
    """Return the last line that a program wrote to a log; of all jobs' logs to the first there.

    Lines that begin with "#" are of what started the program.
    """
    logs = sorted(log.parent.glob(escape(log.name).replace(JOB, "*")))
    lines = [line for file in logs[:1] for line in file.read_text(errors="replace").splitlines()]
    return next((line for line in reversed(lines) if line[:1] != "#" and line), "no message")
