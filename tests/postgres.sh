# Sourced by tests/run: a Postgres cluster of its own, in a temporary folder, on a free port, for as long as the
# sourcing script lives. Sets CHOIRMASTER_TEST_POSTGRES to a superuser's URL.
# shellcheck shell=sh

postgres_say() { printf '%s\n' "tests: $*" >&2; }

# Root where installing needs it.
postgres_as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"
    elif command -v sudo >/dev/null 2>&1; then sudo "$@"
    else postgres_say "Postgres is missing and there is no sudo to install it with: install it and try again"; return 1
    fi
}

# The folder of initdb: on the path, or where packages put it. The newest version wins.
postgres_find() {
    postgres_on_path=$(command -v initdb 2>/dev/null) && { dirname "$postgres_on_path"; return; }
    for postgres_pattern in '/usr/lib/postgresql/*/bin/initdb' '/usr/pgsql-*/bin/initdb' \
        '/usr/libexec/postgresql*/initdb' '/opt/homebrew/opt/postgresql*/bin/initdb' \
        '/usr/local/opt/postgresql*/bin/initdb' '/usr/local/pgsql/bin/initdb'; do
        # shellcheck disable=SC2086 # the pattern is meant to be expanded
        ls -d $postgres_pattern 2>/dev/null
    done | sort -V | tail -n 1 | xargs -r dirname
}

postgres_install() {
    postgres_say "installing Postgres from the system's packages"
    if command -v apt-get >/dev/null 2>&1; then
        postgres_as_root env DEBIAN_FRONTEND=noninteractive apt-get update -q >&2 &&
            # The package would otherwise start a cluster that nobody asked for.
            postgres_as_root sh -c 'mkdir -p /etc/postgresql-common && { [ -e /etc/postgresql-common/createcluster.conf ] ||
                echo "create_main_cluster = false" >/etc/postgresql-common/createcluster.conf; }' &&
            postgres_as_root env DEBIAN_FRONTEND=noninteractive \
                apt-get install -q -y --no-install-recommends postgresql >&2
    elif command -v dnf >/dev/null 2>&1; then postgres_as_root dnf install -q -y postgresql-server postgresql-contrib >&2
    elif command -v apk >/dev/null 2>&1; then postgres_as_root apk add --quiet postgresql >&2
    elif command -v brew >/dev/null 2>&1; then brew install --quiet postgresql@17 >&2
    else
        postgres_say "no initdb, and none of apt-get, dnf, apk and brew: install Postgres and try again"
        return 1
    fi
}

# Postgres refuses to run as root.
postgres_run() {
    if [ "$(id -u)" != 0 ]; then "$@"
    elif command -v runuser >/dev/null 2>&1; then runuser -u "$postgres_user" -- "$@"
    else
        # su takes one text: quote every word of it.
        postgres_words=
        for postgres_word in "$@"; do
            postgres_words="$postgres_words '$(printf '%s' "$postgres_word" | sed "s/'/'\\\\''/g")'"
        done
        su "$postgres_user" -s /bin/sh -c "$postgres_words"
    fi
}

postgres_stop() {
    if [ -n "${postgres_folder:-}" ]; then
        postgres_run "$postgres_bin/pg_ctl" -D "$postgres_folder/data" -m immediate -w stop >/dev/null 2>&1 || :
        rm -rf "$postgres_folder"
        postgres_folder=
    fi
}

postgres_start() {
    postgres_bin=$(postgres_find)
    if [ -z "$postgres_bin" ]; then
        postgres_install || return 1
        postgres_bin=$(postgres_find)
        [ -n "$postgres_bin" ] || { postgres_say "Postgres was installed, but initdb is nowhere"; return 1; }
    fi
    postgres_user=$(id -un)
    if [ "$(id -u)" = 0 ]; then
        postgres_user=postgres
        id "$postgres_user" >/dev/null 2>&1 || postgres_user=nobody
    fi
    # Short, for the path of a socket is limited to about 100 bytes.
    postgres_folder=$(mktemp -d /tmp/choir.XXXXXX) || return 1
    if [ "$(id -u)" = 0 ]; then chown "$postgres_user" "$postgres_folder" || return 1; fi
    # From a folder that the unprivileged user can enter. Durability stays as it is by default: tests depend on it.
    (cd "$postgres_folder" && postgres_run "$postgres_bin/initdb" -D "$postgres_folder/data" -U postgres -A trust \
        --encoding=UTF8 --locale=C >"$postgres_folder/initdb.log" 2>&1) ||
        { cat "$postgres_folder/initdb.log" >&2; return 1; }
    # A port can only be found free by trying it.
    postgres_try=0
    while [ "$postgres_try" -lt 20 ]; do
        postgres_port=$(awk -v seed="$$$postgres_try" 'BEGIN { srand(); srand(srand() + seed); print 9000 + int(rand() * 3000) }')
        if (cd "$postgres_folder" && postgres_run "$postgres_bin/pg_ctl" -D "$postgres_folder/data" -w -t 60 \
            -l "$postgres_folder/data/server.log" -o "-p $postgres_port -c listen_addresses=127.0.0.1 \
            -c unix_socket_directories=$postgres_folder -c max_connections=200" start >/dev/null 2>&1); then
            export CHOIRMASTER_TEST_POSTGRES="postgres://postgres@127.0.0.1:$postgres_port/postgres"
            return 0
        fi
        postgres_try=$((postgres_try + 1))
    done
    cat "$postgres_folder/data/server.log" >&2
    return 1
}
