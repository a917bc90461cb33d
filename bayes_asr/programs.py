"""The only module that runs other programs: one call, one log, its status checked."""

import io
import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from bayes_asr.errors import InputError

ROOT = "KALDI_ROOT"
JOB = "JOB"
STARTS = 20.0  # seconds
CANNOT_START = (126, 127)  # what shells and loaders say
DEBIAN_SCTK = Path("/usr/lib/sctk/bin")
SCRIPTS = ("egs/wsj/s5/utils/parallel", "egs/wsj/s5/utils")


class CommandOutput(io.BufferedReader):
    """What a shell command prints; closing it waits for the command and checks its status."""

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
    found = _find(name, folders)
    if found is None:
        where = f"below {ROOT}={root} nor on PATH" if root else f"on PATH, and {ROOT} is not set"
        raise InputError(f"{name} is not {where}: build Kaldi, or set {ROOT} to where it lies")
    return found


def find_nist_program(name: str) -> str:
    """Return the path of a program of NIST's SCTK: Kaldi's copy, else on PATH, else Debian's."""
    root = os.environ.get(ROOT, "")
    kaldis = [Path(root, "tools/sctk/bin")] if root else []
    found = _find(name, kaldis) or _find(name, [DEBIAN_SCTK])
    if found is None:
        raise InputError(f"{name} is not installed: it is part of NIST's SCTK, Debian package sctk")
    return found


def explain_failure(program: str) -> str:
    """Why a program does not start, such as a library that it lacks; empty if it does."""
    try:
        done = subprocess.run(
            [program, "--help"], stdin=subprocess.DEVNULL, capture_output=True, timeout=STARTS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{program} does not run: {error}"
    if done.returncode in CANNOT_START or done.returncode < 0:
        said = done.stderr.decode(errors="replace").splitlines() or ["no message"]
        return f"{program} does not run: status {done.returncode}, {said[0]}"
    return ""


def _find(name: str, folders: Sequence[Path]) -> str | None:
    """The first executable of this name in the folders, or else on PATH."""
    for folder in folders:
        if (folder / name).is_file() and os.access(folder / name, os.X_OK):
            return str(folder / name)
    return shutil.which(name)


def run_hubscr(folder: Path) -> Path:
    """Score `folder`/ctm against `folder`/stm under `folder`/glm with NIST's hubscr.pl.

    As Kaldi's local/score.sh calls it, validation of the inputs left out.  Returns the table of
    counts by speaker, `folder`/ctm.filt.raw; InputError with the log's last line if there is none.
    """
    hubscr, log, counts = find_nist_program("hubscr.pl"), folder / "log", folder / "ctm.filt.raw"
    counts.unlink(missing_ok=True)
    options = ["-p", str(Path(hubscr).parent), "-V", "-l", "english", "-h", "hub5", "-g", "glm"]
    status = start(["perl", hubscr, *options, "-r", "stm", "ctm"], log, cwd=folder).wait()
    if status or not counts.exists():
        raise InputError(f"hubscr.pl failed with status {status}, see {log}: {read_last_line(log)}")
    return counts


def run_jobs(command: Sequence[str | Path], jobs: int, log: Path, cmd: str = "") -> None:
    """Run a command as jobs 1 to `jobs`; JOB in its arguments and in `log` is the number.

    `cmd` is what Kaldi's cmd.sh calls decode_cmd: run.pl, queue.pl or slurm.pl with its options; it
    gets JOB=1:N, the log and the command.  Without it the jobs run here, all at once.  Raises
    InputError with the log's last line if a job fails.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    arguments = [str(part) for part in command]
    if cmd:
        first, *options = shlex.split(cmd)
        if str(log).split() != [str(log)]:
            raise InputError(
                f"{log}: {first} cannot write to a path with white space; choose another"
            )
        array = [find_program(first), *options, f"{JOB}=1:{jobs}", str(log), *arguments]
        running = [(log, subprocess.Popen(array, stdin=subprocess.DEVNULL))]
    else:
        running = []
        for job in range(1, jobs + 1):
            own_log = Path(str(log).replace(JOB, str(job)))
            own = [argument.replace(JOB, str(job)) for argument in arguments]
            running.append((own_log, start(own, own_log)))
    try:
        statuses = [process.wait() for _, process in running]
    except BaseException:
        for _, process in running:
            process.terminate()
        raise
    for (own_log, _), status in zip(running, statuses, strict=True):
        if status:
            raise InputError(
                f"{Path(arguments[0]).name} failed with status {status}, see {own_log}: "
                f"{read_last_line(own_log)}"
            )


def start(command: Sequence[str], log: Path, cwd: Path | None = None) -> subprocess.Popen:
    """Start a program with its command line, output and messages in `log`."""
    with log.open("wb") as file:
        file.write(f"# {shlex.join(command)}\n".encode())
        file.flush()
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, cwd=cwd
        )


def read_last_line(log: Path) -> str:
    """Return the last line of a log; of all jobs' logs the first that is there."""
    logs = [log] if log.exists() else sorted(log.parent.glob(log.name.replace(JOB, "*")))
    lines = [line for one in logs[:1] for line in one.read_text(errors="replace").splitlines()]
    return lines[-1] if lines else "no message"
