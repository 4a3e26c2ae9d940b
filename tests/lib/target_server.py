#!/usr/bin/env python3
"""A server of a list of targets, for tests of the source http://: GET /api/v1/scenes?limit=N&after=ID answers as a Tenure
server would, a page at a time, with `Link: <...>; rel="next"` and an ETag.

    target_server.py --directory DIR --port-file FILE [--tls CERTIFICATE KEY]

DIR/list is the list, a JSON object a line, read anew for each request. DIR/mode, if it is there, says what goes wrong:

    status N      that status, and nothing else
    text TEXT     200 with this text as the body
    page N        the Nth page, from 1 on, is an error 500
    huge          a body without an end
    slow          the head, and then nothing
    cut           a body that is shorter than announced
    link TEXT     this header Link on each page, and no ETag
    token TEXT    401 for whoever has not this bearer token

Each request is a JSON line on standard output: path, status, and the headers that matter. It ends with its parent.
"""
import argparse
import ctypes
import hashlib
import http.server
import json
import os
import signal
import ssl
import sys
import threading
import time
import urllib.parse

LOCK = threading.Lock()
FOREVER_S = 30


def id_of(entry):
    return entry.get("id", entry.get("scene_id"))


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def mode(self):
        try:
            with open(os.path.join(self.server.directory, "mode"), encoding="utf-8") as file:
                word, _, rest = file.read().strip().partition(" ")
                return word, rest
        except FileNotFoundError:
            return "", ""

    def entries(self):
        with open(os.path.join(self.server.directory, "list"), encoding="utf-8") as file:
            return [json.loads(line) for line in file if line.strip()]

    def answer(self, status, body=b"", headers=(), size=None):
        with LOCK:
            print(json.dumps({"path": self.path, "status": status, "etag": self.headers.get("If-None-Match"),
                              "token": self.headers.get("Authorization")}), flush=True)
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) if size is None else size))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        word, rest = self.mode()
        url = urllib.parse.urlsplit(self.path)
        if word == "status":
            self.answer(int(rest))
        elif word == "text":
            self.answer(200, rest.encode())
        elif word == "token" and self.headers.get("Authorization") != f"Bearer {rest}":
            self.answer(401)
        elif word == "huge":
            self.answer(200, b"[" + b" " * 1000000, size=10 ** 12)
            while True:
                self.wfile.write(b" " * 1000000)
        elif word == "slow":
            self.answer(200, size=10)
            time.sleep(FOREVER_S)
        elif word == "cut":
            self.answer(200, b"[]", size=100)
            self.close_connection = True
        elif url.path == "/scenes":
            self.answer(308, headers=[("Location", "/api/v1" + self.path)])
        elif url.path == "/api/v1/scenes":
            self.page(url, word, rest)
        else:
            self.answer(404)

    def page(self, url, word, rest):
        query = dict(urllib.parse.parse_qsl(url.query))
        limit = int(query["limit"])
        everything = self.entries()
        first = 0
        if "after" in query:
            first = [id_of(entry) for entry in everything].index(query["after"]) + 1
        part = everything[first:first + limit]
        if word == "page" and first // limit + 1 == int(rest):
            self.answer(500)
            return
        body = json.dumps(part).encode()
        etag = '"' + hashlib.sha256(json.dumps(everything).encode()).hexdigest()[:16] + '"'
        headers = [] if word == "link" else [("ETag", etag)]
        if word == "link":
            headers.append(("Link", rest))
        elif first + limit < len(everything):
            after = urllib.parse.quote(id_of(part[-1]), safe="")
            headers.append(("Link", f'</api/v1/scenes?after={after}>; rel="prev", <?limit={limit}&after={after}>; rel="next"'))
        if self.headers.get("If-None-Match") == etag and word != "link":
            self.answer(304, headers=headers)
        else:
            self.answer(200, body, headers)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request, client_address):
        pass  # a client that has gone


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--directory", required=True)
    parser.add_argument("--port-file", required=True)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--tls", nargs=2)
    options = parser.parse_args()
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    server = Server(("127.0.0.1", options.port), Handler)
    server.directory = options.directory
    if options.tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*options.tls)
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    with open(options.port_file + ".new", "w", encoding="utf-8") as file:
        file.write(str(server.server_address[1]))
    os.rename(options.port_file + ".new", options.port_file)
    server.serve_forever()


if __name__ == "__main__":
    sys.exit(main())
