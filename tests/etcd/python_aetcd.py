"""Python aetcd 1.0, the client for asyncio: keys, transactions, leases, locks and watches."""

import asyncio
import threading
import time

import aetcd
from aetcd import rtypes

from scenes import PATIENCE, host_and_port, play, scene

LONG = 60
SHORT = 2  # seconds; the least that etcd grants


# gRPC wants one loop per process: scenes that play together share it.
LOOP = asyncio.new_event_loop()
threading.Thread(target=LOOP.run_forever, daemon=True).start()


def with_client(function):
    """Makes a scene of an async function, with a client of its own."""

    async def run(endpoint):
        host, port = host_and_port(endpoint)
        async with aetcd.Client(host=host, port=port, timeout=10) as etcd:
            return await asyncio.wait_for(function(etcd), 2 * PATIENCE)

    return lambda endpoint: asyncio.run_coroutine_threadsafe(run(endpoint), LOOP).result()


async def refusal(call):
    try:
        await call
    except aetcd.RevisionCompactedError as error:
        return ["RevisionCompactedError", error.compacted_revision > 0]
    except aetcd.ClientError as error:
        return [type(error).__name__, *[str(arg) for arg in error.args]]
    return "accepted"


def shown(event):
    return [event.kind, event.kv.key, event.kv.value, event.prev_kv.value if event.prev_kv else None]


async def next_of(watch, count):
    found = []
    async for event in watch:
        found.append(event)
        if len(found) == count:
            return found
    return found


@scene("keys: what is put is read back, and its revisions tell its life")
@with_client
async def keys(etcd):
    first = await etcd.put(b"aio/a", b"1")
    second = await etcd.put(b"aio/a", b"2", prev_kv=True)
    kv = await etcd.get(b"aio/a")
    deleted = await etcd.delete(b"aio/a", prev_kv=True)
    return {
        "now": [kv.value, kv.version, kv.lease], "previous": second.prev_kv.value,
        "created with the first put": kv.create_revision == first.header.revision,
        "modified by the second": kv.mod_revision == second.header.revision,
        "deleted": deleted.prev_kv.value, "afterwards": [await etcd.get(b"aio/a"), await etcd.delete(b"aio/a")],
    }


@scene("keys: prefixes and ranges, sorted and limited")
@with_client
async def ranges(etcd):
    for name, value in [(b"b", b"2"), (b"a", b"3"), (b"c", b"1"), (b"b", b"4"), (b"b", b"5"), (b"a", b"6")]:
        await etcd.put(b"aio/range/" + name, value)
    answers = {}
    for target in ["key", "version", "create", "mod", "value"]:
        for order in ["ascend", "descend"]:
            found = await etcd.get_prefix(b"aio/range/", sort_order=order, sort_target=target)
            answers[f"{target} {order}"] = [kv.value for kv in found]
    answers["range"] = [kv.value for kv in await etcd.get_range(b"aio/range/a", b"aio/range/c")]
    answers["deleted"] = (await etcd.delete_range(b"aio/range/a", b"aio/range/c")).deleted
    answers["deleted prefix"] = (await etcd.delete_prefix(b"aio/range/")).deleted
    return answers


@scene("keys: replaced only over what is expected")
@with_client
async def replace(etcd):
    await etcd.put(b"aio/replace", b"1")
    return [await etcd.replace(b"aio/replace", b"1", b"2"), await etcd.replace(b"aio/replace", b"1", b"3"),
            (await etcd.get(b"aio/replace")).value]


@scene("transactions: compared, both branches, nested")
@with_client
async def transactions(etcd):
    t = etcd.transactions
    await etcd.put(b"aio/txn", b"m")
    kv = await etcd.get(b"aio/txn")

    async def holds(compare):
        return (await etcd.transaction(compare=[compare], success=[], failure=[]))[0]

    compares = {
        "value": [t.value(b"aio/txn") == b"m", t.value(b"aio/txn") > b"n", t.value(b"aio/txn") < b"n", t.value(b"aio/txn") != b"m"],
        "version": [t.version(b"aio/txn") == 1, t.version(b"aio/txn") > 1, t.version(b"aio/none") == 0],
        "create": [t.create(b"aio/txn") == kv.create_revision, t.create(b"aio/none") == 0],
        "mod": [t.mod(b"aio/txn") == kv.mod_revision, t.mod(b"aio/txn") < kv.mod_revision],
    }
    answers = {name: [await holds(compare) for compare in group] for name, group in compares.items()}
    inner = t.txn(compare=[t.create(b"aio/txn/b") == 0], success=[t.put(b"aio/txn/b", b"inner")], failure=[])
    done = await etcd.transaction(
        compare=[t.version(b"aio/txn") == 1], success=[t.put(b"aio/txn", b"outer"), inner], failure=[])
    a, b = await etcd.get(b"aio/txn"), await etcd.get(b"aio/txn/b")
    answers["nested"] = [done[0], a.value, b.value, a.mod_revision == b.mod_revision]
    failed = await etcd.transaction(
        compare=[t.version(b"aio/txn") == 9], success=[], failure=[t.get(b"aio/txn"), t.delete(b"aio/txn/b")])
    answers["failed"] = [failed[0], len(failed[1]), await etcd.get(b"aio/txn/b")]
    return answers


@scene("leases: granted, read, renewed, revoked")
@with_client
async def leases(etcd):
    lease = await etcd.lease(LONG)
    for name in [b"b", b"a"]:
        await etcd.put(b"aio/lease/" + name, name, lease=lease)
    answers = {"ttl": lease.ttl, "granted": await lease.granted_ttl(), "keys": sorted(await lease.keys()),
               "remaining": LONG - 10 < await lease.remaining_ttl() <= LONG, "renewed": (await lease.refresh()).TTL}
    await lease.revoke()
    answers["afterwards"] = [await lease.remaining_ttl(), await lease.granted_ttl(), (await lease.refresh()).TTL,
                             await etcd.get(b"aio/lease/a")]
    answers["revoked again"] = await refusal(lease.revoke())
    answers["put with it"] = await refusal(etcd.put(b"aio/lease/c", b"1", lease=lease))
    return answers


@scene("leases: an id can be chosen, once; a ttl is raised or refused")
@with_client
async def chosen(etcd):
    lease = await etcd.lease(LONG, lease_id=31337)
    return [lease.id, await refusal(etcd.lease(LONG, lease_id=31337)), (await etcd.lease(0)).ttl >= 1,
            await refusal(etcd.lease(9_000_000_001))]


@scene("leases: a watch sees all keys of an ended lease go, in order", waits=True)
@with_client
async def expiry(etcd):
    lease = await etcd.lease(SHORT)
    for name in [b"c", b"a", b"b"]:
        last = await etcd.put(b"aio/expiry/" + name, name, lease=lease)
    watch = await etcd.watch_prefix(b"aio/expiry/", start_revision=last.header.revision + 1, prev_kv=True)
    events = await next_of(watch, 3)
    await watch.cancel()
    return [[shown(event) for event in events], len({event.kv.mod_revision for event in events})]


@scene("locks: one of two holds, the other gets it on release")
@with_client
async def locks(etcd):
    ann, bob = etcd.lock(b"aio/lock", ttl=LONG), etcd.lock(b"aio/lock", ttl=LONG)
    taken, refused = await ann.acquire(), await bob.acquire(timeout=0.2)
    waiting = asyncio.create_task(bob.acquire(timeout=PATIENCE))
    held = [await ann.is_acquired(), await bob.is_acquired(), waiting.done()]
    released = await ann.release()
    got = await waiting
    return {"taken": taken, "refused": refused, "held": held, "released": released, "got": got,
            "then": [await ann.is_acquired(), await bob.is_acquired(), await ann.release(), await bob.release()]}


@scene("locks: a dead holder's lock goes to the waiter", waits=True)
@with_client
async def death(etcd):
    ann, bob = etcd.lock(b"aio/death", ttl=SHORT), etcd.lock(b"aio/death", ttl=LONG)
    started = time.monotonic()
    taken = await ann.acquire()
    got = await bob.acquire(timeout=PATIENCE)
    return [taken, got, time.monotonic() - started >= SHORT, await ann.is_acquired(), (await ann.refresh()).TTL]


@scene("locks: many contenders exclude each other")
@with_client
async def exclusion(etcd):
    inside, most, entered = 0, 0, 0

    async def work():
        nonlocal inside, most, entered
        for _ in range(3):
            lock = etcd.lock(b"aio/many", ttl=LONG)
            assert await lock.acquire(timeout=PATIENCE)
            inside, entered = inside + 1, entered + 1
            most = max(most, inside)
            await asyncio.sleep(0.01)
            inside -= 1
            await lock.release()

    await asyncio.gather(*[work() for _ in range(3)])
    return {"entered": entered, "at once": most}


@scene("watches: puts and deletes in order, with what was before")
@with_client
async def watches(etcd):
    start = (await etcd.put(b"aio/watch", b"0")).header.revision
    watch = await etcd.watch(b"aio/watch", start_revision=start, prev_kv=True)
    await etcd.put(b"aio/watch", b"1")
    await etcd.delete(b"aio/watch")
    await etcd.put(b"aio/watch", b"2")
    events = await next_of(watch, 4)
    await watch.cancel()
    return [shown(event) for event in events]


@scene("watches: only puts, only deletes, several on one stream")
@with_client
async def kinds(etcd):
    start = (await etcd.put(b"aio/kinds", b"1")).header.revision
    await etcd.delete(b"aio/kinds")
    await etcd.put(b"aio/kinds", b"2")
    puts = await etcd.watch(b"aio/kinds", start_revision=start, kind=rtypes.EventKind.PUT)
    deletes = await etcd.watch(b"aio/kinds", start_revision=start, kind=rtypes.EventKind.DELETE)
    answer = [[shown(event) for event in await next_of(puts, 2)], [shown(event) for event in await next_of(deletes, 1)]]
    await puts.cancel()
    await deletes.cancel()
    return answer


@scene("watches: once, or not in time")
@with_client
async def once(etcd):
    late = await refusal(etcd.watch_once(b"aio/once", timeout=0.2))
    start = (await etcd.put(b"aio/once", b"1")).header.revision
    return [late, shown(await etcd.watch_once(b"aio/once", timeout=PATIENCE, start_revision=start))]


@scene("refusals: as the client raises them")
@with_client
async def refusals(etcd):
    t = etcd.transactions
    return {
        "no key": await refusal(etcd.put(b"", b"1")),
        "a key twice": await refusal(etcd.transaction([], [t.put(b"aio/x", b"1"), t.put(b"aio/x", b"2")], [])),
        "129 operations": await refusal(etcd.transaction([], [t.put(b"aio/x%d" % n, b"") for n in range(129)], [])),
    }


@scene("server: status, members, alarms")
@with_client
async def server(etcd):
    status = await etcd.status()
    members = [member async for member in etcd.members()]
    return {"version": len(status.version.split(".")), "size": status.db_size > 0, "term": status.raft_term > 0,
            "leads": status.leader is not None and status.leader.id in {member.id for member in members},
            "alarms": [alarm async for alarm in etcd.list_alarms()]}


@scene("compaction: what is older than it cannot be watched", last=True)
@with_client
async def compaction(etcd):
    first = (await etcd.put(b"aio/compact", b"1")).header.revision
    second = (await etcd.put(b"aio/compact", b"2")).header.revision
    await etcd.compact(second)

    async def watch_from(revision):
        watch = await etcd.watch(b"aio/compact", start_revision=revision)
        return shown((await next_of(watch, 1))[0])

    return {"from before": await refusal(watch_from(first)), "from there": await watch_from(second),
            "again": await refusal(etcd.compact(second)), "the future": await refusal(etcd.compact(second + 1000))}


play(lambda endpoint: endpoint, close=lambda endpoint: None)
