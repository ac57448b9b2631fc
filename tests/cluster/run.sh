#!/bin/bash
# Start Slurm on this machine, run the studies of this folder through it, stop it. Usage: run.sh PYTHON
set -euo pipefail
environment=$(realpath --no-symlinks "$(dirname "$1")/..")
cd "$(dirname "$0")"

# Snakemake calls the interpreter of a Slurm job by its path, unquoted: here by one that has no space in it.
link=$(mktemp -d)
ln -s "$environment" "$link/environment"
trap './stop_slurm.sh; rm -r "$link"' EXIT
./start_slurm.sh
# All at once: most of them wait for Slurm's clocks rather than for the processor.
"$link/environment/bin/python" -m pytest --numprocesses 8 --dist load --durations 0 \
    same_tables.py failures.py nodes.py resources.py
