"""Python etcd3gw 2.7, which OpenStack uses over the JSON gateway: keys, transactions, leases, locks, watches."""

import json
import threading
import time

import etcd3gw
from etcd3gw import exceptions
from etcd3gw.utils import _encode, _increment_last_byte

from scenes import host_and_port, play, scene, until

LONG = 60
SHORT = 2  # seconds; the least that etcd grants


def connect(endpoint):
    host, port = host_and_port(endpoint)
    return etcd3gw.client(host=host, port=port, timeout=30)


def refusal(call):
    try:
        call()
    except exceptions.Etcd3Exception as error:
        return {"raises": type(error).__name__, "reason": error.args, "body": json.loads(error.detail_text)}
    return "accepted"


def values_of(found):
    return [value for value, _ in found]


@scene("server: the path is found through the version, status and members have their shape")
def server(etcd):
    status, members = etcd.status(), etcd.members()
    return {"path": etcd.api_path, "version": len(status["version"].split(".")),
            "leads": status["leader"] in {member["ID"] for member in members}, "names": all(m["name"] for m in members)}


@scene("keys: put, get, create, replace, delete")
def keys(etcd):
    answers = {
        "put": etcd.put("gw/a", "1"), "get": etcd.get("gw/a"), "none": etcd.get("gw/none"),
        "create": [etcd.create("gw/b", "1"), etcd.create("gw/b", "2")],
        "replace": [etcd.replace("gw/b", "1", "3"), etcd.replace("gw/b", "1", "4")],
        "values": values_of(etcd.get_prefix("gw/")),
    }
    value, meta = etcd.get("gw/a", metadata=True)[0]
    answers["metadata"] = [value, meta["key"], meta["version"], int(meta["create_revision"]) == int(meta["mod_revision"])]
    answers["delete"] = [etcd.delete("gw/a"), etcd.delete("gw/a"), etcd.delete_prefix("gw/")]
    return answers


@scene("keys: sorted, limited, at an old revision")
def sorted_keys(etcd):
    for name, value in [("b", "2"), ("a", "3"), ("c", "1")]:
        etcd.put("gw/sort/" + name, value)
    first = int(etcd.get("gw/sort/b", metadata=True)[0][1]["mod_revision"])
    end = _increment_last_byte("gw/sort/")

    def get(**more):
        return etcd.get("gw/sort/", range_end=end, **more)

    return {
        "ascending": get(sort_order="ascend", sort_target="value"), "descending": get(sort_order="descend", sort_target="create"),
        "first": get(limit=1), "then": get(revision=first), "keys": [len(value) for value in get(keys_only=True)],
        "newer": get(min_create_revision=first + 1),
        "prefix": values_of(etcd.get_prefix("gw/sort/", sort_order="descend", sort_target="key")),
    }


@scene("transactions: both branches")
def transactions(etcd):
    etcd.put("gw/txn", "1")

    def txn(value):
        return etcd.transaction({
            "compare": [{"key": _encode("gw/txn"), "result": "EQUAL", "target": "VALUE", "value": _encode(value)}],
            "success": [{"request_put": {"key": _encode("gw/txn"), "value": _encode("2")}}],
            "failure": [{"request_range": {"key": _encode("gw/txn")}}]})

    done, failed = txn("1"), txn("1")
    return [done["succeeded"], "succeeded" in failed, list(failed["responses"][0]), etcd.get("gw/txn")]


@scene("leases: granted, read, renewed, revoked")
def leases(etcd):
    lease = etcd.lease(LONG)
    etcd.put("gw/lease/a", "1", lease)
    etcd.put("gw/lease/b", "2", lease)
    answers = {"remaining": LONG - 10 < lease.ttl() <= LONG, "keys": sorted(lease.keys()), "renewed": lease.refresh(),
               "revoked": lease.revoke(), "left": etcd.get_prefix("gw/lease/"), "remaining then": lease.ttl(),
               "renewed then": lease.refresh(), "keys then": lease.keys()}
    answers["revoked again"] = refusal(lease.revoke)
    answers["put with it"] = refusal(lambda: etcd.put("gw/lease/c", "3", lease))
    return answers


@scene("leases: a watch sees keys of an ended lease go", waits=True)
def expiry(etcd):
    lease = etcd.lease(SHORT)
    for name in ["b", "a"]:
        etcd.put("gw/expiry/" + name, name, lease)
    start = int(etcd.get("gw/expiry/b", metadata=True)[0][1]["mod_revision"])
    events, cancel = etcd.watch_prefix("gw/expiry/", start_revision=start)
    seen = [next(events) for _ in range(4)]
    cancel()
    return [[event.get("type", "PUT"), event["kv"]["key"]] for event in seen] + [
        seen[2]["kv"]["mod_revision"] == seen[3]["kv"]["mod_revision"]]


@scene("locks: one of two holds, the other after its release")
def locks(etcd):
    ann, bob = etcd.lock("gw/lock", ttl=LONG), etcd.lock("gw/lock", ttl=LONG)
    return {"taken": [ann.acquire(), bob.acquire()], "held": [ann.is_acquired(), bob.is_acquired()],
            "released by who has it not": bob.release(), "renewed": ann.refresh(), "released": ann.release(),
            "then": [bob.acquire(), ann.is_acquired(), bob.is_acquired(), bob.release()]}


@scene("locks: a dead holder's lock is free", waits=True)
def death(etcd):
    ann, bob = etcd.lock("gw/death", ttl=SHORT), etcd.lock("gw/death", ttl=LONG)
    started = time.monotonic()
    taken = ann.acquire()
    until("the lock", bob.acquire)
    return [taken, time.monotonic() - started >= SHORT, ann.is_acquired(), ann.refresh()]


@scene("watches: puts and deletes in order")
def watches(etcd):
    etcd.put("gw/watch", "0")
    start = int(etcd.get("gw/watch", metadata=True)[0][1]["mod_revision"])
    events, cancel = etcd.watch("gw/watch", start_revision=start)
    etcd.put("gw/watch", "1")
    etcd.delete("gw/watch")
    seen = [next(events) for _ in range(3)]
    cancel()
    return [[event.get("type", "PUT"), event["kv"].get("value")] for event in seen]


@scene("watches: once, or not in time")
def once(etcd):
    try:
        late = etcd.watch_once("gw/once", timeout=1)
    except exceptions.WatchTimedOut:
        late = "WatchTimedOut"
    seen = threading.Event()

    def put():
        while not seen.wait(0.1):
            etcd.put("gw/once", "1")

    putter = threading.Thread(target=put)
    putter.start()
    event = etcd.watch_once("gw/once", timeout=30)
    seen.set()
    putter.join()
    return [late, event["kv"]["key"], event["kv"]["value"]]


@scene("refusals: what the gateway says")
def refusals(etcd):
    etcd.put("gw/refused", "1")
    return {
        "a future revision": refusal(lambda: etcd.get("gw/refused", revision=10**9)),
        "no key": refusal(lambda: etcd.put("", "1")),
        "too long": refusal(lambda: etcd.lease(9_000_000_001)),
    }


@scene("compaction: below it nothing is read", last=True)
def compaction(etcd):
    etcd.put("gw/compact", "1")
    first = int(etcd.get("gw/compact", metadata=True)[0][1]["mod_revision"])
    etcd.put("gw/compact", "2")
    second = int(etcd.get("gw/compact", metadata=True)[0][1]["mod_revision"])
    etcd.post(etcd.get_url("/kv/compaction"), json={"revision": second})
    return [refusal(lambda: etcd.get("gw/compact", revision=first)), etcd.get("gw/compact", revision=second)]


play(connect, close=lambda client: None)
