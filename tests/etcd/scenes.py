"""Scenes that a client plays with a server; their answers are written down, one JSON object per line.

A correct server gives the same lines every time: a scene answers with values, texts, codes and relations ("rose",
"the same"), never with a raw revision, lease id, time or member id. Each scene uses keys below its own prefix and a
client of its own. Most scenes play one after the other; those that wait for time to pass play together; those that
change the store for everybody, by compaction, play last. A scene that breaks ends the run with an error.
"""

import json
import os
import sys
import threading
import time
import traceback

PATIENCE = 30  # seconds, for anything to happen on a busy machine

_scenes = []


def scene(name, waits=False, last=False):
    """Marks a function as a scene: it gets a client and returns its answer."""

    def mark(function):
        _scenes.append((name, function, waits, last))
        return function

    return mark


def play(connect, close=lambda client: client.close()):
    """Plays all scenes with clients from `connect(endpoint)` and prints their answers in the order of this file."""
    endpoint = sys.argv[1]
    answers = {}
    broken = []

    def one(name, function):
        try:
            client = connect(endpoint)
            try:
                answers[name] = function(client)
            finally:
                close(client)
        except BaseException:  # also a failed assertion in a thread
            broken.append(f"--- the scene `{name}` broke:\n{traceback.format_exc()}")

    def group(waits, last):
        return [(name, function) for name, function, w, l in _scenes if (w, l) == (waits, last)]

    for name, function in group(False, False):
        one(name, function)
    threads = [threading.Thread(target=one, args=pair, daemon=True) for pair in group(True, False)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(4 * PATIENCE)
        if thread.is_alive():
            broken.append("--- a scene takes too long\n")
    for name, function in group(False, True):
        one(name, function)

    for name, *_ in _scenes:
        if name in answers:
            print(json.dumps({"scene": name, "answer": plain(answers[name])}), flush=True)
    sys.stderr.write("".join(broken))
    sys.stderr.flush()
    # Clients may have threads that never end.
    os._exit(1 if broken else 0)


def plain(value):
    """Bytes as text, tuples as lists, all the way down."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, dict):
        return {plain(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(inner) for inner in value]
    return value


def until(what, look):
    """Waits until `look()` gives something true, and returns it."""
    asked = time.monotonic()
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() - asked > PATIENCE:
            raise AssertionError(f"{what} takes too long")
        time.sleep(0.02)


def go_on_after(stage):
    """Says that a stage is reached and waits to be told to go on."""
    print(json.dumps({"reached": stage}), flush=True)
    assert sys.stdin.readline(), "nobody said to go on"


def host_and_port(endpoint):
    host, port = endpoint.split("://")[-1].rsplit(":", 1)
    return host, int(port)
