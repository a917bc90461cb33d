"""Processes of this machine that train together, started as torchrun does."""

import logging
import os
import sys
from collections.abc import Sequence
from shutil import which
from signal import SIG_IGN, getsignal

from torch.distributed.elastic.multiprocessing import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from bayes_asr.base.processes.malloc import THREADS, share_threads
from bayes_asr.base.processes.signals import SIGNALS

HERE = "127.0.0.1"
SHUTDOWN = "300"  # seconds for the batch that is being computed, and for saving


def launch(processes: int, arguments: Sequence[str]) -> int:
    """Run `bayes-asr ARGUMENTS` in several processes; returns the exit status that one would have.

    torchrun itself exits with 1 and a traceback, whatever it was that ended its processes.
    """
    os.environ.setdefault(THREADS, share_threads(processes))
    os.environ.setdefault("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", SHUTDOWN)
    logging.disable()  # the processes say themselves what happens to them
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=processes,
        run_id=str(os.getpid()),
        rdzv_backend="c10d",
        rdzv_endpoint=f"{HERE}:0",
        local_addr=HERE,
        max_restarts=0,
    )
    # What is ignored, as in background jobs of a script or by nohup, stays ignored.
    config.signals_to_handle = ",".join(n.name for n in SIGNALS if getsignal(n) is not SIG_IGN)
    # Where this process is killed, Linux asks those that it started to end.
    tied = ["setpriv", "--pdeathsig", "TERM"] if which("setpriv") else []
    # -P: a file of the working directory is no module of ours.
    command = [*tied, sys.executable, "-P", "-m", "bayes_asr", *arguments]
    try:
        elastic_launch(config, command[0])(*command[1:])
    except ChildFailedError as error:
        status = error.get_first_failure()[1].exitcode
        # A negative status is a signal, which a shell reports as 128 and its number.
        return status if status > 0 else 128 - status
    except SignalException as error:
        return 128 + error.sigval
    return 0
