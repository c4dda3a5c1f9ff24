# Shared by the scripts: progress, privileges, the cache of fetched tools. Sourced, not run.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache=${VCTL_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/vctl}
started=$SECONDS
# A Node.js that scripts/node has fetched because the machine's own is too old.
fetched_node_first() { if [ -x "$cache/node/bin/node" ]; then PATH=$cache/node/bin:$PATH; fi; }
fetched_node_first

step() { printf '\033[1m==>\033[0m [%3ds] %s\n' "$((SECONDS - started))" "$*"; }
note() { printf '    %s\n' "$*"; }
fail() {
    printf 'error: %s\n' "$1" >&2
    shift
    for line in "$@"; do printf '       %s\n' "$line" >&2; done
    exit 1
}

# Runs a command as root: directly, or by sudo.
as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo --preserve-env=DEBIAN_FRONTEND "$@"
    else
        fail "this step needs root: $*" "run it as root, or install sudo"
    fi
}

# Runs a command quietly; shows what it printed when it fails.
quietly() {
    local log
    log=$(mktemp)
    if "$@" >"$log" 2>&1; then
        rm -f "$log"
    else
        tail -n 40 "$log" >&2
        rm -f "$log"
        fail "this failed: $*"
    fi
}
