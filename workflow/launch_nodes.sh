#!/usr/bin/env bash
# Trains one model on several nodes of a Slurm cluster: one task per node, in which Accelerate starts a process per GPU.
#
#   workflow/launch_nodes.sh [--dry-run] CORPUS MODEL [options of sbatch ...]
#   NODES=4 workflow/launch_nodes.sh web w8s8-1kv --partition=gpu --time=1-00:00:00
#
# --dry-run submits nothing and prints the commands. From the environment:
#   NODES=2   GPUS=8 (per node)   CPUS=32 (per node)   SCALE=paper   ACCELERATE_CONFIG=workflow/accelerate/nodes.yaml
# The corpus must be there, and with it results/$SCALE/config.yaml: see docs/cluster.md.
#
# The job may be killed and requeued at any moment: training goes on from its last checkpoint. Slurm requeues it when a
# node fails or another job preempts it, and five minutes before its time limit it requeues itself.
set -euo pipefail

dry=false
if [[ ${1-} == --dry-run ]]; then
  dry=true
  shift
fi
if (($# < 2)) || [[ $1 == -* || $2 == -* ]]; then
  echo "usage: $0 [--dry-run] CORPUS MODEL [options of sbatch ...]" >&2
  exit 2
fi
corpus=$1 model=$2
shift 2
# Slurm runs a copy of this file, out of a folder of its own, and says where the job was submitted.
cd "${SLURM_SUBMIT_DIR:-$(dirname "$0")/..}"

results=results/${SCALE:-paper}
log=$results/logs/train/$corpus/$model
accelerate_config=${ACCELERATE_CONFIG:-workflow/accelerate/nodes.yaml}
nodes=${SLURM_JOB_NUM_NODES:-${NODES:-2}}
gpus=${SLURM_GPUS_PER_NODE:-${GPUS:-8}} gpus=${gpus##*:}  # Slurm says 8 or h100:8
cpus=${SLURM_CPUS_PER_TASK:-${CPUS:-32}}

# 1. Where the user is: submit this script.
submit=(
  sbatch "--job-name=train-$model" "--nodes=$nodes" --ntasks-per-node=1 "--gpus-per-node=$gpus" "--cpus-per-task=$cpus"
  --requeue --signal=B:USR1@300 --open-mode=append "--output=$log.slurm.log"
  "$@" workflow/launch_nodes.sh "$corpus" "$model"
)

# 2. In the job, on its first node: start one task per node. The processes meet on that node, at a port that another job
# there is unlikely to have. A task that fails ends the others, which would wait for it.
if [[ -n ${SLURM_JOB_ID-} ]]; then
  first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
  port=$((20000 + SLURM_JOB_ID % 20000))
else
  first=FIRST_NODE port=PORT  # not known before the job runs
fi
start=(
  srun "--nodes=$nodes" "--ntasks=$nodes" --ntasks-per-node=1 "--cpus-per-task=$cpus" --kill-on-bad-exit=1 --label
)

# 3. In every task: Accelerate's launcher, with the number of the machine.
# shellcheck disable=SC2016  # these variables are the task's, not this shell's
task='exec accelerate launch --machine_rank "$SLURM_NODEID" "$@"'
arguments=(
  --config_file "$accelerate_config" --num_machines "$nodes" --num_processes $((nodes * gpus))
  --main_process_ip "$first" --main_process_port "$port"
  -m weakspots.cli train "$corpus" "$model" --config "$results/config.yaml" --log "$log.log"
)

if $dry; then
  show() { printf -v line '%q ' "$@" && echo "${line% }"; }
  if [[ -z ${SLURM_JOB_ID-} ]]; then
    echo "# here:"
    show "${submit[@]}"
  fi
  echo "# in the job, on its first node:"
  show "${start[@]}" bash -c "$task" task "${arguments[@]}"
  for ((rank = 0; rank < nodes; rank++)); do
    echo "# which is, on machine $rank:"
    show accelerate launch --machine_rank "$rank" "${arguments[@]}"
  done
  exit
fi

for needed in "$results/config.yaml" "$results/data/$corpus/manifest.json" "$accelerate_config"; do
  if [[ ! -e $needed ]]; then
    echo "$PWD/$needed is not there: prepare the corpus first, as docs/cluster.md says" >&2
    exit 1
  fi
done
if [[ -z ${SLURM_JOB_ID-} ]]; then
  mkdir -p "$(dirname "$log")"
  exec "${submit[@]}"
fi

# srun runs beside this shell, which would not hear of the time limit otherwise; a signal ends `wait`, and not srun.
trap 'echo "time is almost up: requeued"; scontrol requeue "$SLURM_JOB_ID"' USR1
"${start[@]}" bash -c "$task" task "${arguments[@]}" &
until wait $!; do
  status=$?
  kill -0 $! 2>/dev/null || exit "$status"
done
