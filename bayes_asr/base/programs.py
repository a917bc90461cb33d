"""The only module that runs other programs: one call, one log, its status checked."""

import io
import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, NoReturn

from bayes_asr.base.errors import InputError

STARTS = 20.0  # seconds
STDERR = 2  # descriptor
CANNOT_START = (126, 127)  # what shells and loaders say
Process = subprocess.Popen[bytes]


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


def become(command: Sequence[str], variables: Mapping[str, str]) -> NoReturn:
    """Go on as another program, with more variables; InputError where it is not installed."""
    program = shutil.which(command[0])
    if program is None:
        raise InputError(f"{command[0]} is not on PATH; install it")
    os.execve(program, list(command), {**os.environ, **variables})  # noqa: S606 - no shell is wanted


def start(command: Sequence[str], log: Path, cwd: Path | None = None) -> Process:
    """Start a program with its command line, output and messages in `log`."""
    with log.open("wb") as file:
        file.write(f"# {shlex.join(command)}\n".encode())
        # The program writes to the file itself, so our line must be there before it starts.
        file.flush()
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, cwd=cwd
        )


def start_printing(command: Sequence[str]) -> Process:
    """Start a program whose output goes where our messages go."""
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=STDERR)
