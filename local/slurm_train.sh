#!/usr/bin/env bash
#SBATCH --nodes=2 --ntasks-per-node=1 --cpus-per-task=8
#SBATCH --requeue --signal=TERM@300 --open-mode=append
# Trains on several machines of a Slurm cluster, which all see RUN and the data. A job that is out of time saves, and is
# queued again to go on.
#
# usage: sbatch [sbatch options] local/slurm_train.sh RUN CONFIG... [--set KEY=VALUE]...
#
# PROCESSES, if set, is the number of processes on each machine; by default one for each GPU, or one without GPUs.
# e.g. sbatch --nodes=4 --gpus-per-node=2 local/slurm_train.sh exp/timit/seed1 recipes/timit/config.yaml
set -euo pipefail
run=$1
shift
processes=${PROCESSES:-${SLURM_GPUS_ON_NODE:-1}}
read -r first < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-$((SLURM_CPUS_PER_TASK > processes ? SLURM_CPUS_PER_TASK / processes : 1))}
export TORCH_ELASTIC_SHUTDOWN_TIMEOUT=280 # seconds for the last batch and for saving, within the 300 above

written() { stat --format '%i %y' "$run/state.json" 2>/dev/null || true; }
before=$(written)
status=0
srun torchrun --nnodes "$SLURM_NNODES" --nproc-per-node "$processes" --rdzv-id "$SLURM_JOB_ID" --rdzv-backend c10d \
    --rdzv-endpoint "$first:${PORT:-29500}" -m bayes_asr train "$@" --out "$run" || status=$?
# The status of torchrun is 1 whatever ended its processes; the run says what it was. A job that fails before it trains
# leaves the word of the one before, which must not have it queued for ever.
if ((status != 0)) && grep -qs '"state": "stopped"' "$run/state.json" && [[ $(written) != "$before" ]]; then
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$status"
