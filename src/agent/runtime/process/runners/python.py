"""Serves a function of the form `def fn(input, headers)` in fn.py on a unix socket. The input is the body as text, or None."""

import http.server
import inspect
import os
import signal
import socketserver
import sys
import threading
import traceback

BODY = 64 * 1024 * 1024  # bytes of a call; above: 413

os.umask(0o077)
sys.path.insert(0, os.getcwd())

import fn as module  # noqa: E402


def how_many():
    """Older functions take the input alone."""
    try:
        inspect.signature(module.fn).bind(None, {})
    except TypeError:
        return 1
    except ValueError:
        pass
    return 2


GIVEN = how_many()


class TooLong(Exception):
    pass


class Call(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Head and body of an answer go out together.
    wbufsize = -1

    def chunks(self):
        while True:
            size = int(self.rfile.readline(1024).split(b";")[0], 16)
            if size == 0:
                while self.rfile.readline(65536).strip():
                    pass
                return
            yield self.rfile.read(size)
            self.rfile.readline(1024)

    def body(self):
        if "chunked" in self.headers.get("Transfer-Encoding", "").lower():
            parts, length = [], 0
            for part in self.chunks():
                length += len(part)
                if length > BODY:
                    raise TooLong
                parts.append(part)
            return b"".join(parts)
        length = int(self.headers.get("Content-Length") or 0)
        if length > BODY:
            raise TooLong
        return self.rfile.read(length)

    def answer(self, status, body):
        self.send_response(status)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        if ending.is_set() or self.close_connection:
            self.send_header("Connection", "close")
            self.close_connection = True
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
        self.wfile.flush()

    def call(self):
        try:
            given = self.body().decode("utf-8", "surrogateescape") or None
        except TooLong:
            self.close_connection = True
            return self.answer(413, f"a call has at most {BODY} bytes\n".encode())
        except ValueError:
            self.close_connection = True
            return self.answer(400, b"the call's body has no length that can be read\n")
        try:
            result = module.fn(given, self.headers) if GIVEN == 2 else module.fn(given)
            if result is None:
                result = b""
            elif not isinstance(result, (bytes, bytearray)):
                result = str(result).encode("utf-8", "surrogateescape")
        except Exception as error:
            traceback.print_exc()
            return self.answer(500, f"{error}\n".encode("utf-8", "replace"))
        return self.answer(200, bytes(result))

    def handle_one_request(self):
        # A call runs from its first byte to the end of its answer.
        self.rfile.peek(1)
        with running:
            count[0] += 1
        try:
            super().handle_one_request()
        finally:
            with running:
                count[0] -= 1
                running.notify_all()

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_OPTIONS = call

    def log_message(self, *_):
        pass

    def address_string(self):
        return "socket"


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    request_queue_size = 1024

    def handle_error(self, request, client_address):
        # Callers that go away are no fault of the function.
        if not isinstance(sys.exc_info()[1], (ConnectionError, BrokenPipeError)):
            traceback.print_exc()


ending = threading.Event()
running = threading.Condition()
count = [0]
server = Server(os.environ["CHOIRMASTER_SOCKET"], Call)
signal.signal(signal.SIGTERM, lambda *_: ending.set())
threading.Thread(target=server.serve_forever, daemon=True).start()
ending.wait()
server.shutdown()
with running:
    running.wait_for(lambda: count[0] == 0)
os._exit(0)
