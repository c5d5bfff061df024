# Sourced by tests/run: what functions of the forms `nodejs` and `python` need, from the system's packages.
# shellcheck shell=sh

runners_say() { printf '%s\n' "tests: $*" >&2; }

runners_find() {
    runners_missing=
    command -v node >/dev/null 2>&1 || runners_missing="$runners_missing nodejs"
    command -v python3 >/dev/null 2>&1 || runners_missing="$runners_missing python3"
    if [ -z "$runners_missing" ]; then return 0; fi
    runners_say "installing$runners_missing from the system's packages"
    # shellcheck disable=SC2086
    if command -v apt-get >/dev/null 2>&1; then
        postgres_as_root env DEBIAN_FRONTEND=noninteractive apt-get update -q >&2 &&
            postgres_as_root env DEBIAN_FRONTEND=noninteractive \
                apt-get install -q -y --no-install-recommends $runners_missing >&2
    elif command -v dnf >/dev/null 2>&1; then postgres_as_root dnf install -q -y $runners_missing >&2
    elif command -v apk >/dev/null 2>&1; then postgres_as_root apk add --quiet $runners_missing >&2
    elif command -v brew >/dev/null 2>&1; then
        case $runners_missing in *nodejs*) brew install --quiet node >&2 || return 1 ;; esac
        case $runners_missing in *python3*) brew install --quiet python@3.13 >&2 || return 1 ;; esac
    else
        runners_say "no$runners_missing, and none of apt-get, dnf, apk and brew: install it and try again"
        return 1
    fi
}
