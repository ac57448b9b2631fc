# What start_slurm.sh and stop_slurm.sh share.
# shellcheck shell=bash disable=SC2034

state=/run/halfscale-slurm
configuration=(/etc/slurm/slurm.conf /etc/slurm/gres.conf)
mark="# Written by halfscale's tests/cluster/start_slurm.sh; stop_slurm.sh removes it."

# Administration tools lie where only root's PATH looks.
PATH=$PATH:/usr/sbin:/sbin

as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo -n "$@"; fi
}

is_ours() {
    grep -qxF "$mark" "$1" 2>/dev/null
}
