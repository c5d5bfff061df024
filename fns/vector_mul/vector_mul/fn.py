"""Multiplies a matrix of its own by the vector that it gets, as the vector_mul of EDGELESS does, and tells a collector of metrics how long
that takes.

The annotation init-payload says how large both are, where random numbers begin, and who is the client: it puts out the first vector, and
another one whenever one has come back to it.
"""

import json
import random
import threading
import time
import urllib.request

with open("choirmaster.json", encoding="utf-8") as file:
    ABOUT = json.load(file)
GIVEN = dict(pair.split("=", 1) for pair in ABOUT["annotations"].get("init-payload", "").split(",") if "=" in pair)
IS_CLIENT = GIVEN.get("is_client") == "true"
SIZE = int(GIVEN.get("input_size", "100"))
CHANCE = random.Random(int(GIVEN.get("seed", "0")))
MATRIX = [[CHANCE.random() for _ in range(SIZE)] for _ in range(SIZE)]

LOCK = threading.Lock()
# The transaction that is on its way. Whatever a client of before has begun has a smaller number.
CURRENT = int(time.time() * 1000)


def put_out(output, text, key):
    """Until the event is kept. The same key again is the same event."""
    request = urllib.request.Request(ABOUT["outputs"][output], text.encode(), {"idempotency-key": key})
    while True:
        try:
            with urllib.request.urlopen(request, timeout=10):
                return
        except OSError:
            time.sleep(0.1)


def tell(what):
    put_out("metric", what, what)


def begin():
    tell(f"workflow:begin:{CURRENT}")
    vector = [CHANCE.random() for _ in range(SIZE)]
    put_out("out", json.dumps({"number": CURRENT, "vector": vector}), str(CURRENT))


def multiply(number, vector):
    tell(f"function:begin:{number}")
    product = [sum(a * b for a, b in zip(row, vector)) for row in MATRIX]
    length = max(product, default=0) or 1
    tell(f"function:end:{number}")
    return [value / length for value in product]


def fn(body, headers):
    global CURRENT
    came = json.loads(body)
    with LOCK:
        if not IS_CLIENT:
            product = multiply(came["number"], came["vector"])
            put_out("out", json.dumps({"number": came["number"], "vector": product}), str(came["number"]))
        elif came["number"] == CURRENT:
            tell(f"workflow:end:{CURRENT}")
            CURRENT += 1
            begin()
    return ""


if IS_CLIENT:
    threading.Thread(target=begin, daemon=True).start()
