"""What schemathesis cannot know: names of things that exist, and that a test must not wait for days."""

import json
import os
import urllib.request

import schemathesis

NAMESPACE = os.environ["LEASEHOLD_BASE"] + "/v1/ns/default"


def call(method, path, body):
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(NAMESPACE + path, json.dumps(body).encode(), headers, method=method)
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.loads(answer.read())


LEASE = call("POST", "/leases", {"holder": "ann", "ttl": "1h", "resource": "orders/7", "reason": "backfill"})
call("PUT", "/entries/config/app", {"value": "text", "lease": LEASE["id"]})

# Taken by turns with the generated values, so that answers about things that exist are seen as well.
KNOWN = {"ns": "default", "id": LEASE["id"], "name": "orders/7", "resource": "orders/7", "key": "config/app"}
COUNT = {"requests": 0}


@schemathesis.hook
def map_path_parameters(context, path_parameters):
    COUNT["requests"] += 1
    if not path_parameters or COUNT["requests"] % 2:
        return path_parameters
    return {name: KNOWN.get(name, value) for name, value in path_parameters.items()}


@schemathesis.hook
def map_query(context, query):
    if isinstance(query, dict) and "wait" in query:
        return dict(query, wait="20ms" if query["wait"] else query["wait"])
    return query
