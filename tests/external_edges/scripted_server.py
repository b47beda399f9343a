"""A language server for tests: it answers from a table, or misbehaves as its first argument says.

The table is in `answers.json` in its folder: method -> rows of [path, line, start, stop]. What it was asked is appended to
`asked.jsonl`. It is started as a program of its own, in place of a real server.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent


def read_message() -> dict:
    size = 0
    while line := sys.stdin.buffer.readline().strip():
        name, _, value = line.partition(b":")
        size = int(value) if name.lower() == b"content-length" else size
    if not size:
        sys.exit(0)
    return json.loads(sys.stdin.buffer.read(size))


def send(message: object) -> None:
    body = json.dumps(message).encode()
    sys.stdout.buffer.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
    sys.stdout.buffer.flush()


def misbehave(how: str) -> None:
    """Do what a broken server does in place of an answer; return if it answers after all."""
    if how == "hang":
        time.sleep(600)
    elif how == "garbage":
        sys.stdout.buffer.write(b"Segmentation fault\n" * 2_000)
        sys.stdout.buffer.flush()
        time.sleep(600)
    elif how == "no-json":
        sys.stdout.buffer.write(b"Content-Length: 9\r\n\r\n{'a': 1} ")
        sys.stdout.buffer.flush()
        time.sleep(600)
    elif how == "huge":
        sys.stdout.buffer.write(b"Content-Length: 99999999999\r\n\r\n")
        sys.stdout.buffer.flush()
        time.sleep(600)
    elif how == "crash":
        os._exit(1)
    elif how == "flood":
        while True:
            send({"jsonrpc": "2.0", "method": "window/logMessage", "params": {"message": "x" * 1_000_000}})
    elif how == "memory":
        kept = [bytearray(os.urandom(1_000_000)) for _ in range(300)]
        time.sleep(600)
        del kept
    elif how == "chatty":
        for number in range(50):
            work = {"kind": ("begin", "report", "end")[number % 3]}
            send({"jsonrpc": "2.0", "method": "$/progress", "params": {"token": number // 3, "value": work}})
            send({"jsonrpc": "2.0", "id": f"s{number}", "method": "workspace/configuration", "params": {"items": [{}]}})


def publish(message: dict, how: str) -> None:
    """Publish an error for each line with BAD, in two parts, as a compiler does after an open or a change."""
    document = message["params"]["textDocument"]
    text = document.get("text") or message["params"]["contentChanges"][0]["text"]
    spans = [{"start": {"line": number}} for number, line in enumerate(text.split("\n")) if "BAD" in line]
    rows = [{"range": span, "severity": 1, "message": "BAD is\nnot defined"} for span in spans]
    rows += [{"range": span, "severity": 2, "message": "a warning"} for span in spans]
    found = {"uri": document["uri"], "version": document["version"], "diagnostics": rows}
    if how == "odd-problems":
        for odd in (
            None,
            [],
            {"uri": 1},
            {"uri": document["uri"], "diagnostics": [None, {"severity": 1, "message": 2}]},
        ):
            send({"jsonrpc": "2.0", "method": "textDocument/publishDiagnostics", "params": odd})
        found["diagnostics"] = [*rows, {"severity": 1, "message": "no range"}, {"range": 3, "message": "x"}]
        elsewhere = found | {"uri": "file:///etc/passwd"}
        send({"jsonrpc": "2.0", "method": "textDocument/publishDiagnostics", "params": elsewhere})
    if how != "silent":
        for part in (found | {"diagnostics": []}, found):
            send({"jsonrpc": "2.0", "method": "textDocument/publishDiagnostics", "params": part})


def main() -> None:
    how = (HERE / "how.txt").read_text().strip()
    rows = json.loads((HERE / "answers.json").read_text())
    root = ""
    while True:
        message = read_message()
        method, number = message.get("method"), message.get("id")
        with (HERE / "asked.jsonl").open("a") as log:
            log.write(json.dumps({"method": method, "environment": sorted(os.environ)}) + "\n")
        if method == "initialize":
            root = message["params"]["rootUri"]
            if how == "never-starts":
                time.sleep(600)
            send({"jsonrpc": "2.0", "id": number, "result": {"capabilities": {"positionEncoding": "utf-16"}}})
            send({"jsonrpc": "2.0", "method": "window/logMessage", "params": {"message": "Found 2 source files"}})
        elif method in ("textDocument/didOpen", "textDocument/didChange"):
            publish(message, how)
        elif method is not None and number is not None:
            misbehave(how)
            if how == "odd":
                send(
                    {
                        "jsonrpc": "2.0",
                        "id": number,
                        "result": [None, 3, {"uri": 1}, {"uri": root, "range": {"start": 1}}],
                    }
                )
                continue
            found = [
                {
                    "uri": path if ":" in path else f"{root}/{path}",
                    "range": {"start": {"line": line, "character": start}, "end": {"line": line, "character": stop}},
                }
                for path, line, start, stop in rows.get(method, [])
            ]
            send({"jsonrpc": "2.0", "id": number, "result": found})


if __name__ == "__main__":
    main()
