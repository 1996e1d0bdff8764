"""The calls themselves, through the stubs of Python etcd3 0.12: headers, every option of a range, every comparison, the
answers of watch streams, and every refusal with its code and text."""

import queue
import threading

import etcd3
import grpc
from etcd3 import etcdrpc as rpc

from scenes import PATIENCE, host_and_port, play, scene, until

LONG = 60
SHORT = 2  # seconds; the least that etcd grants
MIB = 1024 * 1024
# What the stub is too old for, as bytes: `watch_id` 7 and `fragment` of a watch, and a request for its progress.
CHOSEN_ID = b"\x38\x07"
FRAGMENT = b"\x40\x01"
PROGRESS = b"\x1a\x00"


def connect(endpoint):
    host, port = host_and_port(endpoint)
    return etcd3.client(host=host, port=port, timeout=10)


def refusal(call):
    try:
        answer = call()
        if hasattr(answer, "code") and hasattr(answer, "__next__"):
            list(answer)
    except grpc.RpcError as error:
        return [error.code().name, error.details()]
    return "accepted"


def put(etcd, key, value="", **more):
    return etcd.kvstub.Put(rpc.PutRequest(key=key.encode(), value=value.encode(), **more))


def get(etcd, key, **more):
    return etcd.kvstub.Range(rpc.RangeRequest(key=key.encode(), **more))


def txn(etcd, compare=(), success=(), failure=()):
    return etcd.kvstub.Txn(rpc.TxnRequest(compare=compare, success=success, failure=failure))


def op_put(key, value="", **more):
    return rpc.RequestOp(request_put=rpc.PutRequest(key=key.encode(), value=value.encode(), **more))


def op_get(key, **more):
    return rpc.RequestOp(request_range=rpc.RangeRequest(key=key.encode(), **more))


def op_delete(key, **more):
    return rpc.RequestOp(request_delete_range=rpc.DeleteRangeRequest(key=key.encode(), **more))


def op_txn(compare=(), success=(), failure=()):
    return rpc.RequestOp(request_txn=rpc.TxnRequest(compare=compare, success=success, failure=failure))


def grant(etcd, ttl=LONG, **more):
    return etcd.leasestub.LeaseGrant(rpc.LeaseGrantRequest(TTL=ttl, **more))


def end_of(prefix):
    return prefix[:-1].encode() + bytes([prefix.encode()[-1] + 1])


def names(answer):
    return [kv.key.decode().rsplit("/", 1)[-1] for kv in answer.kvs]


class Stream:
    """A bidirectional call: requests go in, answers come out."""

    def __init__(self, call, **more):
        self.requests, self.answers = queue.Queue(), queue.Queue()
        self.call = call(iter(self.requests.get, None), **more)
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        try:
            for answer in self.call:
                self.answers.put(answer)
            self.answers.put("ended")
        except grpc.RpcError as error:
            self.answers.put([error.code().name, error.details()])

    def send(self, request):
        self.requests.put(request)

    def next(self):
        return self.answers.get(timeout=PATIENCE)

    def silent(self):
        return self.answers.empty()


class Watches(Stream):
    def __init__(self, etcd, **more):
        super().__init__(etcd.watcher._watch_stub.Watch, **more)

    def create(self, key, newer=b"", **more):
        """Creates a watch and returns the first answer. `newer` has the bytes of fields that the stub is too old for."""
        request = rpc.WatchCreateRequest(key=key.encode(), **more)
        request.MergeFromString(newer)
        self.send(rpc.WatchRequest(create_request=request))
        return self.next()

    def cancel(self, watch_id):
        self.send(rpc.WatchRequest(cancel_request=rpc.WatchCancelRequest(watch_id=watch_id)))

    def events(self, count):
        """The next so many events, however they are spread over answers."""
        found = []
        while len(found) < count:
            answer = self.next()
            assert not isinstance(answer, (str, list)), answer
            found += answer.events
        return [shown(event) for event in found[:count]]


def shown(event):
    kind = "delete" if event.type == event.DELETE else "put"
    return [kind, event.kv.key.decode().rsplit("/", 1)[-1], event.kv.value, event.prev_kv.value]


def of_watch(answer):
    return {"id": answer.watch_id, "created": answer.created, "canceled": answer.canceled,
            "reason": answer.cancel_reason, "compacted": answer.compact_revision > 0, "events": len(answer.events)}


# Headers and revisions.


@scene("revisions: only what changes keys takes one")
def revisions(etcd):
    now, steps = get(etcd, "wire/revisions/none").header.revision, []

    def look(what):
        nonlocal now
        before, now = now, get(etcd, "wire/revisions/none").header.revision
        steps.append([what, now - before])

    started = now > 0
    put(etcd, "wire/revisions/a", "1")
    look("put")
    put(etcd, "wire/revisions/a", "1")
    look("the same put")
    txn(etcd, success=[op_put("wire/revisions/b"), op_put("wire/revisions/c")])
    look("two puts in one transaction")
    txn(etcd, success=[op_get("wire/revisions/b")])
    look("a transaction that reads")
    etcd.kvstub.DeleteRange(rpc.DeleteRangeRequest(key=b"wire/revisions/none"))
    look("a delete of nothing")
    etcd.kvstub.DeleteRange(rpc.DeleteRangeRequest(key=b"wire/revisions/b", range_end=b"wire/revisions/d"))
    look("a delete of two")
    return [started, steps]


@scene("revisions: what leases do with no keys takes none")
def lease_revisions(etcd):
    before = get(etcd, "wire/none").header.revision
    lease = grant(etcd)
    list(etcd.leasestub.LeaseKeepAlive(iter([rpc.LeaseKeepAliveRequest(ID=lease.ID)])))
    etcd.leasestub.LeaseRevoke(rpc.LeaseRevokeRequest(ID=lease.ID))
    return get(etcd, "wire/none").header.revision - before


@scene("headers: every answer tells cluster, member, revision and term")
def headers(etcd):
    lease = grant(etcd)
    answers = {
        "put": put(etcd, "wire/header", "1", lease=lease.ID),
        "range": get(etcd, "wire/header"),
        "grant": lease,
        "keep-alive": next(etcd.leasestub.LeaseKeepAlive(iter([rpc.LeaseKeepAliveRequest(ID=lease.ID)]))),
        "ttl": etcd.leasestub.LeaseTimeToLive(rpc.LeaseTimeToLiveRequest(ID=lease.ID)),
        "revoke": etcd.leasestub.LeaseRevoke(rpc.LeaseRevokeRequest(ID=lease.ID)),
        "txn": txn(etcd, success=[op_get("wire/header")]),
        "status": etcd.maintenancestub.Status(rpc.StatusRequest()),
        "watch": Watches(etcd).create("wire/header"),
    }
    shapes = {name: [bool(a.header.cluster_id), bool(a.header.member_id), bool(a.header.revision), bool(a.header.raft_term)]
              for name, a in answers.items()}
    members = etcd.clusterstub.MemberList(rpc.MemberListRequest())
    shapes["members"] = [bool(members.header.cluster_id), bool(members.header.member_id), bool(members.header.revision)]
    inner = txn(etcd, success=[op_put("wire/header", "2"), op_get("wire/header"), op_delete("wire/nothing")])
    headers = [inner.responses[0].response_put.header, inner.responses[1].response_range.header,
               inner.responses[2].response_delete_range.header]
    shapes["inside a transaction"] = [[bool(h.cluster_id), h.revision == inner.header.revision] for h in headers]
    return shapes


@scene("headers: a required leader is there")
def metadata(etcd):
    more = (("hasleader", "true"),)
    etcd.kvstub.Put(rpc.PutRequest(key=b"wire/metadata", value=b"1"), metadata=more)
    found = etcd.kvstub.Range(rpc.RangeRequest(key=b"wire/metadata"), metadata=more)
    watch = Watches(etcd, metadata=more)
    created = watch.create("wire/metadata").created
    put(etcd, "wire/metadata", "2")
    lease = etcd.leasestub.LeaseGrant(rpc.LeaseGrantRequest(TTL=LONG), metadata=more)
    alive = Stream(etcd.leasestub.LeaseKeepAlive, metadata=more)
    alive.send(rpc.LeaseKeepAliveRequest(ID=lease.ID))
    return [found.kvs[0].value, created, watch.events(1), alive.next().TTL]


@scene("headers: a token that nobody gave")
def foreign_token(etcd):
    more = (("token", "not-one"),)
    return {
        "put": refusal(lambda: etcd.kvstub.Put(rpc.PutRequest(key=b"wire/token"), metadata=more)),
        "range": refusal(lambda: etcd.kvstub.Range(rpc.RangeRequest(key=b"wire/token"), metadata=more)),
        "grant": refusal(lambda: etcd.leasestub.LeaseGrant(rpc.LeaseGrantRequest(TTL=LONG), metadata=more)),
        "watch": of_watch(Watches(etcd, metadata=more).create("wire/token")),
    }


# Keys and ranges.


@scene("keys: what a key tells of itself")
def key_value(etcd):
    lease = grant(etcd)
    put(etcd, "wire/kv", "1")
    before = put(etcd, "wire/kv", "2", lease=lease.ID, prev_kv=True)
    kv = get(etcd, "wire/kv").kvs[0]
    deleted = etcd.kvstub.DeleteRange(rpc.DeleteRangeRequest(key=b"wire/kv", prev_kv=True))
    return {
        "previous": [before.prev_kv.value, before.prev_kv.version, before.prev_kv.lease],
        "now": [kv.value, kv.version, kv.lease == lease.ID, kv.create_revision < kv.mod_revision],
        "deleted": [deleted.deleted, deleted.prev_kvs[0].value, deleted.prev_kvs[0].lease == lease.ID],
        "previous of none": put(etcd, "wire/kv", "3", prev_kv=True).HasField("prev_kv"),
    }


@scene("keys: value or lease can be left as they are")
def ignoring(etcd):
    lease = grant(etcd)
    put(etcd, "wire/ignore", "1", lease=lease.ID)
    put(etcd, "wire/ignore", "2", ignore_lease=True)
    first = get(etcd, "wire/ignore").kvs[0]
    put(etcd, "wire/ignore", ignore_value=True)
    second = get(etcd, "wire/ignore").kvs[0]
    return {
        "new value": [first.value, first.lease == lease.ID],
        "no lease": [second.value, second.lease],
        "versions": [first.version, second.version],
        "value of a missing key": refusal(lambda: put(etcd, "wire/ignore/none", ignore_value=True)),
        "lease of a missing key": refusal(lambda: put(etcd, "wire/ignore/none", ignore_lease=True)),
        "value given": refusal(lambda: put(etcd, "wire/ignore", "x", ignore_value=True)),
        "lease given": refusal(lambda: put(etcd, "wire/ignore", "x", lease=lease.ID, ignore_lease=True)),
    }


@scene("keys: any bytes are a key and a value")
def any_bytes(etcd):
    key, value = b"wire/bytes/\x00\xff\xfe", bytes(range(256))
    etcd.kvstub.Put(rpc.PutRequest(key=key, value=value))
    found = etcd.kvstub.Range(rpc.RangeRequest(key=key)).kvs[0]
    put(etcd, "wire/bytes/empty", "")
    return [found.key == key, found.value == value, get(etcd, "wire/bytes/empty").kvs[0].value]


def some_keys(etcd, prefix):
    for name, value in [("b", "2"), ("d", "9"), ("a", "3"), ("c", "1"), ("b", "5"), ("b", "6"), ("a", "4")]:
        put(etcd, prefix + name, value)
    etcd.kvstub.DeleteRange(rpc.DeleteRangeRequest(key=(prefix + "d").encode()))
    put(etcd, prefix + "d", "0")
    for value in ["0", "0", "0"]:
        put(etcd, prefix + "d", value)
    return {"key": prefix, "range_end": end_of(prefix)}


@scene("ranges: sorted by every target in every order")
def sort(etcd):
    all_keys = some_keys(etcd, "wire/sort/")
    request = rpc.RangeRequest
    answers = {}
    for target in ["KEY", "VERSION", "CREATE", "MOD", "VALUE"]:
        for order in ["NONE", "ASCEND", "DESCEND"]:
            found = get(etcd, **all_keys, sort_target=request.SortTarget.Value(target),
                        sort_order=request.SortOrder.Value(order))
            answers[f"{target} {order}"] = "".join(names(found))
    return answers


@scene("ranges: a limit, what is more, and the count of all")
def limits(etcd):
    all_keys = some_keys(etcd, "wire/limit/")
    request = rpc.RangeRequest
    cases = {
        "all": {},
        "limit 2": {"limit": 2},
        "limit 4": {"limit": 4},
        "limit 9": {"limit": 9},
        "oldest": {"limit": 1, "sort_order": request.ASCEND, "sort_target": request.CREATE},
        "newest": {"limit": 1, "sort_order": request.DESCEND, "sort_target": request.CREATE},
        "count only": {"count_only": True},
        "count only, limit": {"count_only": True, "limit": 1},
        "keys only": {"keys_only": True},
        "serializable": {"serializable": True},
        "from a key": {"key": "wire/limit/c", "range_end": end_of("wire/limit/")},
        "one key": {"key": "wire/limit/c", "range_end": b""},
        "backwards": {"key": "wire/limit/c", "range_end": b"wire/limit/a"},
        "nothing": {"key": "wire/limit/x", "range_end": b""},
        "nothing, count only": {"key": "wire/limit/x", "range_end": b"", "count_only": True},
    }
    answers = {}
    for name, more in cases.items():
        found = get(etcd, **{**all_keys, **more})
        answers[name] = ["".join(names(found)), [kv.value for kv in found.kvs], found.more, found.count]
    return answers


@scene("ranges: everything from a key on, and everything there is")
def from_key(etcd):
    put(etcd, "wire/~~last/a")
    put(etcd, "wire/~~last/b")
    tail = get(etcd, "wire/~~last/a", range_end=b"\0")
    everything = etcd.kvstub.Range(rpc.RangeRequest(key=b"\0", range_end=b"\0"))
    inside = {kv.key for kv in everything.kvs}
    return [names(tail)[:2], {b"wire/~~last/a", b"wire/~~last/b"} <= inside, everything.count == len(everything.kvs)]


@scene("ranges: as they were at an old revision")
def old_revision(etcd):
    first = put(etcd, "wire/rev/a", "1").header.revision
    second = put(etcd, "wire/rev/b", "2").header.revision
    third = etcd.kvstub.DeleteRange(rpc.DeleteRangeRequest(key=b"wire/rev/a")).header.revision
    fourth = put(etcd, "wire/rev/b", "4").header.revision
    answers = []
    for revision in [first - 1, first, second, third, fourth, 0, -1]:
        found = get(etcd, "wire/rev/", range_end=end_of("wire/rev/"), revision=revision)
        answers.append([[names(found), [kv.value for kv in found.kvs], [kv.version for kv in found.kvs]],
                        found.count, found.header.revision >= fourth])
    return {"as they were": answers, "the future": refusal(lambda: get(etcd, "wire/rev/a", revision=fourth + 1000))}


@scene("ranges: only what was created or changed within bounds")
def bounds(etcd):
    made = [put(etcd, f"wire/bounds/{name}", name).header.revision for name in "abc"]
    changed = put(etcd, "wire/bounds/a", "again").header.revision
    cases = {
        "created at least": {"min_create_revision": made[1]},
        "created at most": {"max_create_revision": made[1]},
        "changed at least": {"min_mod_revision": made[2]},
        "changed at most": {"max_mod_revision": made[2]},
        "changed at all": {"min_mod_revision": changed},
        "both": {"min_create_revision": made[1], "max_create_revision": made[1]},
        "none": {"min_create_revision": changed},
        "with a limit": {"max_create_revision": made[2], "limit": 1},
        "the one before, as a lock's waiter asks": {
            "max_create_revision": made[2] - 1, "limit": 1,
            "sort_order": rpc.RangeRequest.DESCEND, "sort_target": rpc.RangeRequest.CREATE},
    }
    answers = {}
    for name, more in cases.items():
        found = get(etcd, "wire/bounds/", range_end=end_of("wire/bounds/"), **more)
        answers[name] = ["".join(names(found)), found.more, found.count]
    return answers


@scene("ranges: deleted by range, with what was there")
def delete_range(etcd):
    some_keys(etcd, "wire/delete/")
    call = etcd.kvstub.DeleteRange
    some = call(rpc.DeleteRangeRequest(key=b"wire/delete/b", range_end=b"wire/delete/d", prev_kv=True))
    rest = call(rpc.DeleteRangeRequest(key=b"wire/delete/", range_end=end_of("wire/delete/")))
    none = call(rpc.DeleteRangeRequest(key=b"wire/delete/", range_end=end_of("wire/delete/"), prev_kv=True))
    return [[some.deleted, [kv.value for kv in some.prev_kvs]], [rest.deleted, len(rest.prev_kvs)], none.deleted]


# Transactions.


@scene("transactions: every target with every result, on one key, none and a range")
def compares(etcd):
    lease = grant(etcd)
    put(etcd, "wire/compare/a", "m", lease=lease.ID)
    put(etcd, "wire/compare/b", "n", lease=lease.ID)
    a = get(etcd, "wire/compare/a").kvs[0]
    compare = rpc.Compare
    targets = {
        "VERSION": ("version", [0, 1, 2]),
        "CREATE": ("create_revision", [a.create_revision - 1, a.create_revision, a.create_revision + 1]),
        "MOD": ("mod_revision", [a.mod_revision - 1, a.mod_revision, a.mod_revision + 1]),
        "VALUE": ("value", [b"l", b"m", b"n"]),
        "LEASE": ("lease", [lease.ID - 1, lease.ID, lease.ID + 1]),
    }
    places = {"one": {"key": b"wire/compare/a"}, "none": {"key": b"wire/compare/none"},
              "range": {"key": b"wire/compare/", "range_end": end_of("wire/compare/")},
              "empty range": {"key": b"wire/compare/x", "range_end": b"wire/compare/y"}}
    answers = {}
    for target, (field, values) in targets.items():
        for result in ["EQUAL", "GREATER", "LESS", "NOT_EQUAL"]:
            for place, where in places.items():
                answers[f"{target} {result} {place}"] = [
                    txn(etcd, [compare(target=target, result=result, **where, **{field: value})]).succeeded
                    for value in values]
    return answers


@scene("transactions: reads see what was written before them, in one revision")
def order_inside(etcd):
    put(etcd, "wire/inside/a", "0")
    done = txn(etcd, success=[
        op_get("wire/inside/a"), op_put("wire/inside/a", "1", prev_kv=True), op_get("wire/inside/a"),
        op_delete("wire/inside/b"), op_put("wire/inside/c", "2"),
        op_get("wire/inside/", range_end=end_of("wire/inside/"))])
    kinds = [response.WhichOneof("response") for response in done.responses]
    last = done.responses[5].response_range
    return {
        "succeeded": done.succeeded,
        "kinds": kinds,
        "before and after": [done.responses[0].response_range.kvs[0].value, done.responses[1].response_put.prev_kv.value,
                             done.responses[2].response_range.kvs[0].value],
        "one revision": {kv.mod_revision for kv in last.kvs} == {done.header.revision},
    }


@scene("transactions: nested deep, and the branch that was not taken leaves nothing")
def deep(etcd):
    missing = rpc.Compare(target="VERSION", result="EQUAL", key=b"wire/deep/none", version=0)
    there = rpc.Compare(target="VERSION", result="GREATER", key=b"wire/deep/none", version=0)
    inner = op_txn([there], [op_put("wire/deep/wrong")], [op_put("wire/deep/c", "3"), op_get("wire/deep/c")])
    middle = op_txn([missing], [op_put("wire/deep/b", "2"), inner], [op_put("wire/deep/wrong")])
    done = txn(etcd, [missing], [op_put("wire/deep/a", "1"), middle], [op_put("wire/deep/wrong")])
    second = done.responses[1].response_txn
    third = second.responses[1].response_txn
    found = get(etcd, "wire/deep/", range_end=end_of("wire/deep/"))
    return {
        "succeeded": [done.succeeded, second.succeeded, third.succeeded],
        "innermost": third.responses[1].response_range.kvs[0].value,
        "left": names(found),
        "one revision": len({kv.mod_revision for kv in found.kvs}),
    }


@scene("transactions: the empty one succeeds")
def empty_txn(etcd):
    done = txn(etcd)
    return [done.succeeded, len(done.responses)]


@scene("transactions: what is refused changes nothing")
def refused_txn(etcd):
    key = "wire/refused"
    a_lot = [op_put(f"{key}/{number}") for number in range(129)]
    now = put(etcd, "wire/refused-now").header.revision
    answers = {
        "a key twice": refusal(lambda: txn(etcd, success=[op_put(key, "1"), op_put(key, "2")])),
        "a key twice, nested": refusal(lambda: txn(etcd, success=[op_put(key), op_txn(success=[op_put(key)])])),
        "put and deleted": refusal(lambda: txn(etcd, success=[op_put(key), op_delete(key)])),
        "put and deleted by range": refusal(
            lambda: txn(etcd, success=[op_delete("wire/", range_end=b"wire0"), op_put(key)])),
        "a key in both branches": refusal(lambda: txn(etcd, [], [op_put("wire/both", "1")], [op_put("wire/both", "2")])),
        "129 operations": refusal(lambda: txn(etcd, success=a_lot)),
        "129 comparisons": refusal(lambda: txn(etcd, [rpc.Compare(key=b"a")] * 129)),
        "128 operations": refusal(lambda: txn(etcd, success=a_lot[1:])),
        "no key": refusal(lambda: txn(etcd, success=[op_put("")])),
        "no key to read": refusal(lambda: txn(etcd, success=[op_get("")])),
        "no key to compare": refusal(lambda: txn(etcd, [rpc.Compare()])),
        "no key, nested": refusal(lambda: txn(etcd, success=[op_txn(success=[op_delete("")])])),
        "an empty operation": refusal(lambda: txn(etcd, success=[rpc.RequestOp()])),
        "an unknown lease": refusal(lambda: txn(etcd, success=[op_put(key, "1"), op_put(key + "2", lease=77)])),
        "a future revision": refusal(lambda: txn(etcd, success=[op_put(key), op_get(key, revision=now + 1000)])),
        "ignore_value of a missing key": refusal(lambda: txn(etcd, success=[op_put(key, ignore_value=True)])),
        "ignore_value with a value": refusal(lambda: txn(etcd, success=[op_put(key, "1", ignore_value=True)])),
    }
    answers["left"] = names(get(etcd, key))
    return answers


# Leases.


@scene("leases: granted, chosen, refused")
def grants(etcd):
    own = grant(etcd)
    chosen = grant(etcd, ID=815)
    return {
        "own": [own.ID > 0, own.TTL, own.error],
        "chosen": [chosen.ID, chosen.TTL],
        "chosen twice": refusal(lambda: grant(etcd, ID=815)),
        "raised": [grant(etcd, ttl=ttl).TTL >= max(ttl, 1) for ttl in [1, 0, -1]],
        "longest": refusal(lambda: grant(etcd, ttl=9_000_000_000)),
        "too long": refusal(lambda: grant(etcd, ttl=9_000_000_001)),
        "negative id": refusal(lambda: grant(etcd, ID=-5)),
    }


@scene("leases: what they tell of themselves")
def time_to_live(etcd):
    lease = grant(etcd)
    for name in ["b", "a"]:
        put(etcd, "wire/ttl/" + name, lease=lease.ID)

    def ask(**more):
        info = etcd.leasestub.LeaseTimeToLive(rpc.LeaseTimeToLiveRequest(**more))
        return [info.TTL if info.TTL < 0 else LONG - 10 < info.TTL <= LONG, info.grantedTTL, sorted(info.keys)]

    answers = {
        "live": ask(ID=lease.ID), "with keys": ask(ID=lease.ID, keys=True),
        "unknown": ask(ID=99), "zero": ask(ID=0),
    }
    etcd.leasestub.LeaseRevoke(rpc.LeaseRevokeRequest(ID=lease.ID))
    answers["revoked"] = ask(ID=lease.ID, keys=True)
    return answers


@scene("leases: one stream keeps many alive and tells of the lost")
def keep_alive(etcd):
    ann, bob = grant(etcd), grant(etcd)
    etcd.leasestub.LeaseRevoke(rpc.LeaseRevokeRequest(ID=bob.ID))
    stream = Stream(etcd.leasestub.LeaseKeepAlive)
    answers = []
    for name, lease in [("ann", ann.ID), ("bob", bob.ID), ("nobody", 99), ("zero", 0), ("ann", ann.ID)]:
        stream.send(rpc.LeaseKeepAliveRequest(ID=lease))
        answer = stream.next()
        answers.append([name, answer.ID == lease, answer.TTL])
    return answers


@scene("leases: refusals")
def lease_refusals(etcd):
    revoke = etcd.leasestub.LeaseRevoke
    return {
        "revoke an unknown one": refusal(lambda: revoke(rpc.LeaseRevokeRequest(ID=99))),
        "revoke none": refusal(lambda: revoke(rpc.LeaseRevokeRequest(ID=0))),
        "put with an unknown one": refusal(lambda: put(etcd, "wire/unknown", lease=99)),
    }


@scene("leases: all keys of a revoked lease go in one revision and one answer, in order")
def revoked_together(etcd):
    lease = grant(etcd)
    for name in ["c", "a", "b"]:
        put(etcd, "wire/revoked/" + name, name, lease=lease.ID)
    watch = Watches(etcd)
    watch.create("wire/revoked/", range_end=end_of("wire/revoked/"), prev_kv=True)
    before = get(etcd, "wire/none").header.revision
    done = etcd.leasestub.LeaseRevoke(rpc.LeaseRevokeRequest(ID=lease.ID))
    answer = watch.next()
    kvs = [event.kv for event in answer.events]
    return {
        "events": [shown(event) for event in answer.events],
        "one revision": {kv.mod_revision for kv in kvs} == {answer.header.revision},
        "took": answer.header.revision - before,
        "the answer is of it": done.header.revision >= answer.header.revision,
        "only key and revision": [[kv.create_revision, kv.version, kv.lease, kv.value] for kv in kvs],
    }


@scene("leases: keys of an expired lease go so, too", waits=True)
def expired_together(etcd):
    lease = grant(etcd, ttl=SHORT)
    txn(etcd, success=[op_put(f"wire/expired/{name}", name, lease=lease.ID) for name in ["b", "a", "c"]])
    watch = Watches(etcd)
    watch.create("wire/expired/", range_end=end_of("wire/expired/"), prev_kv=True)
    answer = watch.next()
    return {
        "events": [shown(event) for event in answer.events],
        "one revision": len({event.kv.mod_revision for event in answer.events}),
        "lease of what was": {event.prev_kv.lease == lease.ID for event in answer.events} == {True},
    }


@scene("leases: the last second reads as zero, and never is negative before the end", waits=True)
def last_second(etcd):
    lease = grant(etcd, ttl=SHORT)
    seen = []

    def look():
        remaining = etcd.leasestub.LeaseTimeToLive(rpc.LeaseTimeToLiveRequest(ID=lease.ID)).TTL
        if remaining not in seen:
            seen.append(remaining)
        return remaining == -1

    until("the end of the lease", look)
    return [sorted(seen, reverse=True) == seen, 0 in seen, seen[-1], seen[0] <= lease.TTL]


# Watches.


@scene("watches: created with ids of their own or chosen, and cancelled")
def watch_ids(etcd):
    watch = Watches(etcd)
    answers = {
        "first": of_watch(watch.create("wire/ids")),
        "second": of_watch(watch.create("wire/ids")),
        "chosen": of_watch(watch.create("wire/ids", newer=CHOSEN_ID)),
        "chosen twice": of_watch(watch.create("wire/ids", newer=CHOSEN_ID)),
        "next": of_watch(watch.create("wire/ids")),
    }
    watch.cancel(0)
    answers["cancelled"] = of_watch(watch.next())
    put(etcd, "wire/ids", "1")
    seen = sorted(watch.next().watch_id for _ in range(3))
    answers["who sees"] = seen
    return answers


@scene("watches: the cancel of one that is not there is answered by nothing")
def cancel_unknown(etcd):
    watch = Watches(etcd)
    watch.create("wire/cancel")
    watch.cancel(55)
    put(etcd, "wire/cancel", "1")
    return [watch.events(1), watch.silent()]


@scene("watches: progress is told on request, never behind what was seen")
def progress(etcd):
    watch = Watches(etcd)
    watch.create("wire/progress")
    done = put(etcd, "wire/progress", "1")
    watch.events(1)
    watch.send(rpc.WatchRequest.FromString(PROGRESS))
    answer = watch.next()
    return [of_watch(answer), answer.header.revision >= done.header.revision]


@scene("watches: one key, a prefix, everything from a key")
def watch_ranges(etcd):
    cases = {"one": {"key": "wire/where/b"}, "prefix": {"key": "wire/where/", "range_end": end_of("wire/where/")},
             "from": {"key": "wire/where/b", "range_end": b"\0"}}
    watches = {}
    for name, where in cases.items():
        watches[name] = Watches(etcd)
        watches[name].create(**where)
    for name in "abc":
        put(etcd, "wire/where/" + name, name)
    return {name: watches[name].events(count) for name, count in [("one", 1), ("prefix", 3), ("from", 2)]}


@scene("watches: everything is watched from the zero byte to the zero byte")
def watch_everything(etcd):
    watch = Watches(etcd)
    watch.create("\0", range_end=b"\0")
    put(etcd, "wire/everything", "1")
    return watch.events(1)


@scene("watches: from the past, from now on, from the future")
def watch_start(etcd):
    first = put(etcd, "wire/start", "1").header.revision
    put(etcd, "wire/start", "2")
    watches = {name: Watches(etcd) for name in ["past", "now", "future"]}
    watches["past"].create("wire/start", start_revision=first, prev_kv=True)
    watches["now"].create("wire/start")
    ahead = get(etcd, "wire/none").header.revision + 3
    watches["future"].create("wire/start", start_revision=ahead)
    until("the future", lambda: put(etcd, "wire/start", "3").header.revision >= ahead)
    put(etcd, "wire/start", "4")
    future = watches["future"].next().events
    return {"past": watches["past"].events(2), "now": watches["now"].events(1),
            "the future begins at or after it": future[0].kv.mod_revision >= ahead}


@scene("watches: filters leave out puts or deletes, prev_kv brings what was")
def watch_filters(etcd):
    start = put(etcd, "wire/filter", "1").header.revision
    etcd.kvstub.DeleteRange(rpc.DeleteRangeRequest(key=b"wire/filter"))
    put(etcd, "wire/filter", "2")
    put(etcd, "wire/filter", "3")
    answers = {}
    for name, filters, count in [("none", [], 4), ("no puts", [0], 1), ("no deletes", [1], 3)]:
        watch = Watches(etcd)
        watch.create("wire/filter", start_revision=start, filters=filters, prev_kv=True)
        answers[name] = watch.events(count)
    return answers


@scene("watches: events of one transaction are in one answer, in the order of its writes")
def watch_together(etcd):
    watch = Watches(etcd)
    watch.create("wire/together/", range_end=end_of("wire/together/"))
    put(etcd, "wire/together/d", "0")
    watch.events(1)
    txn(etcd, success=[op_put("wire/together/b"), op_delete("wire/together/d"), op_put("wire/together/a")])
    answer = watch.next()
    return [[shown(event) for event in answer.events], {e.kv.mod_revision for e in answer.events} == {answer.header.revision}]


@scene("watches: a large answer comes in fragments if that is asked for")
def fragments(etcd):
    large = "x" * (MIB - 200 * 1024)
    start = put(etcd, "wire/fragment/a", large).header.revision
    put(etcd, "wire/fragment/b", large)
    put(etcd, "wire/fragment/c", large)
    watch = Watches(etcd)
    created = watch.create("wire/fragment/", FRAGMENT, range_end=end_of("wire/fragment/"), start_revision=start).created
    seen, sizes = [], []
    while len(seen) < 3:
        answer = watch.next()
        seen += [event.kv.key[-1:] for event in answer.events]
        sizes.append(answer.ByteSize() < 2 * MIB)
    return [created, seen, all(sizes)]


@scene("watches: nonsense is refused or cancelled at once")
def watch_nonsense(etcd):
    watch = Watches(etcd)
    backwards = of_watch(watch.create("wire/b", range_end=b"wire/a"))
    same = of_watch(watch.create("wire/b", range_end=b"wire/b"))
    return {"backwards": backwards, "empty": same}


# Refusals that belong to no other scene.


@scene("refusals: keys and values")
def refusals(etcd):
    delete = etcd.kvstub.DeleteRange
    return {
        "put without a key": refusal(lambda: put(etcd, "", "1")),
        "range without a key": refusal(lambda: get(etcd, "")),
        "delete without a key": refusal(lambda: delete(rpc.DeleteRangeRequest())),
        "more than 1.5 MiB": refusal(lambda: put(etcd, "wire/large", "x" * (MIB * 3 // 2 + 1024))),
        "just below": refusal(lambda: put(etcd, "wire/large", "x" * (MIB * 3 // 2 - 1024))),
    }


@scene("refusals: more than a message may carry")
def too_large(etcd):
    code, text = refusal(lambda: put(etcd, "wire/larger", "x" * (3 * MIB)))
    return [code, "larger than max" in text]


@scene("refusals: users and passwords where nobody asked for them")
def auth(etcd):
    stub = rpc.AuthStub(etcd.channel)
    return {
        "authenticate": refusal(lambda: stub.Authenticate(rpc.AuthenticateRequest(name="root", password="x"))),
        "enable without a root user": refusal(lambda: stub.AuthEnable(rpc.AuthEnableRequest())),
    }


@scene("refusals: a service and a method that are not there")
def unknown_method(etcd):
    def call(path):
        return refusal(lambda: etcd.channel.unary_unary(path)(b""))[0]

    return [call("/etcdserverpb.KV/Nothing"), call("/no.such.Service/Nothing")]


# The server.


@scene("server: status, members, alarms and hashes")
def server(etcd):
    status = etcd.maintenancestub.Status(rpc.StatusRequest())
    members = etcd.clusterstub.MemberList(rpc.MemberListRequest()).members
    alarms = etcd.maintenancestub.Alarm(rpc.AlarmRequest(action="GET"))
    return {
        "version": len(status.version.split(".")), "size": status.dbSize > 0, "index": status.raftIndex > 0,
        "term": status.raftTerm > 0, "leads": status.leader in {member.ID for member in members},
        "this member": status.header.member_id in {member.ID for member in members},
        "members": [[bool(m.ID), bool(m.name), bool(m.peerURLs), bool(m.clientURLs)] for m in members][:1],
        "alarms": len(alarms.alarms),
        "hash": etcd.maintenancestub.Hash(rpc.HashRequest()).hash >= 0,
    }


# Compaction, after everything else.


@scene("compaction: reads, watches and compactions below it are refused", last=True)
def compaction(etcd):
    first = put(etcd, "wire/compact/a", "1").header.revision
    second = put(etcd, "wire/compact/a", "2").header.revision
    third = put(etcd, "wire/compact/a", "3").header.revision

    def compact(revision, **more):
        return etcd.kvstub.Compact(rpc.CompactionRequest(revision=revision, **more))

    def at(revision):
        return get(etcd, "wire/compact/a", revision=revision).kvs[0].value

    done = compact(second, physical=True)
    watch = Watches(etcd)
    created = of_watch(watch.create("wire/compact/a", start_revision=first))
    ended = watch.next()
    return {
        "answers with the present revision": done.header.revision >= third,
        "below": refusal(lambda: at(first)),
        "at it": at(second),
        "now": at(0),
        "in a transaction": refusal(lambda: txn(etcd, success=[op_put("wire/compact/b"), op_get("wire/compact/a", revision=first)])),
        "compact again": refusal(lambda: compact(second)),
        "compact below": refusal(lambda: compact(first)),
        "compact none": refusal(lambda: compact(0)),
        "compact the future": refusal(lambda: compact(third + 1000)),
        "watch from below": [created, of_watch(ended), ended.compact_revision == second],
        "the stream lives on": of_watch(watch.create("wire/compact/a", start_revision=second))["created"],
        "and sees": watch.events(2),
    }


# A closed client's watching thread complains, so clients are left open.
play(connect, close=lambda client: None)
