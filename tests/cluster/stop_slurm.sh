#!/bin/bash
# Stop what start_slurm.sh started, and remove its configuration and its state. Does nothing where there is neither.
set -euo pipefail
cd "$(dirname "$0")"
source ./slurm_common.sh

# Whether a process still is the daemon that its pid file says; one that nobody has reaped has ended.
runs() {
    [ "$(cat "/proc/$2/comm" 2>/dev/null)" = "$1" ] && ! grep -q "^State:.Z" "/proc/$2/status"
}

stop() {
    local pid
    pid=$(as_root cat "$2" 2>/dev/null) || return 0
    for signal in TERM KILL; do
        runs "$1" "$pid" || return 0
        as_root kill -s "$signal" "$pid"
        for _ in $(seq 50); do
            runs "$1" "$pid" || return 0
            sleep 0.1
        done
    done
}

[ -d "$state" ] || exit 0
is_ours /etc/slurm/slurm.conf && scancel --user="$(id -un)" >/dev/null 2>&1 || true
for node in node1 node2 node3; do
    stop slurmd "$state/slurmd.$node.pid"
done
stop slurmctld "$state/slurmctld.pid"
if [ -e "$state/munged-is-ours" ]; then
    stop munged /run/munge/munged.pid
fi
for file in "${configuration[@]}"; do
    if is_ours "$file"; then as_root rm "$file"; fi
done
as_root rm -rf "$state"
