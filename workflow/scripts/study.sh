#!/bin/sh
# Run the default study and say where its results are. Usage: study.sh BIN CORES
set -eu

bin=$1
cores=$2
study=results/quickstart

# One study at a time in this folder. The lock dies with its holder, so one left by Snakemake itself is stale when
# this one is free, and is removed: a study that was killed goes on at the next call.
if command -v flock >/dev/null 2>&1; then
    mkdir -p .snakemake
    exec 9>.snakemake/study.lock
    if ! flock --nonblock 9; then
        echo "Another 'make study' is running in this folder; waiting for it to end ..."
        flock 9
    fi
    "$bin/snakemake" --unlock --quiet all 2>/dev/null || true
fi

# A progress bar on a terminal, plain lines elsewhere.
if [ -t 2 ]; then
    "$bin/snakemake" --cores "$cores" --logger rich
else
    "$bin/snakemake" --cores "$cores"
fi

echo
if [ -f "$study/paper.pdf" ]; then
    echo "Paper:    $study/paper.pdf"
fi
echo "Tables:   $study/tables/"
echo "Figures:  $study/figures/"
