"""Training on a Slurm cluster; in Slurm's place are programs that note how they are called.

`tests.attacks.slurm` does it on a real one.
"""

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.places import ROOT

SRUN = """\
echo "$OMP_NUM_THREADS threads, $WORLD_SIZE at $MASTER_ADDR:$MASTER_PORT: ${*:1:5}" >>"$CALLS"
if [[ $STATE != "failed before training" ]]; then
    echo '{"state": "'"$STATE"'"}' >run/new
    mv run/new run/state.json
fi
shift 5
SLURM_PROCID=3 SLURM_LOCALID=1 "$@"
[[ $STATE == finished ]]
"""
PYTHON = 'echo "$RANK $LOCAL_RANK: python $*" >>"$CALLS"\n'
SCONTROL = """\
echo "scontrol $*" >>"$CALLS"
printf 'node3\\nnode7\\n'
"""


def make_programs(folder: Path, **scripts: str) -> dict[str, str]:
    """Programs in place of Slurm's and Python; the environment of a job that calls them."""
    for name, script in scripts.items():
        (folder / name).write_text(f"#!/usr/bin/env bash\n{script}")
        (folder / name).chmod(0o755)
    slurm = {"JOB_ID": "17", "JOB_NODELIST": "node[3,7]", "NTASKS": "4", "CPUS_PER_TASK": "2"}
    environment = {key: value for key, value in os.environ.items() if key != "OMP_NUM_THREADS"}
    environment |= {f"SLURM_{key}": value for key, value in slurm.items()}
    environment |= {"CALLS": str(folder / "calls"), "PATH": f"{folder}:{environment['PATH']}"}
    return environment


@pytest.mark.parametrize(
    ("state", "status"),
    [("finished", 0), ("stopped", 1), ("failed", 1), ("failed before training", 1)],
)
def test_a_task_is_a_process_and_a_job_is_queued_again_when_stopped(
    tmp_path: Path, state: str, status: int
) -> None:
    environment = make_programs(tmp_path, srun=SRUN, scontrol=SCONTROL, python=PYTHON)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "state.json").write_text('{"state": "stopped"}')  # by the time limit before
    done = subprocess.run(
        [ROOT / "local/slurm_train.sh", "run", "a.yaml", "--set", "seed=2"],
        env=environment | {"STATE": state},
        cwd=tmp_path,
    )
    assert done.returncode == status
    shown, started, task, *requeued = (tmp_path / "calls").read_text().splitlines()
    assert shown == "scontrol show hostnames node[3,7]"
    assert started == ("2 threads, 4 at node3:10017: --cpus-per-task 2 --wait 280 --label")
    assert task == "3 1: python -P -m bayes_asr train a.yaml --set seed=2 --out run"
    assert requeued == (["scontrol requeue 17"] if state == "stopped" else [])


@pytest.mark.slow
@pytest.mark.parametrize("signal", ["TERM", "USR1"])
def test_a_signal_to_the_script_goes_on_to_the_tasks(tmp_path: Path, signal: str) -> None:
    """The script waits for them, as one saves."""
    srun = 'kill -s "$SIGNAL" $PPID; until [[ -e told ]]; do sleep 0.1; done; sleep 1; exit 143\n'
    scancel = 'echo "scancel $*" >>"$CALLS"; touch told\n'
    environment = make_programs(tmp_path, srun=srun, scontrol=SCONTROL, scancel=scancel)
    done = subprocess.run(
        [ROOT / "local/slurm_train.sh", "run", "a.yaml"],
        env=environment | {"SIGNAL": signal},
        cwd=tmp_path,
        timeout=60,
    )
    assert done.returncode == 143
    assert (tmp_path / "calls").read_text().splitlines()[1:] == ["scancel --signal=TERM 17"]
