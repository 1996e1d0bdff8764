"""Debian's etcdctl 3.4, as operators and scripts use it. It is written in Go with the Go client and its recipes, so its
locks and elections are those of every program in Go."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time

from scenes import PATIENCE, go_on_after, play, scene, until

PROGRAM = os.environ.get("LEASEHOLD_ETCDCTL", "etcdctl")
SHORT = "2"  # seconds


class Ctl:
    def __init__(self, endpoint):
        # Operators write both forms, most of them this one; `server: …` has a scene for the other.
        self.endpoint = endpoint.replace("http://", "")
        self.running = []

    def words(self, words):
        return [PROGRAM, "--endpoints", self.endpoint, *words]

    def __call__(self, *words, stdin=""):
        """Runs it to its end: what it printed, or how it refused."""
        done = subprocess.run(self.words(words), input=stdin, capture_output=True, text=True, timeout=PATIENCE)
        if done.returncode == 0:
            return done.stdout.rstrip("\n").split("\n")
        code = re.findall(r"rpc error: code = (\w+)", done.stderr)
        said = [line for line in done.stderr.splitlines() if not line.startswith("{")]
        return {"exit": done.returncode, "code": code[-1:], "said": said, "printed": done.stdout.splitlines()}

    def json(self, *words):
        answer = self(*words, "-w", "json")
        assert isinstance(answer, list), answer
        return json.loads(answer[0])

    def count(self, prefix):
        return len([key for key in self("get", prefix, "--prefix", "--keys-only") if key])

    def start(self, *words):
        """Starts it and lets it run."""
        process = Running(self.words(words))
        self.running.append(process)
        return process

    def close(self):
        for process in self.running:
            process.end(signal.SIGKILL)


class Running:
    """A running etcdctl; its lines are read as they come."""

    def __init__(self, words):
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, text=True)
        self.lines = []
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))

    def until_lines(self, count):
        return until(f"{count} lines after {self.lines}", lambda: self.lines[:count] if len(self.lines) >= count else None)

    def end(self, by=signal.SIGINT):
        if self.process.poll() is None:
            self.process.send_signal(by)
        return self.process.wait(PATIENCE)


def lease_of(granted):
    """The id in what `lease grant` printed."""
    return re.match(r"lease (\w+) granted with TTL\((\d+)s\)", granted[0]).group(1)


def without_ids(lines):
    """Leases and times replaced by what they are."""
    if isinstance(lines, dict):
        return {**lines, "printed": without_ids(lines["printed"]), "said": without_ids(lines["said"])}
    return [re.sub(r"remaining\(\d+s\)", "remaining(…)", re.sub(r"\b[0-9a-f]{16}\b", "<id>", line)) for line in lines]


# Keys.


@scene("keys: put, get and del print what they did")
def keys(ctl):
    return {
        "put": ctl("put", "ctl/a", "1"),
        "get": ctl("get", "ctl/a"),
        "put over": ctl("put", "ctl/a", "2", "--prev-kv"),
        "put from stdin": ctl("put", "ctl/b", stdin="from stdin"),
        "get value": ctl("get", "ctl/b", "--print-value-only"),
        "get none": ctl("get", "ctl/none"),
        "del": ctl("del", "ctl/a", "--prev-kv"),
        "del none": ctl("del", "ctl/a"),
        "hex": ctl("get", "ctl/b", "--hex"),
    }


@scene("keys: put can leave value or lease as they are")
def ignoring(ctl):
    lease = lease_of(ctl("lease", "grant", "60"))
    ctl("put", "ctl/ignore", "1", "--lease", lease)
    return {
        "value": ctl("put", "ctl/ignore", "--ignore-value"),
        "lease": ctl("put", "ctl/ignore", "2", "--ignore-lease"),
        "value of none": ctl("put", "ctl/ignore/none", "--ignore-value"),
        "lease of none": ctl("put", "ctl/ignore/none", "1", "--ignore-lease"),
        "unknown lease": ctl("put", "ctl/ignore", "1", "--lease", "99"),
        "no key": ctl("get", ""),
        "in the end": ctl("get", "ctl/ignore"),
    }


@scene("ranges: every option of get")
def ranges(ctl):
    for name, value in [("b", "2"), ("a", "3"), ("c", "1"), ("b", "5"), ("b", "6"), ("a", "4")]:
        ctl("put", "ctl/range/" + name, value)
    cases = {
        "prefix": ["ctl/range/", "--prefix"],
        "range": ["ctl/range/a", "ctl/range/c"],
        "limit": ["ctl/range/", "--prefix", "--limit", "2"],
        "keys only": ["ctl/range/", "--prefix", "--keys-only"],
        "serializable": ["ctl/range/a", "--consistency", "s"],
    }
    for target in ["CREATE", "KEY", "MODIFY", "VALUE", "VERSION"]:
        for order in ["ASCEND", "DESCEND"]:
            cases[f"{target} {order}"] = ["ctl/range/", "--prefix", "--order", order, "--sort-by", target,
                                          "--print-value-only"]
    answers = {name: ctl("get", *words) for name, words in cases.items()}
    limited = ctl.json("get", "ctl/range/", "--prefix", "--limit", "2")
    answers["more and count"] = [limited["more"], limited["count"]]
    answers["from key"] = ctl("get", "ctl/range/b", "--from-key")[:4]
    answers["deleted"] = [ctl("del", "ctl/range/a", "ctl/range/c"), ctl("del", "ctl/range/", "--prefix")]
    return answers


@scene("ranges: as they were, and not as they will be")
def old(ctl):
    first = ctl.json("put", "ctl/old", "1")["header"]["revision"]
    ctl("put", "ctl/old", "2")
    return [ctl("get", "ctl/old", "--rev", str(first)), ctl("get", "ctl/old"),
            ctl("get", "ctl/old", "--rev", str(first + 1000))]


@scene("transactions: compared, then one branch or the other")
def transactions(ctl):
    ctl("put", "ctl/txn", "m")
    kv = ctl.json("get", "ctl/txn")["kvs"][0]

    def branch(compare):
        lines = ctl("txn", stdin=f"{compare}\n\nget ctl/txn\n\nget ctl/none\n\n")
        return lines if isinstance(lines, dict) else lines[0]

    created, changed = kv["create_revision"], kv["mod_revision"]
    compares = ['value("ctl/txn") = "m"', 'value("ctl/txn") > "n"', 'value("ctl/txn") < "n"', 'ver("ctl/txn") = "1"',
                'version("ctl/none") = "0"', 'value("ctl/none") = ""']
    answers = {compare: branch(compare) for compare in compares}
    answers["created then"] = branch(f'c("ctl/txn") = "{created}"')
    answers["created later"] = branch(f'create("ctl/txn") > "{created}"')
    answers["changed then"] = branch(f'mod("ctl/txn") = "{changed}"')
    answers["changed earlier"] = branch(f'm("ctl/txn") < "{changed}"')
    answers["everything"] = ctl("txn", stdin='mod("ctl/txn") > "0"\n\nput ctl/txn n\nput ctl/txn/b 1\ndel ctl/none\n'
                                             "get ctl/txn --prefix\n\nput ctl/txn wrong\n\n")
    answers["a key twice"] = ctl("txn", stdin='mod("ctl/txn") > "0"\n\nput ctl/txn 1\nput ctl/txn 2\n\n\n')
    return answers


# Leases.


@scene("leases: granted, listed, read, renewed, revoked")
def leases(ctl):
    granted = ctl("lease", "grant", "60")
    lease = lease_of(granted)
    ctl("put", "ctl/lease/a", "1", "--lease", lease)
    ctl("put", "ctl/lease/b", "2", "--lease", lease)
    listed = ctl("lease", "list")
    answers = {
        "granted": without_ids(granted),
        "listed": [re.sub(r"\d+", "<n>", listed[0]), lease in listed],
        "renewed": without_ids(ctl("lease", "keep-alive", "--once", lease)),
        "read": without_ids(ctl("lease", "timetolive", lease)),
        "keys": sorted(re.search(r"keys\(\[(.*)\]\)", ctl("lease", "timetolive", lease, "--keys")[0]).group(1).split()),
        "revoked": without_ids(ctl("lease", "revoke", lease)),
        "keys went": [ctl("get", "ctl/lease/", "--prefix")],
        "read again": without_ids(ctl("lease", "timetolive", lease)),
        "renewed again": without_ids(ctl("lease", "keep-alive", "--once", lease)),
        "kept alive": without_ids(ctl("lease", "keep-alive", lease)),
        "revoked again": without_ids(ctl("lease", "revoke", lease)),
        "too long": ctl("lease", "grant", "9000000001"),
    }
    return answers


@scene("leases: kept alive it lives, and a watch sees the end of one that is not", waits=True)
def keep_alive(ctl):
    kept, left = [lease_of(ctl("lease", "grant", SHORT)) for _ in range(2)]
    start = ctl.json("put", "ctl/alive/kept", "1", "--lease", kept)["header"]["revision"]
    alive = ctl.start("lease", "keep-alive", kept)
    watch = ctl.start("watch", "ctl/alive/", "--prefix", "--rev", str(start))
    ctl("put", "ctl/alive/left", "1", "--lease", left)
    seen = watch.until_lines(8)
    renewals = alive.until_lines(4)
    answers = {"seen": seen, "renewals": without_ids(sorted(set(renewals))), "kept": ctl("get", "ctl/alive/kept")}
    ctl("lease", "revoke", kept)
    until("the end of keep-alive", lambda: alive.process.poll() is not None)
    answers["in the end"] = without_ids(alive.lines[-1:])
    return answers


# Locks and elections.


@scene("locks: in the order of arrival, handed over by release and by death", waits=True)
def locks(ctl):
    holders = []

    def contend():
        process = ctl.start("lock", "ctl/lock", "--ttl", SHORT)
        holders.append(process)
        # The next comes when this one is in the queue.
        until("a place in the queue", lambda: ctl.count("ctl/lock/") >= len(holders))
        return process

    ann, bob, cid = contend(), contend(), contend()
    first = ann.until_lines(1)[0]
    queue = ctl("get", "ctl/lock/", "--prefix", "--keys-only", "--sort-by", "CREATE")
    others = [list(bob.lines), list(cid.lines)]
    released = ann.end()
    second = bob.until_lines(1)[0]
    waiting = list(cid.lines)
    # Dead, not released: its lease must end first.
    bob.end(signal.SIGKILL)
    third = cid.until_lines(1)[0]
    cid.end()
    places = [key for key in queue if key]
    return {
        "key": re.sub(r"/[0-9a-f]+$", "/<lease>", first),
        "the others waited": others + [waiting],
        "released": released,
        "in the order of arrival": places == [first, second, third],
        "left": until("an empty queue", lambda: ctl("get", "ctl/lock/", "--prefix", "--keys-only") == [""]),
    }


@scene("locks: a command runs while it is held")
def lock_command(ctl):
    lines = ctl("lock", "ctl/command", "--", "sh", "-c", "echo $ETCD_LOCK_KEY $ETCD_LOCK_REV; exit 0")
    key, rev = lines[0].split()
    return [re.sub(r"/[0-9a-f]+$", "/<lease>", key), int(rev) > 1, ctl("lock", "ctl/command", "--", "sh", "-c", "exit 3")]


@scene("locks: many commands exclude each other", waits=True)
def exclusion(ctl):
    name = f"/tmp/leasehold-etcdctl-{os.getpid()}"
    command = f"mkdir {name} && sleep 0.05 && rmdir {name}"
    running = [ctl.start("lock", "ctl/many", "--", "sh", "-c", command) for _ in range(5)]
    return [process.process.wait(PATIENCE) for process in running] + [process.lines for process in running]


@scene("elections: one leads, another follows, listeners hear of both", waits=True)
def elections(ctl):
    ann = ctl.start("elect", "ctl/election", "ann")
    first = ann.until_lines(2)
    listener = ctl.start("elect", "--listen", "ctl/election")
    heard = listener.until_lines(2)
    bob = ctl.start("elect", "ctl/election", "bob")
    until("a candidate", lambda: ctl.count("ctl/election/") == 2)
    waiting = list(bob.lines)
    ended = ann.end()
    second = bob.until_lines(2)
    then = listener.until_lines(4)
    return {
        "ann": [re.sub(r"/[0-9a-f]+$", "/<lease>", first[0]), first[1]],
        "bob waited": waiting,
        "ann resigned": ended,
        "bob": second[1],
        "heard": heard == first,
        "then": then[2:] == second,
    }


# Watches.


@scene("watches: puts and deletes, with what was before")
def watches(ctl):
    start = ctl.json("put", "ctl/watch/a", "0")["header"]["revision"]
    watch = ctl.start("watch", "ctl/watch/", "--prefix", "--prev-kv", "--rev", str(start))
    watch.until_lines(3)
    ctl("put", "ctl/watch/a", "1")
    ctl("del", "ctl/watch/a")
    ctl("put", "ctl/watch/b", "2")
    lines = watch.until_lines(16)
    return {"lines": lines, "end": watch.end() != 0}


@scene("watches: several in one process, cancelled one by one")
def interactive(ctl):
    watch = ctl.start("watch", "--interactive")

    def tell(line):
        watch.process.stdin.write(line + "\n")
        watch.process.stdin.flush()

    revision = str(ctl.json("put", "ctl/several/a", "1")["header"]["revision"])
    ctl("put", "ctl/several/b", "2")
    tell(f"watch ctl/several/a --rev {revision}")
    first = watch.until_lines(3)
    tell(f"watch ctl/several/b --rev {revision}")
    second = watch.until_lines(6)[3:]
    tell("progress")
    progress = watch.until_lines(7)[6]
    return [first, second, re.sub(r"\d+", "<revision>", progress)]


# The server.


@scene("server: health, status and members")
def server(ctl):
    status = ctl.json("endpoint", "status")[0]["Status"]
    members = ctl.json("member", "list")["members"]
    line = ctl("member", "list")[0].split(", ")
    asked = subprocess.run(ctl.words(["endpoint", "health"]), capture_output=True, text=True, timeout=PATIENCE)
    health = (asked.stdout + asked.stderr).strip()  # 3.4 prints it on stderr
    return {
        "health": re.sub(r"took = .*", "took = …", health.split(" ", 1)[1]),
        "version": len(status["version"].split(".")),
        "leads": status["leader"] in [member["ID"] for member in members],
        "numbers": [status[name] > 0 for name in ["dbSize", "raftIndex", "raftTerm", "raftAppliedIndex"]],
        "members": [bool(members[0]["name"]), members[0]["clientURLs"][0].startswith("http://"),
                    bool(members[0]["peerURLs"])],
        "member line": [len(line), line[1], line[5]],
        "alarms": ctl("alarm", "list"),
        "hash": bool(re.match(r".*, \d+$", ctl("endpoint", "hashkv")[0])),
    }


@scene("server: an endpoint that is written as a URL")
def url(ctl):
    ctl.endpoint = "http://" + ctl.endpoint
    ctl("put", "ctl/url", "1")
    status = ctl("endpoint", "status", "-w", "json")
    return {"get": ctl("get", "ctl/url"), "status": isinstance(status, list), "members": len(ctl("member", "list")) > 0}


@scene("server: a user where nobody asked for one is tolerated, authentication is refused")
def auth(ctl):
    return {"user": ctl("--user", "root:secret", "put", "ctl/user", "1"), "enable": ctl("auth", "enable")}


@scene("server: what belongs to its own clusters")
def cluster(ctl):
    moved = ctl("move-leader", "abc")
    # A node that does not lead is told so by etcdctl itself.
    asked_itself = any("no leader endpoint given" in line for line in moved["said"])
    return {"leadership to nobody": asked_itself or moved["said"] == ["Error: etcdserver: bad leader transferee"],
            "removal of nobody": ctl("member", "remove", "99")}


# Compaction, after everything else.


@scene("compaction: below it nothing is read or watched", last=True)
def compaction(ctl):
    first = ctl.json("put", "ctl/compact", "1")["header"]["revision"]
    second = ctl.json("put", "ctl/compact", "2")["header"]["revision"]
    done = ctl("compaction", str(second))
    return {
        "done": [re.sub(r"\d+", "<revision>", line) for line in done],
        "again": ctl("compaction", str(second)),
        "the future": ctl("compaction", str(second + 1000)),
        "read below": ctl("get", "ctl/compact", "--rev", str(first)),
        "read at it": ctl("get", "ctl/compact", "--rev", str(second)),
        "watch below": ctl("watch", "ctl/compact", "--rev", str(first)),
    }


def fail_over(ctl):
    """What must survive the death of one of several endpoints; it is killed when this says that it is ready."""
    lease = lease_of(ctl("lease", "grant", "5"))
    start = ctl.json("put", "ctl/over/a", "1", "--lease", lease)["header"]["revision"]
    alive = ctl.start("lease", "keep-alive", lease)
    watch = ctl.start("watch", "ctl/over/", "--prefix", "--rev", str(start))
    ann = ctl.start("lock", "ctl/over-lock", "--ttl", "5")
    held = ann.until_lines(1)
    bob = ctl.start("lock", "ctl/over-lock", "--ttl", "5")
    until("a waiter", lambda: ctl.count("ctl/over-lock/") == 2)
    leader = ctl.start("elect", "ctl/over-elect", "incumbent")
    leader.until_lines(2)
    listener = ctl.start("elect", "--listen", "ctl/over-elect")
    listener.until_lines(2)
    alive.until_lines(1)
    watch.until_lines(3)
    go_on_after("ready")
    # Longer than anything lives that nobody renews.
    later = time.monotonic() + 7
    until("some time", lambda: time.monotonic() > later)
    put = until("a put", lambda: ctl("put", "ctl/over/b", "2") == ["OK"])
    answers = {
        "lease kept alive": alive.process.poll() is None and ctl("get", "ctl/over/a") == ["ctl/over/a", "1"],
        "watch goes on": [put, watch.until_lines(6)],
        "lock held": [ann.process.poll() is None, ctl("get", held[0], "--keys-only")[0] == held[0], list(bob.lines)],
        "incumbent leads": [leader.process.poll() is None, len(listener.lines)],
    }
    ann.end()
    answers["lock handed over"] = bob.until_lines(1) != held
    watch.end()
    answers["nothing was seen twice"] = len([line for line in watch.lines if line == "PUT"])
    return answers


if sys.argv[1] == "--fail-over":
    everywhere = Ctl(sys.argv[2])
    print(json.dumps({"scene": "fail-over: processes go on", "answer": fail_over(everywhere)}))
    everywhere.close()
else:
    play(Ctl)
