"""Puts out what it gets, in capital letters."""

import json
import urllib.request

with open("choirmaster.json", encoding="utf-8") as file:
    OUTPUT = json.load(file)["outputs"]["output"]


def fn(body, headers):
    # Named after the event that it follows from: whoever calls with that again makes no second one.
    key = f"{headers.get('choirmaster-from')}/{headers.get('choirmaster-number')}"
    request = urllib.request.Request(OUTPUT, (body or "").upper().encode(), {"idempotency-key": key})
    with urllib.request.urlopen(request, timeout=10):
        return ""
