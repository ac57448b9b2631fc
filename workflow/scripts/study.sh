#!/bin/sh
# Run a study and say where its results are. Usage: study.sh BIN CORES CONFIG
set -eu

bin=$1
cores=$2
config=$3

# Names the file, the line and the key of what is wrong in it, before anything is started.
plan=$("$bin/halfscale" plan --config "$config")
study=$(printf '%s\n' "$plan" | sed -n '$s/:.*//p')

mkdir -p .snakemake

# Snakemake wants a home that it can write to and the user's name; a container may have neither.
if [ ! -w "${HOME:-}" ]; then
    mkdir -p .snakemake/home
    export HOME="$PWD/.snakemake/home"
fi
if [ -z "${USER:-}${LOGNAME:-}" ]; then
    USER=$(id -un 2>/dev/null) || USER=nobody
    export USER
fi

# One study at a time in this folder. The lock dies with its holder, so one left by Snakemake itself is stale when
# this one is free, and is removed: a study that was killed goes on at the next call.
if command -v flock >/dev/null 2>&1; then
    exec 9>.snakemake/study.lock
    if ! flock --nonblock 9; then
        echo "Another 'make study' is running in this folder; waiting for it to end ..."
        flock 9
    fi
    if [ -n "$(ls .snakemake/locks 2>/dev/null)" ]; then
        "$bin/snakemake" --unlock --quiet all 2>/dev/null || true
    fi
fi

# After the clock was set back, results are dated in the future, and Snakemake would refuse all that is made from them.
touch .snakemake/now
if [ -d results ]; then
    find results -newer .snakemake/now -exec touch -r .snakemake/now {} +
fi

# To Snakemake a file of 0 bytes is there. The paper and figures that are empty are made again.
find "$study/paper.pdf" "$study/figures" -type f -size 0 -exec rm -f {} + 2>/dev/null || true

# A progress bar on a terminal, plain lines elsewhere.
set -- --cores "$cores" --configfile "$config"
if [ -t 2 ]; then
    set -- "$@" --logger rich
fi
if ! "$bin/snakemake" "$@"; then
    # The results may lie on another disk than this folder.
    for folder in "$PWD" "$PWD/results" "$PWD/$study"; do
        if [ -d "$folder" ] && [ "$(df -Pk "$folder" | awk 'NR == 2 { print $4 }')" -lt 10240 ]; then
            echo "The disk of $folder is full." >&2
            break
        fi
    done
    echo "The study has not ended; what is done is kept. Mend what is said above, then go on: the same call again" >&2
    exit 1
fi

echo
grep -h "^Blocks of .* differ by" "$study"/logs/throughput/*.log 2>/dev/null | sort -u || true
if [ -f "$study/paper.pdf" ]; then
    echo "Paper:    $study/paper.pdf"
fi
echo "Tables:   $study/tables/"
echo "Figures:  $study/figures/"
