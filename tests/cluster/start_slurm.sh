#!/bin/bash
# Start a Slurm on this machine, for tests: three nodes of 4 CPUs and 2 GPUs, all pretended, each with a partition of its
# own. Needs no systemd, no cgroups and no GPU. Installs slurm-wlm and munge (Debian) where this user may, and leaves a
# Slurm that it did not set up alone. stop_slurm.sh undoes it.
set -euo pipefail
cd "$(dirname "$0")"
source ./slurm_common.sh

fail() {
    echo "start_slurm: $*" >&2
    exit 1
}

as_root true 2>/dev/null || fail "needs root or a sudo that asks for no password"
for file in "${configuration[@]}"; do
    if [ -e "$file" ] && ! is_ours "$file"; then
        fail "this machine has a Slurm already: $file is not from here"
    fi
done

if ! command -v slurmctld >/dev/null || ! command -v slurmd >/dev/null || ! command -v munged >/dev/null; then
    command -v apt-get >/dev/null || fail "needs slurmctld, slurmd and munged; knows only apt-get to install them"
    echo "Installing slurm-wlm and munge ..."
    as_root apt-get update -qq
    as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends slurm-wlm munge >/dev/null
fi

./stop_slurm.sh
as_root install -d -m 755 "$state" /etc/slurm

# The default path: Snakemake takes SLURM_* out of a job's environment, and SLURM_CONF with it.
as_root tee /etc/slurm/slurm.conf >/dev/null <<CONF
$mark
ClusterName=halfscale
SlurmctldHost=$(hostname -s)(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
# A job that is requeued waits until its credential has expired, two minutes unless told otherwise.
AuthInfo=cred_expire=5
# Neither systemd nor cgroups.
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu
# What a node claims to have is believed.
SlurmdParameters=config_overrides
# A node that was set down stays down until it is told to resume.
ReturnToService=1
# Jobs that have ended stay known to squeue.
MinJobAge=3600
KillWait=5
StateSaveLocation=$state/state
SlurmctldPidFile=$state/slurmctld.pid
SlurmctldLogFile=$state/slurmctld.log
SlurmdSpoolDir=$state/spool.%n
SlurmdPidFile=$state/slurmd.%n.pid
SlurmdLogFile=$state/slurmd.%n.log
NodeName=DEFAULT CPUs=4 RealMemory=16000 Gres=gpu:2
NodeName=node1 NodeHostname=$(hostname -s) NodeAddr=127.0.0.1 Port=6821
NodeName=node2 NodeHostname=$(hostname -s) NodeAddr=127.0.0.1 Port=6822
NodeName=node3 NodeHostname=$(hostname -s) NodeAddr=127.0.0.1 Port=6823
PartitionName=main Nodes=node1 Default=YES
PartitionName=drained Nodes=node2
PartitionName=failing Nodes=node3
CONF
# Slurm refuses what is no device file, and does not ask which device it is.
as_root tee /etc/slurm/gres.conf >/dev/null <<CONF
$mark
NodeName=node[1-3] Name=gpu File=/dev/null,/dev/zero
CONF

if ! munge --no-input >/dev/null 2>&1; then
    as_root install -d -m 755 -o munge -g munge /run/munge
    as_root test -e /etc/munge/munge.key || as_root mungekey --create
    as_root chown munge /etc/munge/munge.key
    as_root su munge -s /bin/sh -c munged || fail "munged does not start: see /var/log/munge/munged.log"
    as_root touch "$state/munged-is-ours"
fi
as_root slurmctld
as_root slurmd -N node1
as_root slurmd -N node2
as_root slurmd -N node3

for _ in $(seq 60); do
    if [ "$(sinfo --noheader --format %T 2>/dev/null | sort -u)" = idle ]; then
        sinfo
        exit 0
    fi
    sleep 0.5
done
as_root tail -n 20 "$state"/*.log >&2
fail "the nodes are not idle after 30 s; above are the ends of the logs"
