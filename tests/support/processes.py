"""Processes that train together, started by tests in which something happens to one of them."""

import os
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.context import BaseContext
from pathlib import Path
from typing import Any

import torch
from torch import multiprocessing

from bayes_asr.base.processes import group

SECONDS = 300  # after which what hangs is killed
SPAWNED = multiprocessing.get_context("spawn")  # each is a Python of its own until its very end
FORKED = multiprocessing.get_context("forkserver")  # sooner: the server imports torch once for all
FORKED.set_forkserver_preload(["bayes_asr.cli", "bayes_asr.train.start", "pytest", __name__])


@dataclass(frozen=True)
class Ended:
    """How a process ended: its exit status, negative for a signal, and its standard error."""

    status: int
    err: str


def together(
    folder: Path,
    work: Callable[..., Any],
    *args: Any,
    processes: int = 2,
    context: BaseContext = FORKED,
) -> list[Ended]:
    """Call `work(rank, *args)`, of the top of a module, in each of the processes at once.

    What it returns is the exit status.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    running = [
        context.Process(target=_one, args=(rank, processes, port, folder, work, args))
        for rank in range(processes)
    ]
    for process in running:
        process.start()
    for process in running:
        process.join(SECONDS)
        process.kill()
        process.join()
    return [
        Ended(process.exitcode, (folder / f"{rank}.err").read_text())
        for rank, process in enumerate(running)
    ]


def _one(
    rank: int,
    processes: int,
    port: int,
    folder: Path,
    work: Callable[..., Any],
    args: tuple[Any, ...],
) -> None:
    """What torchrun does for a process."""
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(processes)}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    torch.set_num_threads(1)
    with (folder / f"{rank}.err").open("w") as file:
        os.dup2(file.fileno(), sys.stderr.fileno())
    try:
        status = work(rank, *args)
    except SystemExit as end:
        status = end.code
    if status == 143:  # all agreed to stop and nobody waits for this one any more
        sys.stderr.flush()
        # Where the machine is busy, threads of torch sometimes abort the interpreter at its end.
        os._exit(status)
    sys.exit(status)


def on_machines_of_their_own(apart: bool) -> None:
    """Let this process see no memory that another one offers, as on another machine."""
    if apart and os.environ["RANK"] != "0":
        group.open_memory = lambda *_: None  # type: ignore[assignment]
