"""What tinyFaaS has in a container of a function: it calls it at POST, and says at GET /health that it is there."""

import http.server
import os
import socketserver
import subprocess
import sys

ENV, PLACE = sys.argv[1:]
sys.path.insert(0, os.getcwd())
if ENV == "python3":
    import fn


def call(given, headers):
    if ENV == "python3":
        return fn.fn(given or None, headers)
    done = subprocess.run(["./fn.sh"], input=given.encode(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        raise RuntimeError(f"exit status {done.returncode}")
    return done.stdout.decode()


class Call(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_GET(self):
        self.send_response(200 if self.path == "/health" else 404)
        self.end_headers()

    def do_POST(self):
        given = self.rfile.read(int(self.headers["Content-Length"])).decode()
        try:
            status, said = 200, call(given, dict(self.headers))
        except Exception as error:
            print(error, flush=True)
            status, said = 500, str(error)
        self.send_response(status)
        self.end_headers()
        self.wfile.write((said or "").encode())


with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Call) as served:
    with open(PLACE + ".new", "w") as file:
        file.write(str(served.server_address[1]))
    os.rename(PLACE + ".new", PLACE)
    served.serve_forever()
