#!/bin/sh
# Carries out tests/it/sim/mutations: each fault that is described there is made in a copy of the checkout, and the tests that are named
# with it have to fail. `tests/long mutations` calls it.
#
#   tests/mutations.sh [NAME…]    those whose name contains a NAME; without any, all
#
# The checkout itself is never changed. The copy goes with the end of the run, also when it is interrupted. In target/long/mutations
# stays what was built, for the next fault and the next run, and what was said last where a fault was not caught.
set -eu
cd "$(dirname "$0")/.."
. tests/postgres.sh
. tests/redis.sh
# Without one the tests that need it would fail with and without a fault.
redis_find || { redis_say "there is no Redis for the tests"; exit 2; }

list=$PWD/tests/it/sim/mutations
folder=$PWD/target/long/mutations
copy=$folder/copy
log=$copy/.log
# A test that hangs is none that fails.
longest=1200

say() { printf '%s\n' "mutations: $*"; }

# The values of a field of an entry, one a line.
field() { awk -v name="$1" -v field="$2: " '/^name: /{on = substr($0, 7) == name} on && index($0, field) == 1 {print substr($0, length(field) + 1)}' "$list"; }

# Writes the file that comes in with the text replaced; fails unless it is there exactly once, in one line.
replaced() {
    text=$1 with=$2 awk '
        BEGIN { text = ENVIRON["text"]; with = ENVIRON["with"] }
        {
            at = index($0, text)
            if (at) { found += 1 + (index(substr($0, at + 1), text) > 0); $0 = substr($0, 1, at - 1) with substr($0, at + length(text)) }
            print
        }
        END { exit found != 1 }'
}

# Says which tests are of a tier.
eval "$(sed -n '/^of_tier() {/,/^}/p' tests/run)"

# Ends what still runs, all of which has the folder in its environment, and takes the copy away.
clean_up() {
    for process in /proc/[0-9]*; do
        if [ "$process" != "/proc/$$" ] && grep -qsa "CARGO_TARGET_DIR=$folder" "$process/environ"; then kill -9 "${process#/proc/}" 2>/dev/null || :; fi
    done
    rm -rf "$copy" 2>/dev/null || { sleep 1; rm -rf "$copy"; }
}

in_copy() {
    (cd "$copy" && CARGO_TARGET_DIR="$folder/build" exec timeout "$longest" cargo test --quiet "$@") >"$log" 2>&1 </dev/null &
    # In the background, since a signal is only heard between commands.
    wait $!
}

# What becomes of the tests of an entry, in one sentence: `caught` if each of them fails.
judge() {
    field "$1" fails >"$copy/.tests"
    while read -r package target test; do
        [ -n "$(echo "$test" | of_tier run "$target" run)" ] || { verdict="$test is left to tests/run --all"; return; }
        in_copy -p "$package" --test "$target" --no-run || { verdict="does not build"; return; }
        if in_copy -p "$package" --test "$target" -- --exact "$test"; then verdict="SURVIVES $test"
        else verdict="$test neither passed nor failed"
        fi
        ! grep -q '^test result: ok\. 0 passed' "$log" || verdict="there is no test $test"
        grep -q '^test result: FAILED\. 0 passed; 1 failed' "$log" || return 0
    done <"$copy/.tests"
    verdict=caught
    [ -s "$copy/.tests" ] || verdict="no test is named"
}

if [ -e "$copy" ]; then
    say "$copy is there: another run goes on, or one was killed. Take it away if none does."
    exit 2
fi
mkdir -p "$copy"
trap 'code=$?; trap - EXIT; clean_up; exit $code' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
# As files of now, so that nothing that was built of a fault before counts as built of them.
git ls-files -z --cached --others --exclude-standard | tar -c --null --ignore-failed-read -T - 2>/dev/null | tar -x -m -C "$copy"

wanted=$*
of_names() {
    sed -n 's/^name: //p' "$list" | while read -r name; do
        [ -n "$wanted" ] || echo "$name"
        for part in $wanted; do case $name in *"$part"*) echo "$name"; break ;; esac; done
    done
}
names=$(of_names)
[ -n "$names" ] || { say "none has that in its name: $wanted"; exit 2; }
tried=0 survived=0
for name in $names; do
    file=$(field "$name" file)
    printf '%s … ' "$name"
    began=$(date +%s)
    if [ -f "$file" ] && replaced "$(field "$name" text)" "$(field "$name" with)" <"$copy/$file" >"$copy/.mutant"; then
        mv "$copy/$file" "$copy/.original"
        cp "$copy/.mutant" "$copy/$file"
        judge "$name"
        # A file of now, or what was built of the fault would count as built of it.
        cp "$copy/.original" "$copy/$file"
    else
        verdict="the text is no longer there"
        : >"$log"
    fi
    echo "$verdict ($(($(date +%s) - began)) s)"
    tried=$((tried + 1))
    [ "$verdict" = caught ] || { survived=$((survived + 1)); cp "$log" "$folder/$name.log"; }
done
say "$((tried - survived)) of $tried are caught"
[ "$survived" = 0 ] || { say "what was said last of the others is in $folder"; exit 1; }
