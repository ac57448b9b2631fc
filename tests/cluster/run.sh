#!/bin/bash
# Start Slurm on this machine, run the studies of this folder through it, stop it. Usage: run.sh PYTHON
set -euo pipefail
python=$(realpath --no-symlinks "$1")
cd "$(dirname "$0")"

trap ./stop_slurm.sh EXIT
./start_slurm.sh
# All at once: most of them wait for Slurm's clocks rather than for the processor.
"$python" -m pytest --numprocesses 8 --dist load --durations 0 \
    same_tables.py failures.py nodes.py resources.py
