"""Puts a message out again and again, as the message_generator of EDGELESS does.

The annotation init-payload says which, and how many milliseconds lie between two: message=hello world,period=1000
"""

import json
import threading
import time
import urllib.request

with open("choirmaster.json", encoding="utf-8") as file:
    ABOUT = json.load(file)
GIVEN = dict(pair.split("=", 1) for pair in ABOUT["annotations"].get("init-payload", "").split(",") if "=" in pair)


def put_out(text, key):
    """Until the event is kept. The same key again is the same event."""
    request = urllib.request.Request(ABOUT["outputs"]["output"], text.encode(), {"idempotency-key": key})
    while True:
        try:
            with urllib.request.urlopen(request, timeout=10):
                return
        except OSError:
            time.sleep(0.1)


def run():
    number = 0
    while True:
        put_out(f"[#{number}]: {GIVEN.get('message', 'hello world')} from {ABOUT['instance']}", str(number))
        number += 1
        time.sleep(int(GIVEN.get("period", "1000")) / 1000)


threading.Thread(target=run, daemon=True).start()


def fn(body, headers):
    return "Messages come by themselves.\n"
