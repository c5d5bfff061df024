# Sourced by tests/run, after tests/postgres.sh: Redis, from the system's packages. Sets CHOIRMASTER_TEST_REDIS to the server's program
# where it isn't on the path. Each test that needs a server starts its own.
# shellcheck shell=sh

redis_say() { printf '%s\n' "tests: $*" >&2; }

redis_find() {
    if command -v redis-server >/dev/null 2>&1 && command -v redis-cli >/dev/null 2>&1; then return 0; fi
    if command -v apt-get >/dev/null 2>&1; then
        # The package of the server would start one that nobody asked for. What it has is a link to this program of the other package.
        if ! command -v redis-check-rdb >/dev/null 2>&1; then
            redis_say "installing Redis from the system's packages"
            postgres_as_root env DEBIAN_FRONTEND=noninteractive apt-get update -q >&2 &&
                postgres_as_root env DEBIAN_FRONTEND=noninteractive \
                    apt-get install -q -y --no-install-recommends redis-tools >&2 || return 1
        fi
        redis_program=${CARGO_TARGET_DIR:-$PWD/target}/redis/redis-server
        mkdir -p "$(dirname "$redis_program")" && ln -sf "$(command -v redis-check-rdb)" "$redis_program" || return 1
        export CHOIRMASTER_TEST_REDIS="$redis_program"
        "$redis_program" --version >/dev/null 2>&1
        return
    fi
    redis_say "installing Redis from the system's packages"
    if command -v dnf >/dev/null 2>&1; then postgres_as_root dnf install -q -y redis >&2
    elif command -v apk >/dev/null 2>&1; then postgres_as_root apk add --quiet redis >&2
    elif command -v brew >/dev/null 2>&1; then brew install --quiet redis >&2
    else
        redis_say "no redis-server, and none of apt-get, dnf, apk and brew: install Redis and try again"
        return 1
    fi && command -v redis-server >/dev/null 2>&1
}

# Valkey for `tests/long valkey`, where Redis would be: that of the path, else that of Debian's backports for its release 12, from the mirror
# that apt has. It is unpacked beside what is built, not installed.
valkey_package=valkey-tools_8.0.1+dfsg1-1~bpo12+1_amd64.deb
valkey_digest=d2c2ea67642fa9571a07138b80ae52ebe566311c952aef25a39c1d5050697853

valkey_find() {
    CHOIRMASTER_TEST_REDIS=$(command -v valkey-server) || {
        valkey_folder=${CARGO_TARGET_DIR:-$PWD/target}/valkey
        CHOIRMASTER_TEST_REDIS=$valkey_folder/usr/bin/valkey-server
        if [ ! -x "$CHOIRMASTER_TEST_REDIS" ]; then
            redis_say "getting Valkey from Debian"
            mkdir -p "$valkey_folder" &&
                valkey_get >"$valkey_folder/package" &&
                printf '%s  %s\n' "$valkey_digest" "$valkey_folder/package" | sha256sum -c - >&2 &&
                dpkg -x "$valkey_folder/package" "$valkey_folder" &&
                ln -sf valkey-check-rdb "$CHOIRMASTER_TEST_REDIS" || return 1
        fi
    }
    export CHOIRMASTER_TEST_REDIS
    "$CHOIRMASTER_TEST_REDIS" --version >&2
}

# Writes the package, which only one of apt's sources has.
valkey_get() {
    # apt puts the addresses in.
    # shellcheck disable=SC2016
    apt-get indextargets --format '$(REPO_URI)' | sort -u | while read -r valkey_source; do
        if curl -fsS "${valkey_source%/}/pool/main/v/valkey/$valkey_package" 2>/dev/null; then break; fi
    done
}
