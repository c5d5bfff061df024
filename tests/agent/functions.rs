//! Functions that behave as functions do.

use std::{fs, path::Path};

/// What a function does. Each runtime of the conformance suite has it in a form that it runs.
#[derive(Debug, Clone, Copy)]
pub enum Behaviour {
    /// GET: `Hello, world!`. POST: greets whom the body names, but for the words below.
    ///
    /// - `pid`: the number of its process
    /// - `die`: ends with status 3
    /// - `grow`: takes memory until there is none
    /// - `fill`: writes files until there is no room
    /// - `fork`: leaves a process that has a session of its own
    /// - `say` and something: writes it to its log
    /// - `fail`: an error, `as it was asked to`
    Obeys,
    /// Answers, and pays no heed to SIGTERM.
    IgnoresTerm,
    /// Answers, and writes as much as it can.
    Floods,
    /// Says `no such setting` and ends with status 3.
    DiesAtOnce,
    /// Says `thinking` and never answers.
    NeverHealthy,
    /// Takes calls somewhere else than it should.
    ListensElsewhere,
}

const OBEYS: &str = r#"
import os, subprocess, sys

def fn(given, headers):
    if given == "pid":
        return str(os.getpid())
    if given == "die":
        os._exit(3)
    if given == "grow":
        parts = []
        while True:
            parts.append(b"x" * (1 << 20))
    if given == "fill":
        n = 0
        while True:
            n += 1
            with open(f"part-{n}", "wb") as file:
                file.write(b"x" * (1 << 20))
    if given == "fork":
        child = subprocess.Popen(["sh", "-c", "trap '' TERM; setsid sleep 600 & wait"], start_new_session=True)
        return str(child.pid)
    if given and given.startswith("say "):
        print(given[4:], flush=True)
    if given == "fail":
        raise ValueError("as it was asked to")
    return f"Hello, {given or 'world'}!"
"#;

const FLOODS: &str = r#"
import os, threading

def flood():
    line = b"x" * 4095 + b"\n"
    while True:
        os.write(1, line)

threading.Thread(target=flood, daemon=True).start()

def fn(given, headers):
    return "Hello!"
"#;

const IGNORES_TERM: &str = r#"#!/usr/bin/env python3
import http.server, os, signal

signal.signal(signal.SIGTERM, signal.SIG_IGN)

class Call(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"Hello!")

http.server.HTTPServer((os.environ["HOST"], int(os.environ["PORT"])), Call).serve_forever()
"#;

const LISTENS_ELSEWHERE: &str = r#"#!/usr/bin/env python3
import http.server, os

http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler).serve_forever()
"#;

/// Writes a function for the runtime `process`.
pub fn write(behaviour: Behaviour, folder: &Path) {
    let (file, text) = match behaviour {
        Behaviour::Obeys => ("fn.py", OBEYS),
        Behaviour::Floods => ("fn.py", FLOODS),
        Behaviour::IgnoresTerm => ("run", IGNORES_TERM),
        Behaviour::DiesAtOnce => ("run", "#!/bin/sh\necho 'no such setting' >&2\nexit 3\n"),
        Behaviour::NeverHealthy => ("run", "#!/bin/sh\necho thinking\nexec sleep 600\n"),
        Behaviour::ListensElsewhere => ("run", LISTENS_ELSEWHERE),
    };
    fs::create_dir_all(folder).unwrap();
    fs::write(folder.join(file), text).unwrap();
}

const IGNORES_TERM_FN: &str = r#"
import signal

signal.signal(signal.SIGTERM, signal.SIG_IGN)

def fn(given, headers):
    return "Hello!"
"#;

/// Writes a function for the runtime `tinyfaas`.
pub fn write_for_tinyfaas(behaviour: Behaviour, folder: &Path) {
    let text = match behaviour {
        Behaviour::Obeys => OBEYS,
        Behaviour::Floods => FLOODS,
        Behaviour::IgnoresTerm => IGNORES_TERM_FN,
        Behaviour::DiesAtOnce => "import os\nprint('no such setting', flush=True)\nos._exit(3)\n",
        Behaviour::NeverHealthy => "import time\nprint('thinking', flush=True)\ntime.sleep(600)\n",
        Behaviour::ListensElsewhere => panic!("functions of tinyFaaS listen nowhere"),
    };
    fs::write(folder.join("fn.py"), text).unwrap();
}

const SERVES: &str = r#"#!/usr/bin/env python3
import http.server, os, signal, sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import fn

signal.signal(signal.SIGTERM, lambda *_: os._exit(0))

class Call(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        try:
            given = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode() or None
            status, said = 200, fn.fn(given, self.headers)
        except Exception as error:
            status, said = 500, str(error)
        self.send_response(status)
        self.end_headers()
        self.wfile.write(said.encode())

    do_POST = do_GET

    def log_message(self, *_):
        pass

http.server.ThreadingHTTPServer((os.environ["HOST"], int(os.environ["PORT"])), Call).serve_forever()
"#;

/// Writes a function as a program that listens on `$PORT`.
pub fn write_program(behaviour: Behaviour, folder: &Path) {
    let text = match behaviour {
        Behaviour::Obeys => OBEYS,
        Behaviour::Floods => FLOODS,
        Behaviour::IgnoresTerm
        | Behaviour::DiesAtOnce
        | Behaviour::NeverHealthy
        | Behaviour::ListensElsewhere => return write(behaviour, folder),
    };
    fs::create_dir_all(folder).unwrap();
    fs::write(folder.join("fn.py"), text).unwrap();
    fs::write(folder.join("run"), SERVES).unwrap();
}
