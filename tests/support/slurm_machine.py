"""A Slurm of one node on this machine, with its own keys, ports and folders."""

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol", "scancel")
SECONDS = 60.0  # within which the node must be ready
CONF = """\
ClusterName=one
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
ReturnToService=2
PropagateResourceLimits=NONE
SchedulerParameters=sched_interval=1,batch_sched_delay=0
NodeName=localhost NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN
PartitionName=shared Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def find_missing() -> str:
    """Why no Slurm can be started here; empty if one can."""
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        return f"{', '.join(missing)} not found (Debian: slurm-wlm)"
    return "" if os.geteuid() == 0 else "slurmd runs as root alone"


@contextmanager
def started(folder: Path) -> Iterator[dict[str, str]]:
    """Start Slurm in a short path, which sockets need; yields the environment of its commands."""
    for name in ("state", "spool"):
        (folder / name).mkdir(parents=True)
    folder.chmod(0o755)
    (folder / "key").write_bytes(os.urandom(1024))
    (folder / "key").chmod(0o600)
    with socket.create_server(("127.0.0.1", 0)) as a, socket.create_server(("127.0.0.1", 0)) as b:
        ports = a.getsockname()[1], b.getsockname()[1]
    conf = folder / "slurm.conf"
    conf.write_text(CONF.format(ports=ports, user="root", folder=folder))
    munge = {"socket": "munge.sock", "key-file": "key", "pid-file": "pid", "seed-file": "seed"}
    paths = [f"--{option}={folder / name}" for option, name in munge.items()]
    with ExitStack() as stack:
        for command in (
            ["munged", "--foreground", "--force", *paths, f"--log-file={folder / 'munged.log'}"],
            ["slurmctld", "-D", "-c", "-f", str(conf)],
            ["slurmd", "-D", "-N", "localhost", "-f", str(conf)],
        ):
            said = stack.enter_context((folder / f"{command[0]}.out").open("wb"))
            process = subprocess.Popen(command, stdout=said, stderr=said)
            stack.callback(_end, process)
            time.sleep(1)
        environment = {**os.environ, "SLURM_CONF": str(conf)}
        _wait_for_node(environment, folder)
        yield environment


def _wait_for_node(environment: dict[str, str], folder: Path) -> None:
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        shown = ["sinfo", "--noheader", "--format=%T"]
        done = subprocess.run(shown, env=environment, capture_output=True, text=True)
        if done.stdout.strip() == "idle":
            return
        time.sleep(0.5)
    raise RuntimeError(f"the node was not ready within {SECONDS:g} s, see {folder}/*.out")


def _end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
