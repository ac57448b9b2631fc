#!/bin/sh
# Get a LaTeX engine where there is none and this user may install one (Debian, root or sudo); else say what to do.
# Never fails: without an engine the study ends with everything but the paper.
set -u

packages="latexmk texlive-latex-recommended texlive-latex-extra texlive-fonts-recommended texlive-science lmodern"

command -v latexmk >/dev/null 2>&1 && exit 0

advice="No latexmk. For the paper, install it: apt-get install $packages"

if command -v apt-get >/dev/null 2>&1; then
    if [ "$(id -u)" -eq 0 ]; then
        sudo=""
    elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
        sudo="sudo"
    else
        sudo="none"
    fi
    if [ "$sudo" != none ]; then
        echo "Installing LaTeX (Debian packages, about a minute) ..."
        log=$(mktemp)
        if $sudo env DEBIAN_FRONTEND=noninteractive sh -c \
            "apt-get update -qq && apt-get install -y -qq --no-install-recommends $packages" >"$log" 2>&1; then
            rm -f "$log"
            exit 0
        fi
        echo "apt-get failed: $(tail -n 1 "$log")"
        rm -f "$log"
    fi
fi

if command -v tectonic >/dev/null 2>&1; then
    echo "$advice. Going on with tectonic."
else
    echo "$advice. Going on without the paper."
fi
