#!/usr/bin/env python3
"""Records what a build of choirmaster leaves behind, so that every later build can be held against it.

    python3 tests/it/frozen/record.py PATH/TO/choirmaster OUT [PART …]

OUT gets: `single.*`, one manager with releases that are open at every place; `root.*` and six managers below it, each in
the middle of a release; of each the SQLite file (`.db`), the export (`.jsonl`) and what children hold (`.json`); `wire.jsonl`, what a manager
and its parent say to each other over some releases; `digests.json`, of the samples beside it in `samples/`. It is run once
for a build, by hand; what it made is never made again.
"""
import atexit, http.client, http.server, json, os, re, shutil, signal, sqlite3, subprocess, sys, tempfile, threading, time

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM, OUT = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
SAMPLES = os.path.join(HERE, "samples")
PENDING, IN_PROGRESS, WAITING, SHOULD_END, COMPLETED, FAILURE, ERROR = range(7)


class Manager:
    """A process on a store of its own."""

    def __init__(self, folder, name, parent=None, listen="127.0.0.1:0", more=()):
        self.db = os.path.join(folder, name + ".db")
        self.name = name
        flags = ["--set", "parent.poll=100ms", "--parent", parent, "--set", f"parent.name={name}"] if parent else []
        flags += [flag for pair in more for flag in ("--set", pair)]
        env = {"PATH": os.environ["PATH"]}
        self.process = subprocess.Popen(
            [PROGRAM, "serve", "--listen", listen, "--store", f"sqlite://{self.db}", "--functions", SAMPLES,
             "--log-level", "warn", *flags],
            stdout=subprocess.PIPE, text=True, cwd=folder, env=env)
        atexit.register(self.kill)
        line = self.process.stdout.readline()
        self.address = line.strip().removeprefix("listening on http://")
        assert self.address, line
        self.url = f"http://{self.address}"

    def call(self, method, path, body=None, kind="application/json"):
        host, port = self.address.split(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=70)
        data = body if isinstance(body, (str, bytes, type(None))) else json.dumps(body)
        connection.request(method, path, data, {"Content-Type": kind} if data is not None else {})
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        return answer.status, text

    def api(self, method, path, body=None):
        status, text = self.call(method, path, body)
        assert status < 300, (method, path, status, text)
        return json.loads(text) if text else None

    def submit(self, text):
        status, answer = self.call("POST", "/release", text, "application/yaml")
        assert status < 300, (status, answer.decode())
        return json.loads(answer)

    def state(self, release):
        return self.api("GET", f"/api/v1/releases/{release}")["state"]

    def until(self, release, *states):
        for _ in range(600):
            status, text = self.call("GET", f"/api/v1/releases/{release}")
            if status == 200 and json.loads(text)["state"] in states:
                return
            time.sleep(0.05)
        raise SystemExit(f"{self.name}: {release} is {text.decode()}, not {states}")

    def kill(self):
        """Whatever is left of it when this ends."""
        if self.process.poll() is None:
            self.process.kill()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(30) == 0


class Agent:
    """A child that does what it is told, call by call, and remembers what it was given."""

    def __init__(self, manager, name, x, y, more=None):
        self.manager, self.name = manager, name
        self.area = square(x, y, 0.002)
        self.more = more or {}
        self.id, self.offer, self.stages, self.stage, self.texts = "", None, [], 0, {}
        self.poll()
        assert self.poll() == "" or True

    def poll(self):
        body = {"id": self.id, "geographic_area": self.area, "number_of_children": 0, **self.more}
        status, text = self.manager.call("POST", "/poll", body)
        assert status == 200, text
        answer = json.loads(text)
        self.id = answer["id"]
        return answer["new_release"]

    def offered(self, offer):
        for _ in range(200):
            if self.poll() == offer:
                return self
            time.sleep(0.05)
        raise SystemExit(f"{self.name} was never offered {offer}")

    def text(self, offer):
        status, text = self.manager.call("GET", f"/release?childID={self.id}&releaseID={offer}")
        assert status == 200, text
        return text.decode()

    def take(self, offer):
        self.offered(offer)
        text = self.text(offer)
        status, zipped = self.manager.call("GET", f"/release/functions/{offer}?childID={self.id}")
        assert status == 200 and zipped[:2] == b"PK", (offer, zipped)
        self.texts[offer] = {"given": text}
        stages = text.split("\nstages:\n", 1)[1].split("\nrollback:", 1)[0]
        self.stages = [json.loads(name) if name[0] == '"' else name
                       for name in re.findall(r"^  - name: (.*)$", stages, re.M)]
        self.offer, self.stage = offer, 0
        return self

    def report(self, status, good=True):
        median = 8.5 if good else 900.0
        times = {"median": median, "minimum": 6.7, "maximum": 1010.4}
        summary = {"stage_name": self.stages[self.stage], "proxy_times": times, "f1_times_summary": times,
                   "f2_times_summary": times, "f1_err_rate": 0, "f2_err_rate": 0 if good else 0.5, "status": status}
        last = self.stage + 1 == len(self.stages)
        following = "" if last or status == WAITING else self.stages[self.stage + 1]
        body = {"id": self.id, "release_id": self.offer, "stage_summaries": [summary], "next_stage": following}
        code, text = self.manager.call("POST", "/result", body)
        assert code == 200, (self.name, code, text)
        if status != WAITING:
            self.stage += 1
            if last or (not good and following == ""):
                self.offer = None
        return self

    def drop(self):
        """It is done with the offer, whatever stages are left."""
        self.offer = None
        return self

    def ends(self):
        body = {"id": self.id, "strategy_id": self.offer, "stage_name": self.stages[self.stage]}
        status, text = self.manager.call("POST", "/end_stage", body)
        assert status == 200, text
        return json.loads(text)["end_stage"]

    def wait_for_end(self):
        for _ in range(200):
            if self.ends():
                return self
            time.sleep(0.05)
        raise SystemExit(f"{self.name} waits in {self.offer} for ever")

    def through(self):
        """A WaitForSignal stage from its beginning to its end."""
        return self.report(WAITING).wait_for_end().report(COMPLETED)

    def finish(self):
        """Goes on with whatever it is offered, until nothing is left."""
        nothing = 0
        while nothing < 10:
            if self.offer:
                self.through()
                continue
            offer = self.poll()
            nothing = 0 if offer else nothing + 1
            if offer:
                self.take(offer)
            else:
                time.sleep(0.02)
        return self

    def frozen(self):
        for offer, texts in self.texts.items():
            again = self.text(offer)
            if again != texts["given"]:
                texts["again"] = again
        stage = self.stages[self.stage] if self.offer else None
        return {"id": self.id, "area": self.area, "more": self.more, "offer": self.offer, "stage": stage, "texts": self.texts}


def square(x, y, size):
    points = [[x, y], [x + size, y], [x + size, y + size], [x, y + size], [x, y]]
    return {"type": "Polygon", "coordinates": [[[round(a, 4), round(b, 4)] for a, b in points]]}


def stage(name, function, success, failure="rollback", kind="WaitForSignal", share=20, more=""):
    return f"""  - name: {name}
    type: {kind}
    func_name: {function}
    variants:
      - name: base_version
        trafficPercentage: {100 - share}
      - name: new_version
        trafficPercentage: {share}
    metrics_conditions:
      - name: errorRate
        threshold: "<0.02"
      - name: responseTime
        threshold: "<=200"
        compareWith: Median
    end_conditions:
      - name: minDuration
        threshold: 1s
      - name: minCalls
        threshold: "10"
{more}    end_action:
      onSuccess: {success}
      onFailure: {failure}
"""


def release(name, functions, stages, cell=None, more=""):
    text = f"id: {name}\nname: Release {name}\ntype: minor\nfunctions:\n"
    for function in functions:
        text += f"""  - name: {function}
    base_version:
      path: fns/sieve_base
      env: nodejs
    new_version:
      path: fns/sieve_new
      env: nodejs
"""
    text += more + "stages:\n" + "".join(stages) + "rollback:\n  action:\n    function: base_version\n"
    if cell is not None:
        text += "target:\n  area: " + json.dumps(square(10 + cell, 50, 0.5)) + "\n"
    return text


def crowd(manager, cell, count, name, more=None):
    """Children that only the releases of this cell reach."""
    return [Agent(manager, f"{name}-{i}", 10 + cell + 0.01 * (i + 1), 50.1, more) for i in range(count)]


def chosen(agents, offer, count):
    """Those whose turn it is, then the others."""
    for _ in range(200):
        turns = [agent for agent in agents if agent.offer is None and agent.poll() == offer]
        if len(turns) == count:
            return turns + [agent for agent in agents if agent not in turns]
        time.sleep(0.05)
    what = agents[0].manager.call("GET", f"/api/v1/releases/{offer.split('.')[0]}/children")
    raise SystemExit(f"{len(turns)} are offered {offer}, not {count}: {what}")


def keep(manager, agents, releases):
    """Writes a stopped manager's store, in both forms, and what its children hold."""
    base = os.path.join(OUT, manager.name)
    exported = [PROGRAM, "store", "export", "--store", f"sqlite://{manager.db}", "--out", base + ".jsonl"]
    subprocess.run(exported, check=True, stdout=subprocess.DEVNULL, env={"PATH": os.environ["PATH"]})
    connection = sqlite3.connect(manager.db, isolation_level=None)
    connection.execute("PRAGMA journal_mode=DELETE").fetchall()
    connection.execute("VACUUM")
    connection.close()
    shutil.copy(manager.db, base + ".db")
    with open(base + ".json", "w") as file:
        json.dump({"children": agents, "releases": releases}, file, indent=1, sort_keys=True)
        file.write("\n")


def shown(manager):
    """Every release as the old build showed it."""
    listed = manager.api("GET", "/api/v1/releases?limit=100")["items"]
    return {item["id"]: {"state": item["state"], "counts": item["counts"]} for item in listed}


def single(folder):
    manager = Manager(folder, "single")
    cell = iter(range(1, 100))

    at = next(cell)
    first, second, third = "Canary", "Comparison", "Half"
    three = [stage(first, "sieve", second), stage(second, "sieve", third, kind="A/B", share=50),
             stage(third, "sieve", "rollout", share=50)]
    todo, fetched, middle, waiting, done, failed = whole = crowd(manager, at, 6, "whole")
    manager.submit(release("whole", ["sieve"], three, at))
    todo.offered("whole")
    fetched.take("whole")
    middle.take("whole").through()
    waiting.take("whole").through().report(COMPLETED).report(WAITING)
    done.take("whole").through().report(COMPLETED).through()
    failed.take("whole").report(FAILURE, good=False).drop()
    manager.submit(release("queued", ["sieve"], [stage(first, "sieve", "rollout")], at))

    at = next(cell)
    two = [stage("Alpha", "alpha", "Beta"), stage("Beta", "beta", "rollout")]
    a, b, c, d = steps = crowd(manager, at, 4, "steps")
    manager.submit(release("steps", ["alpha", "beta"], two, at))
    a.take("steps")
    b.take("steps").through().take("steps.2")
    c.take("steps").through().take("steps.2").through().take("steps.rollout")
    d.offered("steps")

    at = next(cell)
    jumps = [stage(first, "jumps", third, "Look"), stage("Look", "jumps", third), stage(third, "jumps", "rollout")]
    a, b = jump = crowd(manager, at, 2, "jump")
    manager.submit(release("jump", ["jumps"], jumps, at))
    a.take("jump").report(FAILURE, good=False).drop().take("jump.2").report(WAITING)
    b.take("jump").through().take("jump.3")

    at = next(cell)
    led_by = "rollout:\n  order: global_incremental\n  approval: before_rollout\n"
    a, b, c = led = crowd(manager, at, 3, "led")
    manager.submit(release("led", ["led"], [stage(first, "led", third), stage(third, "led", "rollout")], at, led_by))
    a.take("led").report(WAITING)
    b.take("led")
    c.offered("led")

    at = next(cell)
    waves = crowd(manager, at, 4, "waves")
    manager.submit(release("waves", ["waves"], [stage(first, "waves", "rollout")], at,
                           "rollout:\n  order: waves\n  waves: [1, 75%, 100%]\n"))
    first_wave = chosen(waves, "waves", 1)[0].take("waves").finish()
    chosen([agent for agent in waves if agent is not first_wave], "waves", 2)[0].take("waves")

    at = next(cell)
    asked = crowd(manager, at, 2, "asked")
    manager.submit(release("asked", ["asked"], [stage(first, "asked", "rollout")], at,
                           "rollout:\n  order: waves\n  waves: [1, 100%]\n  approval: before_each_wave\n"))
    chosen(asked, "asked", 1)[0].take("asked").finish()
    manager.until("asked", "AwaitingApproval")

    at = next(cell)
    in_hand, rolled_out, undo_in_hand, confirmed, untouched = aborted = crowd(manager, at, 5, "aborted")
    manager.submit(release("aborted", ["aborted"], [stage(first, "aborted", third), stage(third, "aborted", "rollout")], at))
    for agent in (rolled_out, undo_in_hand, confirmed):
        agent.take("aborted").through().through()
    in_hand.take("aborted").report(WAITING)
    manager.api("POST", "/api/v1/releases/aborted/abort", {"note": "frozen"})
    undo_in_hand.take("aborted.undo")
    confirmed.take("aborted.undo").wait_for_end().report(COMPLETED)

    at = next(cell)
    rolling = crowd(manager, at, 3, "rolling")
    manager.submit(release("rolling", ["rolling"], [stage(first, "rolling", "rollout")], at,
                           "rollout:\n  order: waves\n  waves: [1, 100%]\n  max_failed: 0\n"))
    first_wave = chosen(rolling, "rolling", 1)[0].take("rolling").finish()
    b, c = chosen([agent for agent in rolling if agent is not first_wave], "rolling", 2)
    b.take("rolling").report(WAITING)
    c.take("rolling").report(FAILURE, good=False).drop()
    manager.until("rolling", "RollingBack")

    at = next(cell)
    a, b = paused = crowd(manager, at, 2, "paused")
    manager.submit(release("paused", ["paused"], [stage(first, "paused", third), stage(third, "paused", "rollout")], at))
    a.take("paused").report(WAITING)
    b.offered("paused")
    manager.api("POST", "/api/v1/releases/paused/pause", {"note": "frozen"})

    at = next(cell)
    a, b = past = crowd(manager, at, 2, "past", {"kind": "agent", "name": "past"})
    manager.submit(release("past", ["past"], [stage(first, "past", "rollout")], at))
    for agent in past:
        agent.take("past").through()
    manager.until("past", "Done")

    everybody = whole + steps + jump + led + waves + asked + aborted + rolling + paused + past
    frozen = {agent.name: agent.frozen() for agent in everybody}
    releases = shown(manager)
    manager.stop()
    keep(manager, frozen, releases)


class Recorder(http.server.BaseHTTPRequestHandler):
    """Passes calls on, and writes them down once they are answered."""

    protocol_version = "HTTP/1.1"
    target = None
    lines = []

    def pass_on(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        host, port = self.target.split(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=70)
        headers = {"Content-Type": self.headers["Content-Type"]} if "Content-Type" in self.headers else {}
        connection.request(self.command, self.path, body or None, headers)
        answer = connection.getresponse()
        data = answer.read()
        kind = answer.getheader("Content-Type") or ""
        connection.close()
        said = data.decode() if data[:2] != b"PK" else "(zip)"
        self.lines.append({"method": self.command, "path": self.path, "body": body.decode(), "status": answer.status,
                           "type": kind, "answer": said})
        try:
            self.send_response(answer.status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
        except OSError:
            pass

    do_GET = do_POST = pass_on

    def log_message(self, *_):
        pass


def proxy(target):
    handler = type("Handler", (Recorder,), {"target": target, "lines": []})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_address[1]}", handler.lines


def registered(root, agents):
    for _ in range(600):
        children = root.api("GET", "/api/v1/children")["items"]
        if any(child.get("agents") == agents for child in children):
            return
        time.sleep(0.05)
    raise SystemExit(f"the manager below never registered: {children}")


def tree(folder):
    root = Manager(folder, "root")
    names = ["plainly", "waves", "global", "undone", "paused", "barrier"]
    below = {name: Manager(folder, name, root.url) for name in names}
    crowds = {name: crowd(below[name], cell + 1, 2, name) for cell, name in enumerate(names)}
    for _ in range(600):
        children = root.api("GET", "/api/v1/children")["items"]
        if [child.get("agents") for child in children] == [2] * len(names):
            break
        time.sleep(0.05)
    led_by = {
        "plainly": "",
        "waves": "rollout:\n  order: waves\n  waves: [1, 100%]\n  approval: before_each_wave\n",
        "global": "rollout:\n  order: global_incremental\n",
        "undone": "rollout:\n  order: waves\n  waves: [1, 100%]\n",
        "paused": "",
        "barrier": "rollout:\n  order: global_incremental\n  approval: before_rollout\n",
    }
    for cell, name in enumerate(names):
        stages = [stage("Canary", name, "Half"), stage("Half", name, "rollout")]
        root.submit(release(name, [name], stages, cell + 1, led_by[name]))

    def take_all(name):
        for agent in crowds[name]:
            agent.take(name).report(WAITING)

    take_all("plainly")
    crowds["plainly"][0].wait_for_end().report(COMPLETED)
    chosen(crowds["waves"], "waves", 1)[0].take("waves").finish()
    root.until("waves", "AwaitingApproval")
    one, two = crowds["global"]
    one.take("global").report(WAITING)
    two.take("global")
    first_wave, other = chosen(crowds["undone"], "undone", 1)
    first_wave.take("undone").finish()
    other.take("undone")
    root.api("POST", "/api/v1/releases/undone/abort", {"note": "frozen"})
    first_wave.take("undone.undo")
    crowds["paused"][0].take("paused").report(WAITING)
    root.api("POST", "/api/v1/releases/paused/pause", {"note": "frozen"})
    below["paused"].until("paused", "Paused")
    take_all("barrier")
    for agent in crowds["barrier"]:
        agent.wait_for_end().report(COMPLETED)
        if agent.offer is None:
            agent.take("barrier.2")
        agent.report(WAITING)
    root.until("barrier", "AwaitingApproval")

    frozen = {name: {agent.name: agent.frozen() for agent in crowd} for name, crowd in crowds.items()}
    released = {name: shown(manager) for name, manager in below.items()}
    above = shown(root)
    for manager in [*below.values(), root]:
        manager.stop()
    for name, manager in below.items():
        keep(manager, frozen[name], released[name])
    keep(root, {}, above)


def wire(folder):
    root = Manager(folder, "wire-root")
    url, lines = proxy(root.address)
    middle = Manager(folder, "wire-middle", url)
    agents = crowd(middle, 1, 2, "wire")
    registered(root, 2)
    both = [stage("Canary", "sieve", "Half"), stage("Half", "sieve", "rollout")]

    root.submit(release("waves", ["sieve"], both, 1,
                        "rollout:\n  order: waves\n  waves: [1, 100%]\n  approval: before_each_wave\n"))
    first_wave, other = chosen(agents, "waves", 1)
    first_wave.take("waves").finish()
    root.until("waves", "AwaitingApproval")
    root.api("POST", "/api/v1/releases/waves/approve")
    other.take("waves").finish()
    root.until("waves", "Done")

    root.submit(release("global", ["sieve"], both, 1, "rollout:\n  order: global_incremental\n"))
    for agent in agents:
        agent.take("global").report(WAITING)
    for agent in agents:
        agent.wait_for_end().report(COMPLETED)
        if agent.offer is None:
            agent.take("global.2")
        agent.report(WAITING)
    for agent in agents:
        agent.wait_for_end().report(COMPLETED)
    for agent in agents:
        agent.finish()
    root.until("global", "Done")

    root.submit(release("undone", ["sieve"], both, 1, "rollout:\n  order: waves\n  waves: [1, 100%]\n"))
    a, b = chosen(agents, "undone", 1)
    a.take("undone").report(WAITING)
    root.api("POST", "/api/v1/releases/undone/pause", {"note": "looking"})
    middle.until("undone", "Paused")
    root.api("POST", "/api/v1/releases/undone/resume")
    middle.until("undone", "Running")
    a.wait_for_end().report(COMPLETED).finish()
    b.take("undone").report(WAITING)
    root.api("POST", "/api/v1/releases/undone/abort", {"note": "no good"})
    a.take("undone.undo").wait_for_end().report(COMPLETED)
    b.wait_for_end().drop()
    for _ in range(100):
        offer = b.poll()
        if offer:
            b.take(offer).wait_for_end().report(COMPLETED)
        if root.state("undone") == "Aborted":
            break
        time.sleep(0.05)
    root.until("undone", "Aborted", "RolledBack")
    time.sleep(0.5)
    middle.stop()
    root.stop()
    with open(os.path.join(OUT, "wire.jsonl"), "w") as file:
        for line in lines:
            file.write(json.dumps(line, sort_keys=True) + "\n")


def digests(folder):
    more = ["analysis.providers=" + path] if os.path.exists(path := os.path.join(SAMPLES, "providers.yml")) else []
    manager = Manager(folder, "samples", more=more)
    found = {}
    for name in sorted(os.listdir(os.path.join(SAMPLES, "releases"))):
        text = open(os.path.join(SAMPLES, "releases", name)).read()
        status, answer = manager.call("POST", "/release", text, "application/yaml")
        found[name] = {"accepted": status < 300}
        if status < 300:
            found[name]["id"] = json.loads(answer)["id"]
    manager.stop()
    with sqlite3.connect(manager.db) as connection:
        rows = {row[0]: row[1:] for row in connection.execute("SELECT id, hex(digest), hex(archive) FROM releases")}
    for sample in found.values():
        if sample["accepted"]:
            sample["digest"], sample["archive"] = (part.lower() for part in rows[sample["id"]])
    with open(os.path.join(OUT, "digests.json"), "w") as file:
        json.dump(found, file, indent=1, sort_keys=True)
        file.write("\n")


def keys(_):
    """The keys that it reads in a strategy. It refuses others, so no later build may send them down to it."""
    out = subprocess.run([PROGRAM, "schema"], check=True, capture_output=True, text=True).stdout
    found = {"from_above", "continues", "undoes"}

    def walk(value):
        if isinstance(value, dict):
            found.update(value.get("properties") or {})
        for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            walk(inner)

    walk(json.loads(out))
    with open(os.path.join(OUT, "keys.json"), "w") as file:
        json.dump(sorted(found), file, indent=1)
        file.write("\n")


os.makedirs(OUT, exist_ok=True)
parts = [part for part in (single, tree, wire, digests, keys) if len(sys.argv) < 4 or part.__name__ in sys.argv[3:]]
for record in parts:
    with tempfile.TemporaryDirectory() as folder:
        record(folder)
        print(record.__name__)
