"""Training on a Slurm cluster; in Slurm's place are programs that note how they are called."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.places import ROOT

SRUN = """\
echo "$OMP_NUM_THREADS threads: $*" >>"$CALLS"
if [[ $STATE != "failed before training" ]]; then
    echo '{"state": "'"$STATE"'"}' >run/new
    mv run/new run/state.json
fi
[[ $STATE == finished ]]
"""
SCONTROL = """\
echo "scontrol $*" >>"$CALLS"
printf 'node3\\nnode7\\n'
"""


@pytest.mark.parametrize(
    ("state", "status"),
    [("finished", 0), ("stopped", 1), ("failed", 1), ("failed before training", 1)],
)
def test_a_job_calls_torchrun_on_each_node_and_is_queued_again_when_stopped(
    tmp_path: Path, state: str, status: int
) -> None:
    for name, script in (("srun", SRUN), ("scontrol", SCONTROL)):
        (tmp_path / name).write_text(f"#!/usr/bin/env bash\n{script}")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "state.json").write_text('{"state": "stopped"}')  # by the time limit before
    calls = tmp_path / "calls"
    slurm = {"JOB_ID": "17", "JOB_NODELIST": "node[3,7]", "NNODES": "2", "CPUS_PER_TASK": "8"}
    environment = {key: value for key, value in os.environ.items() if key != "OMP_NUM_THREADS"}
    environment |= {f"SLURM_{key}": value for key, value in slurm.items()}
    environment |= {"STATE": state, "CALLS": str(calls), "PROCESSES": "4"}
    environment["PATH"] = f"{tmp_path}:{environment['PATH']}"
    done = subprocess.run(
        [ROOT / "local/slurm_train.sh", "run", "a.yaml", "--set", "seed=2"],
        env=environment,
        cwd=tmp_path,
    )
    assert done.returncode == status
    shown, started, *requeued = calls.read_text().splitlines()
    assert shown == "scontrol show hostnames node[3,7]"
    assert started == (
        "2 threads: torchrun --nnodes 2 --nproc-per-node 4 --rdzv-id 17 --rdzv-backend c10d"
        " --rdzv-endpoint node3:29500 -m bayes_asr train a.yaml --set seed=2 --out run"
    )
    assert requeued == (["scontrol requeue 17"] if state == "stopped" else [])
