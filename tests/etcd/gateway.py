"""The JSON gateway as curl and scripts use it, with nothing but Python's own HTTP client: shapes of answers, old paths,
streams, and refusals with their bodies. Here are Lock and Election for those without gRPC."""

import base64
import http.client
import json
import threading

from scenes import PATIENCE, host_and_port, play, scene, until

LONG = 60
SHORT = 2  # seconds; the least that etcd grants


def b64(text):
    return base64.b64encode(text.encode()).decode()


def plain_text(text):
    return base64.b64decode(text).decode()


def end_of(prefix):
    return b64(prefix[:-1] + chr(ord(prefix[-1]) + 1))


class Gateway:
    def __init__(self, endpoint):
        self.address = host_and_port(endpoint)

    def ask(self, method, path, body=None, raw=None):
        """The status and the body of an answer."""
        connection = http.client.HTTPConnection(*self.address, timeout=PATIENCE)
        data = raw if raw is not None else (None if body is None else json.dumps(body))
        connection.request(method, path, data, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        try:
            return answer.status, json.loads(text)
        except ValueError:
            return answer.status, text

    def __call__(self, path, body=None, prefix="/v3"):
        """The body of a good answer."""
        status, answer = self.ask("POST", f"{prefix}/{path}", body or {})
        assert status == 200, (status, answer)
        return answer

    def stream(self, path, body):
        return Stream(self.address, path, body)

    def put(self, key, value="", **more):
        return self("kv/put", {"key": b64(key), "value": b64(value), **more})

    def get(self, key, **more):
        return self("kv/range", {"key": b64(key), **more})

    def value(self, key):
        kvs = self.get(key).get("kvs", [])
        return plain_text(kvs[0].get("value", "")) if kvs else None

    def grant(self, ttl=LONG):
        return self("lease/grant", {"TTL": ttl})["ID"]

    def revision(self):
        return int(self.get("gateway/none")["header"]["revision"])

    def close(self):
        pass


class Stream:
    """An answer that comes line by line."""

    def __init__(self, address, path, body):
        self.connection = http.client.HTTPConnection(*address, timeout=PATIENCE)
        self.connection.request("POST", f"/v3/{path}", json.dumps(body), {"Content-Type": "application/json"})
        self.answer = self.connection.getresponse()

    def next(self):
        while True:
            line = self.answer.readline()
            if not line:
                return "ended"
            if line.strip():
                return json.loads(line)

    def close(self):
        self.connection.close()


def shape(answer):
    """Which fields there are, and of which type; what is in lists counts once."""
    if isinstance(answer, dict):
        return {name: shape(value) for name, value in sorted(answer.items())}
    if isinstance(answer, list):
        return [shape(answer[0])] if answer else []
    return type(answer).__name__


def refusal(gateway, path, body):
    status, answer = gateway.ask("POST", f"/v3/{path}", body)
    return [status, answer]


# Plain pages.


@scene("pages: version and health")
def pages(gateway):
    version = gateway.ask("GET", "/version")
    return {
        "version": [version[0], shape(version[1]), [len(part.split(".")) for part in version[1].values()]],
        "health": [gateway.ask("GET", "/health")[0], gateway.ask("GET", "/health")[1]["health"]],
    }


# Shapes: what is a string, what is left out.


@scene("shapes: 64 bit numbers are strings, and what is zero is left out")
def shapes(gateway):
    lease = gateway.grant()
    gateway.put("gateway/shape", "1", lease=lease)
    gateway.put("gateway/empty")
    return {
        "range of a bound key": shape(gateway.get("gateway/shape")),
        "put": shape(gateway.put("gateway/shape", "2")),
        "put over": shape(gateway.put("gateway/shape", "2", prev_kv=True)),
        "range": shape(gateway.get("gateway/shape")),
        "range of nothing": shape(gateway.get("gateway/nothing")),
        "count": shape(gateway.get("gateway/shape", count_only=True)),
        "limit": shape(gateway.get("gateway/", range_end=end_of("gateway/"), limit="1")),
        "empty value": shape(gateway.get("gateway/empty")),
        "delete": shape(gateway("kv/deleterange", {"key": b64("gateway/shape"), "prev_kv": True})),
        "delete of nothing": shape(gateway("kv/deleterange", {"key": b64("gateway/shape")})),
        "grant": shape(gateway("lease/grant", {"TTL": LONG})),
        "time to live": shape(gateway("lease/timetolive", {"ID": lease})),
        "time to live of nothing": gateway("lease/timetolive", {"ID": "99"})["TTL"],
        "keep-alive": shape(gateway("lease/keepalive", {"ID": lease})),
        "keep-alive of nothing": shape(gateway("lease/keepalive", {"ID": "99"})),
        "leases": shape(gateway("lease/leases")),
        "revoke": shape(gateway("lease/revoke", {"ID": lease})),
        "members": shape(gateway("cluster/member/list")),
        "alarms": shape(gateway("maintenance/alarm", {"action": "GET"})),
    }


@scene("shapes: status has what monitors look at")
def status(gateway):
    answer = gateway("maintenance/status")
    wanted = ["header", "version", "dbSize", "leader", "raftIndex", "raftTerm"]
    return {name: shape(answer.get(name)) for name in wanted}


@scene("shapes: numbers may be numbers or strings, enums names or numbers, empty may be empty")
def lenient(gateway):
    gateway.put("gateway/lenient/a", "1")
    gateway.put("gateway/lenient/b", "2")
    asked = {"key": b64("gateway/lenient/"), "range_end": end_of("gateway/lenient/")}

    def names(**more):
        return [plain_text(kv["value"]) for kv in gateway("kv/range", {**asked, **more})["kvs"]]

    return {
        "limit as a number": names(limit=1),
        "limit as a string": names(limit="1"),
        "order by name": names(sort_order="DESCEND", sort_target="KEY"),
        "order by number": names(sort_order=2, sort_target=0),
        "camel case": names(sortOrder="DESCEND", sortTarget="KEY"),
        "no body": gateway.ask("POST", "/v3/lease/leases", raw="")[0],
        "a field that is not known": refusal(gateway, "kv/range", {**asked, "nonsense": 1})[0],
    }


# Old paths.


@scene("paths: those of older clients still lead there")
def old_paths(gateway):
    lease = gateway.grant()
    return {
        "kv/lease/timetolive": shape(gateway("kv/lease/timetolive", {"ID": lease})),
        "kv/lease/leases": shape(gateway("kv/lease/leases")),
        "kv/lease/revoke": shape(gateway("kv/lease/revoke", {"ID": lease})),
        "revoked": gateway("lease/timetolive", {"ID": lease})["TTL"],
        "v3beta": [shape(gateway("kv/put", {"key": b64("gateway/beta"), "value": b64("1")}, prefix="/v3beta")),
                   gateway.value("gateway/beta")],
        "nowhere": gateway.ask("POST", "/v3/nowhere", {})[0],
        "the wrong method": gateway.ask("GET", "/v3/kv/put")[0],
    }


# Keys and transactions.


@scene("transactions: compared, nested, in one revision")
def transactions(gateway):
    gateway.put("gateway/txn", "1")
    done = gateway("kv/txn", {
        "compare": [{"key": b64("gateway/txn"), "target": "VALUE", "result": "EQUAL", "value": b64("1")},
                    {"key": b64("gateway/txn/none"), "target": "CREATE", "result": "EQUAL", "create_revision": "0"}],
        "success": [{"request_put": {"key": b64("gateway/txn"), "value": b64("2")}},
                    {"request_range": {"key": b64("gateway/txn")}},
                    {"request_delete_range": {"key": b64("gateway/txn/none")}},
                    {"request_txn": {"success": [{"request_put": {"key": b64("gateway/txn/b"), "value": b64("3")}}]}}],
    })
    failed = gateway("kv/txn", {
        "compare": [{"key": b64("gateway/txn"), "target": "VERSION", "result": "GREATER", "version": "7"}],
        "failure": [{"request_range": {"key": b64("gateway/txn")}}],
    })
    return {"done": shape(done), "failed": shape(failed),
            "values": [gateway.value("gateway/txn"), gateway.value("gateway/txn/b")]}


# Refusals.


@scene("refusals: status, code and text")
def refusals(gateway):
    gateway.put("gateway/refused", "1")
    two = [{"request_put": {"key": b64("gateway/refused")}}] * 2
    many = [{"request_put": {"key": b64(f"gateway/many/{number}")}} for number in range(129)]
    future = str(gateway.revision() + 1000)
    return {
        "unknown lease": refusal(gateway, "lease/revoke", {"ID": "99"}),
        "put with an unknown lease": refusal(gateway, "kv/put", {"key": b64("a"), "lease": "99"}),
        "too long": refusal(gateway, "lease/grant", {"TTL": "9000000001"}),
        "no key": refusal(gateway, "kv/put", {}),
        "no key to read": refusal(gateway, "kv/range", {}),
        "a key twice": refusal(gateway, "kv/txn", {"success": two}),
        "129 operations": refusal(gateway, "kv/txn", {"success": many}),
        "a future revision": refusal(gateway, "kv/range", {"key": b64("gateway/refused"), "revision": future}),
        "value of a missing key": refusal(gateway, "kv/put", {"key": b64("gateway/x"), "ignore_value": True}),
        "authenticate": refusal(gateway, "auth/authenticate", {"name": "root", "password": "x"}),
        "enable": refusal(gateway, "auth/enable", {}),
        "lock with an unknown lease": refusal(gateway, "lock/lock", {"name": b64("gateway/l"), "lease": "99"}),
        "no leader": refusal(gateway, "election/leader", {"name": b64("gateway/nobody")}),
        "proclaim without a leader": refusal(gateway, "election/proclaim", {"value": b64("x")}),
    }


@scene("refusals: a lease id that is taken")
def taken(gateway):
    gateway("lease/grant", {"ID": "777", "TTL": LONG})
    return refusal(gateway, "lease/grant", {"ID": "777", "TTL": LONG})


@scene("refusals: what is no JSON, no base64, or of another type")
def nonsense(gateway):
    def status(raw):
        code, answer = gateway.ask("POST", "/v3/kv/range", raw=raw)
        return [code, answer.get("code") if isinstance(answer, dict) else "no JSON"]

    return {"no JSON": status("{"), "no base64": status('{"key": "%%%"}'), "a number as key": status('{"key": 7}')}


# Leases and watches.


@scene("watches: a stream of lines, from the past on")
def watch(gateway):
    start = gateway.put("gateway/watch/a", "1")["header"]["revision"]
    stream = gateway.stream("watch", {"create_request": {
        "key": b64("gateway/watch/"), "range_end": end_of("gateway/watch/"), "start_revision": start, "prev_kv": True}})
    created = stream.next()
    first = stream.next()
    gateway.put("gateway/watch/a", "2")
    second = stream.next()
    gateway("kv/deleterange", {"key": b64("gateway/watch/a")})
    third = stream.next()
    stream.close()
    return {"created": shape(created), "first": shape(first), "second": shape(second), "third": shape(third),
            "kinds": [answer["result"]["events"][0].get("type", "PUT") for answer in [first, second, third]]}


@scene("watches: all keys of an ended lease in one line, in order", waits=True)
def expiry(gateway):
    lease = gateway.grant(SHORT)
    for name in ["b", "a"]:
        start = gateway.put("gateway/expiry/" + name, name, lease=lease)["header"]["revision"]
    stream = gateway.stream("watch", {"create_request": {
        "key": b64("gateway/expiry/"), "range_end": end_of("gateway/expiry/"), "start_revision": str(int(start) + 1)}})
    stream.next()
    events = stream.next()["result"]["events"]
    stream.close()
    return [[event["type"], plain_text(event["kv"]["key"])] for event in events]


# Locks and elections.


@scene("locks: handed over on unlock")
def lock(gateway):
    ann, bob = gateway.grant(), gateway.grant()
    held = gateway("lock/lock", {"name": b64("gateway/lock"), "lease": ann})
    got = []
    waiter = threading.Thread(target=lambda: got.append(gateway("lock/lock", {"name": b64("gateway/lock"), "lease": bob})))
    waiter.start()
    until("a waiter", lambda: gateway.get("gateway/lock/", range_end=end_of("gateway/lock/")).get("count") == "2")
    before = len(got)
    unlocked = gateway("lock/unlock", {"key": held["key"]})
    waiter.join()
    return {"held": shape(held), "key": plain_text(held["key"]) == f"gateway/lock/{int(ann):x}", "waited": before == 0,
            "got": plain_text(got[0]["key"]) == f"gateway/lock/{int(bob):x}", "unlocked": shape(unlocked)}


@scene("locks: a dead holder's lock goes to the waiter", waits=True)
def death(gateway):
    dead, alive = gateway.grant(SHORT), gateway.grant()
    gateway("lock/lock", {"name": b64("gateway/death"), "lease": dead})
    held = gateway("lock/lock", {"name": b64("gateway/death"), "lease": alive})
    return plain_text(held["key"]) == f"gateway/death/{int(alive):x}"


@scene("elections: campaign, leader, proclaim, observe, resign")
def election(gateway):
    lease, name = gateway.grant(), b64("gateway/elect")
    won = gateway("election/campaign", {"name": name, "lease": lease, "value": b64("ann")})
    observer = gateway.stream("election/observe", {"name": name})
    heard = [observer.next()]
    first = gateway("election/leader", {"name": name})
    proclaimed = gateway("election/proclaim", {"leader": won["leader"], "value": b64("again")})
    heard.append(observer.next())
    observer.close()
    resigned = gateway("election/resign", {"leader": won["leader"]})
    return {
        "won": shape(won), "leader": shape(first), "proclaimed": shape(proclaimed), "resigned": shape(resigned),
        "heard": [plain_text(answer["result"]["kv"]["value"]) for answer in heard],
        "observed": shape(heard[0]),
        "afterwards": refusal(gateway, "election/leader", {"name": name}),
        "proclaimed afterwards": refusal(gateway, "election/proclaim", {"leader": won["leader"], "value": b64("x")}),
    }


# Compaction, after everything else.


@scene("compaction: below it nothing is read or watched", last=True)
def compaction(gateway):
    first = gateway.put("gateway/compact", "1")["header"]["revision"]
    second = gateway.put("gateway/compact", "2")["header"]["revision"]
    done = gateway("kv/compaction", {"revision": second})
    stream = gateway.stream("watch", {"create_request": {"key": b64("gateway/compact"), "start_revision": first}})
    created, ended = stream.next(), stream.next()
    stream.close()
    return {
        "done": shape(done),
        "again": refusal(gateway, "kv/compaction", {"revision": second}),
        "the future": refusal(gateway, "kv/compaction", {"revision": str(int(second) + 1000)}),
        "below": refusal(gateway, "kv/range", {"key": b64("gateway/compact"), "revision": first}),
        "watch from below": [shape(created), shape(ended), ended["result"]["compact_revision"] == second],
    }


play(Gateway)
