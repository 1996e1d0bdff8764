"""Python etcd3 0.12, used as its users do: keys, transactions, leases, locks, watches and what it tells of the server."""

import threading
import time

import etcd3
import grpc

from scenes import host_and_port, play, scene, until

LONG = 60  # a ttl that does not end within a run
SHORT = 2  # seconds; the least that etcd grants


def connect(endpoint):
    host, port = host_and_port(endpoint)
    return etcd3.client(host=host, port=port, timeout=10)


def refusal(call):
    """How the client shows a refusal to its user."""
    try:
        call()
    except grpc.RpcError as error:
        return {"raises": "RpcError", "code": error.code().name, "text": error.details()}
    except etcd3.exceptions.RevisionCompactedError as error:
        return {"raises": "RevisionCompactedError", "names the revision": error.compacted_revision > 0}
    except etcd3.Etcd3Exception as error:
        return {"raises": type(error).__name__}
    return "accepted"


def shown(event):
    kind = type(event).__name__
    return [kind, event.key, event.value, event.prev_value]


# Keys.


@scene("keys: what is put is read back, and its revisions tell its life")
def put_and_get(etcd):
    first = etcd.put("python/put/a", "1").header.revision
    value, before = etcd.get("python/put/a")
    second = etcd.put("python/put/a", "2", prev_kv=True)
    again, after = etcd.get("python/put/a")
    return {
        "values": [value, second.prev_kv.value, again],
        "versions": [before.version, after.version],
        "created with the first put": before.create_revision == before.mod_revision == first,
        "modified by the second": after.mod_revision == second.header.revision > first,
        "creation stays": after.create_revision == first,
        "lease": after.lease_id,
    }


@scene("keys: a key that is not there has no value")
def missing(etcd):
    return [etcd.get("python/missing"), etcd.delete("python/missing")]


@scene("keys: a key created again starts at version 1 with a new creation")
def created_again(etcd):
    etcd.put("python/again", "1")
    _, before = etcd.get("python/again")
    deleted = etcd.delete("python/again")
    etcd.put("python/again", "2")
    _, after = etcd.get("python/again")
    return [deleted, after.version, after.create_revision > before.create_revision]


@scene("keys: put_if_not_exists puts once, replace only over what it expects")
def conditional(etcd):
    return {
        "first": etcd.put_if_not_exists("python/once", "1"),
        "second": etcd.put_if_not_exists("python/once", "2"),
        "replace what is there": etcd.replace("python/once", "1", "3"),
        "replace what is not": etcd.replace("python/once", "1", "4"),
        "in the end": etcd.get("python/once")[0],
    }


@scene("keys: a prefix is read and deleted as a whole")
def prefix(etcd):
    for name in ["b", "a", "c"]:
        etcd.put("python/prefix/" + name, name)
    etcd.put("python/prefix0", "outside")
    found = [value for value, _ in etcd.get_prefix("python/prefix/")]
    deleted = etcd.delete_prefix("python/prefix/")
    left = [value for value, _ in etcd.get_prefix("python/prefix")]
    return {"found": found, "deleted": deleted.deleted, "left": left}


@scene("keys: ranges are sorted by anything, either way")
def sorted_ranges(etcd):
    for name, value in [("b", "2"), ("a", "3"), ("c", "1"), ("a", "4"), ("b", "3"), ("a", "5")]:
        etcd.put("python/sort/" + name, value)
    answers = {}
    for target in ["key", "create", "mod", "version", "value"]:
        for order in ["ascend", "descend"]:
            found = etcd.get_prefix("python/sort/", sort_order=order, sort_target=target)
            answers[f"{target} {order}"] = [meta.key.decode()[-1] for _, meta in found]
    return answers


@scene("keys: a range ends before its end, keys can come alone, everything can be read")
def ranges(etcd):
    for name in "abc":
        etcd.put("python/range/" + name, name)
    half = [value for value, _ in etcd.get_range("python/range/a", "python/range/c")]
    alone = [[value, meta.key] for value, meta in etcd.get_prefix("python/range/", keys_only=True)]
    everything = {meta.key for _, meta in etcd.get_all()}
    return {"half": half, "keys alone": alone, "all": {b"python/range/a", b"python/range/c"} <= everything}


# Transactions.


@scene("transactions: each comparison decides between both branches")
def comparisons(etcd):
    etcd.put("python/compare", "m")
    _, meta = etcd.get("python/compare")
    t = etcd.transactions
    targets = {
        "version": (t.version, 1, 0, 2),
        "create": (t.create, meta.create_revision, meta.create_revision - 1, meta.create_revision + 1),
        "mod": (t.mod, meta.mod_revision, meta.mod_revision - 1, meta.mod_revision + 1),
        "value": (t.value, "m", "a", "z"),
    }
    answers = {}
    for name, (target, equal, less, more) in targets.items():
        key = "python/compare"
        tests = {
            "== equal": target(key) == equal, "== other": target(key) == less,
            "!= equal": target(key) != equal, "!= other": target(key) != less,
            "> less": target(key) > less, "> equal": target(key) > equal,
            "< more": target(key) < more, "< equal": target(key) < equal,
        }
        answers[name] = {test: etcd.transaction([compare], [], [])[0] for test, compare in tests.items()}
    missing = "python/compare/missing"
    answers["missing"] = {
        "version == 0": etcd.transaction([t.version(missing) == 0], [], [])[0],
        "create == 0": etcd.transaction([t.create(missing) == 0], [], [])[0],
        "value == ''": etcd.transaction([t.value(missing) == ""], [], [])[0],
        "value != 'x'": etcd.transaction([t.value(missing) != "x"], [], [])[0],
    }
    return answers


@scene("transactions: all comparisons must hold, and everything happens at one revision")
def branches(etcd):
    t = etcd.transactions
    etcd.put("python/txn/a", "1")
    both = [t.value("python/txn/a") == "1", t.create("python/txn/b") == 0]
    first = etcd.transaction(both, [t.put("python/txn/b", "2"), t.put("python/txn/c", "3"), t.get("python/txn/b")], [])
    second = etcd.transaction(both, [], [t.get("python/txn/a"), t.delete("python/txn/b", prev_kv=True)])
    kept = etcd.get("python/txn/c")[1]
    return {
        "first": [first[0], [v for v, _ in first[1][2]]],
        "put at one revision": kept.mod_revision == first[1][2][0][1].mod_revision,
        "second": [second[0], [v for v, _ in second[1][0]], second[1][1].response_delete_range.deleted,
                   second[1][1].response_delete_range.prev_kvs[0].value],
        "deleted": etcd.get("python/txn/b")[0],
    }


@scene("transactions: one stands in another")
def nested(etcd):
    t = etcd.transactions
    inner = t.txn([t.create("python/nested/b") == 0], [t.put("python/nested/b", "inner")], [t.get("python/nested/b")])
    succeeded, answers = etcd.transaction([t.create("python/nested/a") == 0], [t.put("python/nested/a", "outer"), inner], [])
    again, _ = etcd.transaction([t.version("python/nested/a") == 1], [inner], [])
    a, b = etcd.get("python/nested/a"), etcd.get("python/nested/b")
    return {
        "succeeded": [succeeded, again],
        "inner answered": len(answers),
        "values": [a[0], b[0]],
        "one revision": a[1].mod_revision == b[1].mod_revision,
    }


# Leases.


@scene("leases: a lease is granted, renewed, read and revoked")
def lease_life(etcd):
    lease = etcd.lease(LONG)
    etcd.put("python/lease/b", "2", lease=lease)
    etcd.put("python/lease/a", "1", lease=lease)
    renewed = lease.refresh()[0]
    info = etcd.get_lease_info(lease.id)
    bound = etcd.get("python/lease/a")[1].lease_id == lease.id
    lease.revoke()
    return {
        "ttl": lease.ttl,
        "positive id": lease.id > 0,
        "renewed to": [renewed.ID == lease.id, renewed.TTL],
        "granted": info.grantedTTL,
        "remaining is at most that": LONG - 10 < info.TTL <= LONG,
        "keys": sorted(info.keys),
        "key tells its lease": bound,
        "keys go with it": [etcd.get("python/lease/a")[0], etcd.get("python/lease/b")[0]],
        "afterwards": [etcd.get_lease_info(lease.id).TTL, lease.granted_ttl, list(lease.keys)],
    }


@scene("leases: an id can be chosen, once")
def chosen_id(etcd):
    lease = etcd.lease(LONG, lease_id=4711)
    answer = [lease.id, refusal(lambda: etcd.lease(LONG, lease_id=4711))]
    lease.revoke()
    return answer + [etcd.lease(LONG, lease_id=4711).id]


@scene("leases: a ttl below the least is raised")
def raised_ttl(etcd):
    return {ttl: etcd.lease(ttl).ttl >= max(ttl, 1) for ttl in [1, 0, -1]}


@scene("leases: what is gone is told as gone")
def lost_lease(etcd):
    lease = etcd.lease(LONG)
    lease.revoke()
    return {
        "renewal": [answer.TTL for answer in lease.refresh()],
        "remaining": [lease.remaining_ttl, lease.granted_ttl],
        "never there": etcd.get_lease_info(99).TTL,
        "revoke": refusal(lease.revoke),
        "put": refusal(lambda: etcd.put("python/lost", "1", lease=lease)),
        "put in a transaction": refusal(
            lambda: etcd.transaction([], [etcd.transactions.put("python/lost", "1", lease=lease)], [])),
    }


@scene("leases: a put without a lease detaches the key")
def detach(etcd):
    lease = etcd.lease(LONG)
    etcd.put("python/detach", "1", lease=lease)
    etcd.put("python/detach", "2")
    keys = list(lease.keys)
    lease.revoke()
    return [keys, etcd.get("python/detach")[0]]


@scene("leases: a key moves to another lease")
def move(etcd):
    old, new = etcd.lease(LONG), etcd.lease(LONG)
    etcd.put("python/move", "1", lease=old)
    etcd.put("python/move", "1", lease=new)
    keys = [list(old.keys), list(new.keys)]
    old.revoke()
    kept = etcd.get("python/move")[0]
    new.revoke()
    return [keys, kept, etcd.get("python/move")[0]]


@scene("leases: a watch sees all keys of an ended lease go at once, in order", waits=True)
def expiry(etcd):
    lease = etcd.lease(SHORT)
    for name in ["c", "a", "b"]:
        etcd.put("python/expiry/" + name, name, lease=lease)
    responses, cancel = etcd.watch_prefix_response("python/expiry/", prev_kv=True)
    etcd.put("python/expiry/z", "stays")
    stays = next(responses)
    gone = next(responses)
    cancel()
    revisions = {event._event.kv.mod_revision for event in gone.events}
    return {
        "first": [shown(event) for event in stays.events],
        "then": [shown(event) for event in gone.events],
        "one revision": revisions == {gone.header.revision},
        "lease": lease.remaining_ttl,
    }


@scene("leases: a renewed lease lives on, an unrenewed one ends", waits=True)
def renewal(etcd):
    kept, left = etcd.lease(SHORT), etcd.lease(SHORT)
    etcd.put("python/renewed/kept", "1", lease=kept)
    etcd.put("python/renewed/left", "1", lease=left)

    def renew():
        answered = kept.refresh()[0].TTL
        assert answered == kept.ttl, f"the renewed lease was lost: {answered}"
        return etcd.get("python/renewed/left")[0] is None

    until("the end of the other lease", renew)
    return [etcd.get("python/renewed/kept")[0], left.remaining_ttl, left.refresh()[0].TTL]


# Locks.


def get(lock):
    """Waits for a lock. The client misses a release between its look and its watch, so it is asked again."""
    return until("the lock", lambda: lock.acquire(timeout=1))


@scene("locks: one of two holds, the other gets it on release")
def hand_over(etcd):
    ann, bob = etcd.lock("python/release", ttl=LONG), etcd.lock("python/release", ttl=LONG)
    taken = ann.acquire()
    refused = bob.acquire(timeout=0.2)
    held = [ann.is_acquired(), bob.is_acquired()]
    got = []
    waiter = threading.Thread(target=lambda: got.append(get(bob)))
    waiter.start()
    released = ann.release()
    waiter.join()
    then = [ann.is_acquired(), bob.is_acquired()]
    return {"taken": taken, "refused": refused, "held": held, "released": released, "got": got, "then": then,
            "released by who has it not": ann.release(), "released by who has it": bob.release()}


@scene("locks: a dead holder's lock goes to the waiter", waits=True)
def death(etcd):
    ann, bob = etcd.lock("python/death", ttl=SHORT), etcd.lock("python/death", ttl=LONG)
    started = time.monotonic()
    taken = ann.acquire()
    got = get(bob)
    return {"taken": taken, "got": got, "not early": time.monotonic() - started >= ann.lease.ttl,
            "holders": [ann.is_acquired(), bob.is_acquired()], "renewal of the dead": ann.refresh()[0].TTL}


@scene("locks: a refreshed lock is kept", waits=True)
def refreshed(etcd):
    lock, other = etcd.lock("python/refreshed", ttl=SHORT), etcd.lock("python/refreshed", ttl=LONG)
    lock.acquire()
    started = time.monotonic()
    while time.monotonic() - started < 2 * lock.lease.ttl:
        lock.refresh()
        time.sleep(0.3)
    return [lock.is_acquired(), other.acquire(timeout=0.1)]


@scene("locks: many contenders exclude each other")
def exclusion(etcd):
    inside, most, entered, guard = 0, 0, 0, threading.Lock()

    def work():
        nonlocal inside, most, entered
        client = etcd3.client(*etcd._url.split(":"), timeout=30)
        for _ in range(3):
            lock = client.lock("python/many", ttl=LONG)
            get(lock)
            with guard:
                inside, entered = inside + 1, entered + 1
                most = max(most, inside)
            time.sleep(0.01)
            with guard:
                inside -= 1
            lock.release()

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {"entered": entered, "at once": most}


# Watches.


@scene("watches: puts and deletes come in order, with what was before")
def watch(etcd):
    etcd.put("python/watch/a", "0")
    events, cancel = etcd.watch("python/watch/a", prev_kv=True)
    etcd.put("python/watch/a", "1")
    etcd.put("python/watch/b", "other")
    etcd.delete("python/watch/a")
    etcd.put("python/watch/a", "2")
    seen = [shown(next(events)) for _ in range(3)]
    cancel()
    return {"seen": seen, "after cancel": list(events)}


@scene("watches: from an old revision nothing is missed")
def watch_from(etcd):
    start = etcd.put("python/old/a", "1").header.revision
    etcd.put("python/old/b", "2")
    etcd.delete("python/old/a")
    events, cancel = etcd.watch_prefix("python/old/", start_revision=start)
    seen = [shown(next(events)) for _ in range(3)]
    cancel()
    return seen


@scene("watches: several on one stream see their own keys only")
def several(etcd):
    watches = [etcd.watch_prefix(f"python/several/{name}/") for name in "ab"]
    etcd.put("python/several/b/1", "b")
    etcd.put("python/several/a/1", "a")
    seen = [shown(next(events)) for events, _ in watches]
    for _, cancel in watches:
        cancel()
    return seen


@scene("watches: all of one transaction comes in one response")
def one_response(etcd):
    responses, cancel = etcd.watch_prefix_response("python/together/")
    t = etcd.transactions
    etcd.transaction([], [t.put("python/together/b", "1"), t.put("python/together/a", "2")], [])
    seen = [shown(event) for event in next(responses).events]
    cancel()
    return seen


@scene("watches: once, or not in time")
def once(etcd):
    late = refusal(lambda: etcd.watch_once("python/once-only", timeout=0.2))
    seen = threading.Event()

    def put():
        while not seen.wait(0.1):
            etcd.put("python/once-only", "1")

    putter = threading.Thread(target=put)
    putter.start()
    event = shown(etcd.watch_once("python/once-only", timeout=30))
    seen.set()
    putter.join()
    return [late, event]


# The server.


@scene("server: status, members and alarms have their usual shape")
def server(etcd):
    status, members = etcd.status(), list(etcd.members)
    return {
        "version is of three numbers": len([int(part) for part in status.version.split(".")]),
        "has a size": status.db_size > 0,
        "has a leader among the members": status.leader.id in {member.id for member in members},
        "has a term": status.raft_term > 0,
        "members have names": all(member.name for member in members),
        "members have client urls": all(url.startswith("http://") for member in members for url in member.client_urls),
        "alarms": list(etcd.list_alarms()),
    }


# Compaction, after everything else.


@scene("compaction: what is older than it cannot be watched", last=True)
def compacted(etcd):
    first = etcd.put("python/compacted", "1").header.revision
    second = etcd.put("python/compacted", "2").header.revision
    etcd.put("python/compacted", "3")
    etcd.compact(second)

    def watch_from(revision):
        events, cancel = etcd.watch("python/compacted", start_revision=revision)
        seen = shown(next(events))
        cancel()
        return seen

    return {
        "from before": refusal(lambda: watch_from(first)),
        "from there": watch_from(second),
        "again": refusal(lambda: etcd.compact(second)),
        "from before it again": refusal(lambda: etcd.compact(first)),
        "the future": refusal(lambda: etcd.compact(second + 1000)),
        "the present stays": etcd.get("python/compacted")[0],
    }


# A closed client's watching thread complains, so clients are left open.
play(connect, close=lambda client: None)
