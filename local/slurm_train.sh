#!/usr/bin/env bash
#SBATCH --nodes=2 --ntasks-per-node=1 --cpus-per-task=8
#SBATCH --requeue --signal=TERM@300 --open-mode=append
# Trains in the tasks of a Slurm job, a process each, on machines that all see RUN and the data. A job that is out of
# time saves, and is queued again to go on.
#
# usage: sbatch [sbatch options] local/slurm_train.sh RUN CONFIG... [--set KEY=VALUE]...
#
# The threads of a process are the processors of its task, unless OMP_NUM_THREADS is set. The tasks meet at PORT of the
# first machine; by default the number of the job chooses it. --signal=B:USR1@300 does as well as the TERM above.
# e.g. sbatch --nodes=4 --ntasks-per-node=2 --gpus-per-node=2 local/slurm_train.sh exp/timit/seed1 recipes/timit/config.yaml
set -euo pipefail
run=$1
shift
saving=280 # seconds for the last batch and for saving, within the 300 above
read -r MASTER_ADDR < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
MASTER_PORT=${PORT:-$((10000 + SLURM_JOB_ID % 20000))} # below those that systems give to clients
WORLD_SIZE=$SLURM_NTASKS
OMP_NUM_THREADS=${OMP_NUM_THREADS:-${SLURM_CPUS_PER_TASK:-1}}
export MASTER_ADDR MASTER_PORT WORLD_SIZE OMP_NUM_THREADS

written() { stat --format '%i %y' "$run/state.json" 2>/dev/null || true; }
before=$(written)

# The time limit signals the tasks. A signal to this script, which ends its waiting, goes on to them.
trap 'scancel --signal=TERM "$SLURM_JOB_ID"' TERM USR1
# srun does not take the processors of a task from sbatch. It waits for tasks that end after the first one: one saves.
# shellcheck disable=SC2016 # these variables differ between tasks
srun --cpus-per-task "${SLURM_CPUS_PER_TASK:-1}" --wait "$saving" --label \
    bash -c 'RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID exec python -P -m bayes_asr train "$@"' \
    train "$@" --out "$run" &
tasks=$!
status=0
wait "$tasks" || status=$?
while kill -0 "$tasks" 2>/dev/null; do
    status=0
    wait "$tasks" || status=$?
done

# A status of 143 does not say that anything was saved; the run does. A job that fails before it trains leaves the word
# of the one before, which must not have it queued for ever.
if ((status != 0)) && grep -qs '"state": "stopped"' "$run/state.json" && [[ $(written) != "$before" ]]; then
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$status"
