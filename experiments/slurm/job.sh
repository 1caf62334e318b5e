#!/bin/bash
#SBATCH --job-name=train
#SBATCH --ntasks=2
#SBATCH --cpus-per-task=8
#SBATCH --time=12:00:00
#SBATCH --signal=USR1@180
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=slurm-%j.out

srun --mpi=pmix --kill-on-bad-exit=1 --cpus-per-task="$SLURM_CPUS_PER_TASK" \
  forebay feed feed.toml --state run/feed.state --save-every 500 --stop-on-signal --stop-exit-code 85 "$@"
code=$?
if [ $code -eq 85 ]; then  # stopped by a signal, not finished: back into the queue
  scontrol requeue "$SLURM_JOB_ID"
fi
exit $code
