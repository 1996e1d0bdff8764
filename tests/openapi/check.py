"""Holds a running server against its own /openapi.json.

    python check.py http://127.0.0.1:PORT

1. The document is valid OpenAPI.
2. The messages of a watch match their schemas.
3. Requests that schemathesis generates from the document get answers that the document declares.

Prints what failed, then `N passed, N failed`; ends with 1 if anything failed.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
import xml.etree.ElementTree as ElementTree

import jsonschema
import openapi_spec_validator

SEED = "20261103"
EXAMPLES = "12"
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
HERE = os.path.dirname(os.path.abspath(__file__))


def call(method, address, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(address, data, {"content-type": "application/json"}, method=method)
    with urllib.request.urlopen(request, timeout=10) as answer:
        text = answer.read()
        return json.loads(text) if text else None


def valid(document):
    openapi_spec_validator.validate(document)


def watch_messages(base, document):
    """Opens a watch, makes something of every kind happen, and checks each message until one of `progress` came."""
    namespace = base + "/v1/ns/watched"
    schema = dict(document["components"]["schemas"]["WatchMessage"], components=document["components"])
    validator = jsonschema.Draft202012Validator(schema)
    stream = urllib.request.urlopen(namespace + "/watch?prefix=seen&since=0", timeout=30)
    worker = threading.Thread(target=happenings, args=(namespace,))
    worker.start()
    kinds = set()
    message = {}
    deadline = time.monotonic() + 30
    while "progress" not in kinds and time.monotonic() < deadline:
        line = stream.readline().decode().rstrip("\n")
        if line:
            field, _, value = line.partition(": ")
            message[field] = value
            continue
        if "event" in message:
            message["data"] = json.loads(message["data"])
            validator.validate({name: message[name] for name in ("id", "event", "data")})
            kinds.add(message["event"])
            kinds.update(event["type"] for event in message["data"].get("events", []))
        message = {}
    stream.close()
    worker.join()
    wanted = {"change", "progress", "claim_granted", "claim_ended", "handover_asked", "entry_put", "entry_deleted"}
    assert wanted <= kinds, f"the watch sent {sorted(kinds)}, and not {sorted(wanted - kinds)}"


def happenings(namespace):
    lease = call("POST", namespace + "/leases", {"holder": "ann", "ttl": "20s", "resource": "seen/r"})
    call("POST", namespace + "/resources/seen/r/handover", {"by": "bob", "reason": "deploy"})
    call("PUT", namespace + "/entries/seen/k", {"value": "1", "lease": lease["id"]})
    call("DELETE", namespace + "/leases/" + lease["id"])
    # Nothing of this concerns the watch: `progress` tells that it went by.
    call("PUT", namespace + "/entries/other", {"value": "1"})


def generated_requests(base):
    """Runs schemathesis; returns how many of its test cases passed, and what it says about the others."""
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report.xml")
        command = [
            sys.executable, "-m", "schemathesis.cli", "run", base + "/openapi.json",
            "--phases=examples,coverage,fuzzing", "--seed", SEED, "--max-examples", EXAMPLES, "--checks", CHECKS,
            "--request-timeout", "10", "--workers", "1", "--generation-database", "none", "--no-color", "--warnings",
            "off", "--continue-on-failure", "--suppress-health-check", "all", "--report", "junit",
            "--report-junit-path", report,
            # A watch is a stream without end; `watch_messages` looks at it.
            "--exclude-operation-id", "watch_events",
        ]
        environment = dict(os.environ, SCHEMATHESIS_HOOKS="hooks", PYTHONPATH=HERE, LEASEHOLD_BASE=base)
        ended = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, timeout=150)
        if not os.path.exists(report):
            return 0, [ended.stdout + ended.stderr]
        cases = list(ElementTree.parse(report).getroot().iter("testcase"))
    bad = [case for case in cases if case.find("failure") is not None or case.find("error") is not None]
    print("\n".join(ended.stdout.splitlines()[-25:]))
    failures = [f"{case.get('name')}: schemathesis found a difference" for case in bad]
    if ended.returncode != 0:
        failures = failures or ["schemathesis failed"]
        failures[0] = ended.stdout + ended.stderr + "\n" + failures[0]
    return len(cases) - len(bad), failures


def main(base):
    document = call("GET", base + "/openapi.json")
    passed, failed = 0, []
    for name, check in [
        ("the document is valid OpenAPI", lambda: valid(document)),
        ("messages of a watch match their schemas", lambda: watch_messages(base, document)),
    ]:
        try:
            check()
            passed += 1
        except Exception as error:  # Whatever it is, the other checks are worth knowing, too.
            failed.append(f"{name}: {error}")
    good, bad = generated_requests(base)
    passed, failed = passed + good, failed + bad
    for failure in failed:
        print(f"FAILED {failure}")
    print(f"{passed} passed, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
