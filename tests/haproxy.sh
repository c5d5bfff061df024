# Sourced by tests/run: HAProxy, from the system's packages.
# shellcheck shell=sh

haproxy_say() { printf '%s\n' "tests: $*" >&2; }

haproxy_find() {
    if command -v haproxy >/dev/null 2>&1; then return 0; fi
    # Where it is on the path of root alone.
    for folder in /usr/sbin /usr/local/sbin; do
        if [ -x "$folder/haproxy" ]; then
            PATH=$PATH:$folder
            export PATH
            return 0
        fi
    done
    haproxy_say "installing haproxy from the system's packages"
    if command -v apt-get >/dev/null 2>&1; then
        # It would be started at once, with a configuration of the package's.
        postgres_as_root env DEBIAN_FRONTEND=noninteractive apt-get update -q >&2 &&
            postgres_as_root env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 \
                apt-get install -q -y --no-install-recommends haproxy >&2
    elif command -v dnf >/dev/null 2>&1; then postgres_as_root dnf install -q -y haproxy >&2
    elif command -v apk >/dev/null 2>&1; then postgres_as_root apk add --quiet haproxy >&2
    elif command -v brew >/dev/null 2>&1; then brew install --quiet haproxy >&2
    else
        haproxy_say "no haproxy, and none of apt-get, dnf, apk and brew: install it and try again"
        return 1
    fi
}
