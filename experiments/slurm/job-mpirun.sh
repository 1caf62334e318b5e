#!/bin/bash
#SBATCH --job-name=train
#SBATCH --ntasks=2
#SBATCH --cpus-per-task=8
#SBATCH --time=12:00:00
#SBATCH --signal=B:USR1@180
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=slurm-%j.out

mpirun --bind-to none \
  forebay feed feed.toml --state run/feed.state --save-every 500 --stop-on-signal --stop-exit-code 85 "$@" &
mpirun=$!
trap 'kill -USR1 $mpirun' USR1
wait $mpirun
code=$?
if [ $code -eq 138 ]; then  # 128 + SIGUSR1: the trap ended the wait, mpirun still runs
  wait $mpirun
  code=$?
fi
if [ $code -eq 85 ]; then  # stopped by a signal, not finished: back into the queue
  scontrol requeue "$SLURM_JOB_ID"
fi
exit $code
