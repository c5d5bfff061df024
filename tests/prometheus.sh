# Sourced by tests/run: a Prometheus from the system's packages. Sets CHOIRMASTER_TEST_PROMETHEUS to the folder of its
# programs where they aren't on the path. Each test that needs a server starts its own.
# shellcheck shell=sh

prometheus_say() { printf '%s\n' "tests: $*" >&2; }

prometheus_has() { [ -x "$1/prometheus" ] && [ -x "$1/promtool" ]; }

# Unpacked beside what is built, not installed: the package would start a server that nobody asked for.
prometheus_unpack() {
    prometheus_work=$(mktemp -d /tmp/choir.XXXXXX) || return 1
    (
        cd "$prometheus_work" || exit 1
        apt-get download -q prometheus >&2 || {
            postgres_as_root env DEBIAN_FRONTEND=noninteractive apt-get update -q >&2 &&
                apt-get download -q prometheus >&2
        }
    ) && mkdir -p "$1" && dpkg-deb --extract "$prometheus_work"/prometheus_*.deb "$1"
    prometheus_code=$?
    rm -rf "$prometheus_work"
    return $prometheus_code
}

prometheus_find() {
    if command -v prometheus >/dev/null 2>&1 && command -v promtool >/dev/null 2>&1; then return 0; fi
    prometheus_folder=${CARGO_TARGET_DIR:-$PWD/target}/prometheus
    if ! prometheus_has "$prometheus_folder/usr/bin"; then
        prometheus_say "getting Prometheus from the system's packages"
        if command -v apt-get >/dev/null 2>&1; then prometheus_unpack "$prometheus_folder"
        elif command -v dnf >/dev/null 2>&1; then postgres_as_root dnf install -q -y golang-github-prometheus >&2
        elif command -v apk >/dev/null 2>&1; then postgres_as_root apk add --quiet prometheus >&2
        elif command -v brew >/dev/null 2>&1; then brew install --quiet prometheus >&2
        fi || return 1
    fi
    if prometheus_has "$prometheus_folder/usr/bin"; then
        export CHOIRMASTER_TEST_PROMETHEUS="$prometheus_folder/usr/bin"
    elif ! command -v prometheus >/dev/null 2>&1; then
        prometheus_say "no prometheus, and none of apt-get, dnf, apk and brew has one: install it and try again"
        return 1
    fi
}
