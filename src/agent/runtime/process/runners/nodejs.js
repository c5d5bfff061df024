// Serves a function of the form `module.exports = (req, res) => …` on a unix socket. `req` and `res` are those of node with what
// functions use of express; a body comes as text.
"use strict";
const http = require("http");

const BODY = 64 * 1024 * 1024; // bytes of a call; above: 413
process.umask(0o077);
const loaded = require(process.cwd());
const handler = typeof loaded === "function" ? loaded : loaded.default || loaded.handler;
if (typeof handler !== "function") {
  console.error("module.exports is no function: write module.exports = (req, res) => { res.send(\"…\"); };");
  process.exit(1);
}

let ending = false;

function prepare(req) {
  const at = req.url.indexOf("?");
  req.originalUrl = req.url;
  req.path = at < 0 ? req.url : req.url.slice(0, at);
  req.query = {};
  for (const [name, value] of new URLSearchParams(at < 0 ? "" : req.url.slice(at + 1))) {
    if (!Object.hasOwn(req.query, name)) {
      Object.defineProperty(req.query, name, { value, enumerable: true, writable: true, configurable: true });
    } else if (Array.isArray(req.query[name])) req.query[name].push(value);
    else req.query[name] = [req.query[name], value];
  }
  req.params = {};
  req.get = req.header = (name) => req.headers[String(name).toLowerCase()];
}

class Answer extends http.ServerResponse {
  status(code) {
    this.statusCode = code;
    return this;
  }

  sendStatus(code) {
    return this.status(code).type("text/plain").send(http.STATUS_CODES[code] || String(code));
  }

  set(name, value) {
    if (typeof name === "object") for (const key of Object.keys(name)) this.setHeader(key, name[key]);
    else this.setHeader(name, value);
    return this;
  }

  header(name, value) {
    return this.set(name, value);
  }

  get(name) {
    return this.getHeader(name);
  }

  append(name, value) {
    this.appendHeader(name, value);
    return this;
  }

  type(type) {
    const known = { json: "application/json", html: "text/html", text: "text/plain", txt: "text/plain" };
    const whole = type.includes("/") ? type : known[type] || "application/octet-stream";
    const isText = whole.startsWith("text/") || whole === "application/json";
    return this.set("Content-Type", isText && !whole.includes("charset") ? `${whole}; charset=utf-8` : whole);
  }

  redirect(status, url) {
    if (url === undefined) [status, url] = [302, status];
    return this.status(status).set("Location", url).type("text").send(`Redirecting to ${url}`);
  }

  json(value) {
    if (!this.hasHeader("Content-Type")) this.type("json");
    return this.send(JSON.stringify(value) ?? "");
  }

  send(body) {
    let bytes;
    if (Buffer.isBuffer(body) || body instanceof Uint8Array) {
      if (!this.hasHeader("Content-Type")) this.type("application/octet-stream");
      bytes = body;
    } else if (typeof body === "string") {
      if (!this.hasHeader("Content-Type")) this.type("html");
      bytes = Buffer.from(body);
    } else if (body === undefined || body === null) bytes = Buffer.alloc(0);
    else return this.json(body);
    if (!this.headersSent && ![204, 304].includes(this.statusCode)) this.setHeader("Content-Length", bytes.length);
    this.end(bytes);
    return this;
  }
}

function fail(res, error) {
  console.error(error);
  if (res.headersSent) return res.destroy();
  for (const name of res.getHeaderNames()) res.removeHeader(name);
  res.status(500).type("text").send(`${(error && error.message) || error}\n`);
}

function call(req, res) {
  if (ending) res.setHeader("Connection", "close");
  const parts = [];
  let length = 0;
  req.on("data", (part) => {
    length += part.length;
    if (length <= BODY) parts.push(part);
    else if (!res.headersSent) res.status(413).set("Connection", "close").send(`a call has at most ${BODY} bytes\n`);
  });
  req.on("end", () => {
    if (length > BODY) return;
    try {
      prepare(req);
      req.body = Buffer.concat(parts).toString();
      Promise.resolve(handler(req, res)).catch((error) => fail(res, error));
    } catch (error) {
      fail(res, error);
    }
  });
  req.on("error", () => {});
}

// Connections are the proxy's to close.
const server = http.createServer({ ServerResponse: Answer, keepAliveTimeout: 0, requestTimeout: 0, headersTimeout: 0 }, call);
server.on("error", (error) => {
  console.error(error);
  process.exit(1);
});
server.listen({ path: process.env.CHOIRMASTER_SOCKET, backlog: 1024 });
process.on("SIGTERM", () => {
  ending = true;
  server.close(() => process.exit(0));
  server.closeIdleConnections();
});
