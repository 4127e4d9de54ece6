#!/usr/bin/env bash
# Sees to it that a Docker daemon answers, for tests/containers: installs docker.io where apt-get and root are there, and starts a
# daemon where none answers, and then prints "started". `tests/docker.sh stop` ends the daemon that this script started, and no other.
set -euo pipefail

state=/run/tetris-docker
patience_s=60

answers() { timeout 10 docker version --format '{{.Server.Version}}' >/dev/null 2>&1; }

install() {
    [ -n "$(type -P dockerd)" ] && [ -n "$(type -P docker)" ] && return
    if ! command -v apt-get >/dev/null; then
        echo "docker.io cannot be installed: there is no apt-get" >&2
        exit 1
    fi
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends docker.io >/dev/null
    # Where the package's own service starts the daemon, that one is used.
    for _ in 1 2 3 4 5; do answers && return || sleep 1; done
}

# The process that this script started, if it is still the same one.
ours() {
    [ -f "$state/pid" ] && pid=$(cat "$state/pid") && [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = dockerd ] && echo "$pid"
}

start() {
    answers && return
    if [ "$(id -u)" -ne 0 ]; then
        echo "no Docker daemon answers, and only root can start one" >&2
        exit 1
    fi
    mkdir -p "$state"
    # Two that run at a time start one daemon.
    exec 9>"$state/lock"
    flock 9
    install >&2
    answers && return
    if ! ours >/dev/null; then
        # No network, which containers here have no use for, and the storage driver that works on every file system.
        setsid dockerd --storage-driver=vfs --iptables=false --bridge=none >"$state/log" 2>&1 </dev/null 9>&- &
        echo $! >"$state/pid"
    fi
    for ((waited = 0; waited < patience_s; waited++)); do
        answers && echo started && return
        sleep 1
    done
    echo "the Docker daemon does not answer after $patience_s s; its last words:" >&2
    tail -n 20 "$state/log" >&2
    stop
    exit 1
}

stop() {
    pid=$(ours) || return 0
    kill "$pid"
    while [ -d "/proc/$pid" ]; do sleep 0.2; done
    rm -f "$state/pid"
}

case "${1:-start}" in
start) start ;;
stop) stop ;;
*)
    echo "usage: tests/docker.sh [start|stop]" >&2
    exit 2
    ;;
esac
