# Sourced by tests/run: schemathesis from PyPI, in a virtual environment beside what is built. Sets
# CHOIRMASTER_TEST_SCHEMATHESIS to its program.
# shellcheck shell=sh

schemathesis_version=4.32.5

schemathesis_say() { printf '%s\n' "tests: $*" >&2; }

# A Python that can make virtual environments; the system's packages split that off.
schemathesis_python() {
    if command -v python3 >/dev/null 2>&1 && python3 -c 'import ensurepip, venv' 2>/dev/null; then return 0; fi
    schemathesis_say "installing Python from the system's packages"
    if command -v apt-get >/dev/null 2>&1; then
        postgres_as_root env DEBIAN_FRONTEND=noninteractive apt-get update -q >&2 &&
            postgres_as_root env DEBIAN_FRONTEND=noninteractive \
                apt-get install -q -y --no-install-recommends python3 python3-venv >&2
    elif command -v dnf >/dev/null 2>&1; then postgres_as_root dnf install -q -y python3 python3-pip >&2
    elif command -v apk >/dev/null 2>&1; then postgres_as_root apk add --quiet python3 py3-pip >&2
    elif command -v brew >/dev/null 2>&1; then brew install --quiet python@3.13 >&2
    else
        schemathesis_say "no python3 with venv, and none of apt-get, dnf, apk and brew: install it and try again"
        return 1
    fi
}

schemathesis_find() {
    schemathesis_folder=${CARGO_TARGET_DIR:-$PWD/target}/schemathesis-$schemathesis_version
    if ! "$schemathesis_folder/bin/schemathesis" --version >/dev/null 2>&1; then
        schemathesis_python || return 1
        schemathesis_say "getting schemathesis $schemathesis_version from PyPI"
        # A half-made one of an earlier run is of no use.
        rm -rf "$schemathesis_folder"
        python3 -m venv "$schemathesis_folder" >&2 &&
            "$schemathesis_folder/bin/pip" install --quiet --disable-pip-version-check \
                "schemathesis==$schemathesis_version" >&2 || return 1
    fi
    export CHOIRMASTER_TEST_SCHEMATHESIS="$schemathesis_folder/bin/schemathesis"
}
