// npm etcd3 1.1, the client for Node.js: keys, transactions, leases that keep themselves alive, locks, elections, watches.
//
// In the spirit of scenes.py: a scene answers with values, texts and relations, never with a raw revision, lease id or time.

'use strict';

const { Etcd3, isRecoverableError } = require('etcd3');
const { once } = require('events');

const LONG = 60;
const SHORT = 2;
const PATIENCE = 30_000;

const scenes = [];
const scene = (name, play, when = {}) => scenes.push({ name, play, ...when });
const connect = () => new Etcd3({ hosts: process.argv[2] });
const sleep = ms => new Promise(resolve => setTimeout(resolve, ms));

async function until(what, look) {
  const asked = Date.now();
  for (;;) {
    const found = await look();
    if (found) return found;
    if (Date.now() - asked > PATIENCE) throw new Error(`${what} takes too long`);
    await sleep(20);
  }
}

async function refusal(call) {
  try {
    await call();
  } catch (error) {
    return [error.constructor.name, error.message, isRecoverableError(error)];
  }
  return 'accepted';
}

const text = kv => [kv.key.toString(), kv.value.toString()];

/** The next so many events of a watcher, in order. */
function events(watcher, count) {
  return new Promise((resolve, reject) => {
    const seen = [];
    watcher.on('data', answer => {
      for (const event of answer.events) seen.push([event.type, ...text(event.kv), event.prev_kv && event.prev_kv.value.toString()]);
      if (seen.length >= count) resolve(seen.slice(0, count));
    });
    watcher.on('error', reject);
  });
}

// Keys and transactions.

scene('keys: put, get, touch, delete', async etcd => {
  const first = await etcd.put('npm/a').value('1').exec();
  const second = await etcd.put('npm/a').value('2').getPrevious();
  const found = (await etcd.get('npm/a').exec()).kvs[0];
  await etcd.put('npm/a').touch();
  const touched = (await etcd.get('npm/a').exec()).kvs[0];
  const deleted = await etcd.delete().key('npm/a').exec();
  return {
    previous: second.value.toString(),
    now: [found.value.toString(), found.version, found.lease],
    'created with the first put': found.create_revision === first.header.revision,
    touched: [touched.value.toString(), touched.version],
    deleted: deleted.deleted,
    afterwards: [await etcd.get('npm/a').string(), await etcd.get('npm/a').exists()],
  };
});

scene('keys: json, numbers and buffers', async etcd => {
  await etcd.put('npm/json').value(JSON.stringify({ a: 1 }));
  await etcd.put('npm/number').value(7);
  await etcd.put('npm/bytes').value(Buffer.from([0, 255, 1]));
  return [await etcd.get('npm/json').json(), await etcd.get('npm/number').number(), [...(await etcd.get('npm/bytes').buffer())]];
});

scene('keys: prefixes, order, limit and count', async etcd => {
  const space = etcd.namespace('npm/space/');
  for (const [name, value] of [['b', '2'], ['a', '3'], ['c', '1'], ['b', '4']]) await space.put(name).value(value);
  const answers = { all: await space.getAll().strings(), keys: await space.getAll().keys(), count: await space.getAll().count() };
  for (const target of ['Key', 'Version', 'Create', 'Mod', 'Value']) {
    answers[`${target} last`] = (await space.getAll().sort(target, 'Descend').limit(1).keys())[0];
  }
  const limited = await space.getAll().limit(2).exec();
  answers.limited = [limited.kvs.length, limited.more, limited.count];
  answers.range = await etcd.getAll().inRange({ start: 'npm/space/a', end: 'npm/space/c' }).keys();
  answers.deleted = (await space.delete().all()).deleted;
  return answers;
});

scene('keys: as they were', async etcd => {
  const first = (await etcd.put('npm/old').value('1')).header.revision;
  await etcd.put('npm/old').value('2');
  return [await etcd.get('npm/old').revision(first).string(), await etcd.get('npm/old').string(),
    await refusal(() => etcd.get('npm/old').revision(String(Number(first) + 1000)).string())];
});

scene('transactions: compared, both branches', async etcd => {
  await etcd.put('npm/txn').value('m');
  const found = (await etcd.get('npm/txn').exec()).kvs[0];
  const holds = async (...compare) => (await etcd.if('npm/txn', ...compare).commit()).succeeded;
  const done = await etcd.if('npm/txn', 'Value', '==', 'm').and('npm/none', 'Create', '==', 0)
    .then(etcd.put('npm/txn').value('n'), etcd.get('npm/txn')).else(etcd.get('npm/none')).commit();
  const failed = await etcd.if('npm/txn', 'Value', '==', 'm').then(etcd.put('npm/txn').value('x'))
    .else(etcd.get('npm/txn'), etcd.delete().key('npm/none')).commit();
  return {
    value: [await holds('Value', '==', 'n'), await holds('Value', '>', 'o'), await holds('Value', '<', 'o'), await holds('Value', '!==', 'n')],
    version: [await holds('Version', '==', 2), await holds('Version', '>', 2)],
    create: await holds('Create', '==', found.create_revision),
    mod: await holds('Mod', '>', found.mod_revision),
    lease: await holds('Lease', '==', 0),
    done: [done.succeeded, done.responses.map(answer => answer.response), done.responses[1].response_range.kvs[0].value.toString()],
    failed: [failed.succeeded, failed.responses.length],
  };
});

scene('transactions: software transactional memory', async etcd => {
  await etcd.put('npm/stm').value('10');
  const add = () => etcd.stm({ retries: 50 }).transact(async tx => {
    const before = await tx.get('npm/stm').number();
    await tx.put('npm/stm').value(before + 1);
  });
  await Promise.all([add(), add(), add()]);
  return etcd.get('npm/stm').number();
});

// Leases.

scene('leases: granted, renewed, revoked', async etcd => {
  const lease = etcd.lease(LONG);
  const id = await lease.grant();
  await lease.put('npm/lease/a').value('1');
  const bound = (await etcd.get('npm/lease/a').exec()).kvs[0].lease === id;
  const renewed = await lease.keepaliveOnce();
  const read = await etcd.leaseClient.leaseTimeToLive({ ID: id, keys: true });
  const listed = (await etcd.leaseClient.leaseLeases()).leases.some(one => one.ID === id);
  await lease.revoke();
  const after = await etcd.leaseClient.leaseTimeToLive({ ID: id });
  return {
    bound, listed, renewed: renewed.TTL, granted: read.grantedTTL, keys: read.keys.map(String),
    left: await etcd.get('npm/lease/a').string(), after: [after.TTL, after.grantedTTL],
    'revoked again': await refusal(() => etcd.leaseClient.leaseRevoke({ ID: id })),
  };
});

scene('leases: one that keeps itself alive outlives its ttl and tells when it is lost', async etcd => {
  const lease = etcd.lease(SHORT);
  const renewed = once(lease, 'keepaliveSucceeded');
  const id = await lease.grant();
  const other = await etcd.leaseClient.leaseGrant({ TTL: SHORT });
  await renewed;
  await until('the end of a lease that nobody renews', async () => (await etcd.leaseClient.leaseTimeToLive({ ID: other.ID })).TTL === '-1');
  const alive = (await etcd.leaseClient.leaseTimeToLive({ ID: id })).TTL !== '-1';
  const lost = once(lease, 'lost');
  await etcd.leaseClient.leaseRevoke({ ID: id });
  const [error] = await lost;
  return { alive, lost: [error.constructor.name, error.message.replace(/\d+/, '<id>')], revoked: lease.revoked() };
}, { waits: true });

scene('leases: a watch sees all keys of an ended lease go at once, in order', async etcd => {
  const lease = await etcd.leaseClient.leaseGrant({ TTL: SHORT });
  let last;
  for (const name of ['c', 'a', 'b']) last = await etcd.put(`npm/expiry/${name}`).value(name).lease(lease.ID);
  const watcher = await etcd.watch().prefix('npm/expiry/').withPreviousKV().startRevision(String(Number(last.header.revision) + 1)).create();
  const [answer] = await once(watcher, 'data');
  await watcher.cancel();
  return [answer.events.map(event => [event.type, event.kv.key.toString(), event.prev_kv.value.toString()]),
    new Set(answer.events.map(event => event.kv.mod_revision)).size];
}, { waits: true });

// Locks and elections.

scene('locks: one of two holds, the other after its release', async etcd => {
  const ann = etcd.lock('npm/lock').ttl(LONG), bob = etcd.lock('npm/lock').ttl(LONG);
  await ann.acquire();
  const refused = await refusal(() => bob.acquire());
  await ann.release();
  const got = await refusal(() => bob.acquire());
  await bob.release();
  return { refused, got, do: await etcd.lock('npm/lock').do(() => 'done') };
});

scene('locks: a dead holder\'s lock is free', async etcd => {
  const dead = etcd.lock('npm/death').ttl(SHORT);
  await dead.acquire();
  dead.lease.release(); // no more renewals, as if its process had died
  const before = (await refusal(() => etcd.lock('npm/death').ttl(LONG).acquire()))[0];
  await until('the lock', async () => (await refusal(() => etcd.lock('npm/death').ttl(LONG).acquire())) === 'accepted');
  return before;
}, { waits: true });

scene('elections: one leads, another follows, observers hear of it', async etcd => {
  const election = etcd.election('npm/elect', LONG);
  const ann = election.campaign('ann');
  await ann.wait();
  const observer = await election.observe();
  const heard = [observer.leader()];
  observer.on('change', value => heard.push(value));
  await ann.proclaim('ann again');
  await until('a proclamation', () => heard.includes('ann again'));
  const bob = election.campaign('bob');
  let won = false;
  bob.on('elected', () => { won = true; });
  await until('a candidate', async () => (await etcd.getAll().prefix('election/npm/elect/').count()) === 2);
  const leads = await election.leader();
  const early = won;
  await ann.resign();
  await until('the next incumbent', () => won);
  await until('the news', () => heard.includes('bob'));
  await bob.resign();
  await observer.cancel();
  return { leads, early, heard: heard.filter(value => value), 'a proclamation by who resigned': await refusal(() => ann.proclaim('ghost')) };
});

scene('elections: a dead leader is followed', async etcd => {
  const dead = etcd.election('npm/ghost', SHORT).campaign('dead');
  await dead.wait();
  dead.lease.release(); // no more renewals, as if its process had died
  const alive = etcd.election('npm/ghost', LONG).campaign('alive');
  await alive.wait();
  const leader = await etcd.election('npm/ghost', LONG).leader();
  await alive.resign();
  return leader;
}, { waits: true });

// Watches.

scene('watches: puts and deletes in order, with what was before', async etcd => {
  const start = (await etcd.put('npm/watch').value('0')).header.revision;
  const watcher = await etcd.watch().key('npm/watch').withPreviousKV().startRevision(start).create();
  const seen = events(watcher, 4);
  await etcd.put('npm/watch').value('1');
  await etcd.delete().key('npm/watch');
  await etcd.put('npm/watch').value('2');
  const found = await seen;
  await watcher.cancel();
  return found;
});

scene('watches: only puts, only deletes, several on one stream', async etcd => {
  const start = (await etcd.put('npm/kinds').value('1')).header.revision;
  await etcd.delete().key('npm/kinds');
  await etcd.put('npm/kinds').value('2');
  const puts = etcd.watch().key('npm/kinds').only('put').startRevision(start).watcher();
  const deletes = etcd.watch().key('npm/kinds').only('delete').startRevision(start).watcher();
  const found = await Promise.all([events(puts, 2), events(deletes, 1)]);
  await Promise.all([puts.cancel(), deletes.cancel()]);
  return found;
});

// The server, refusals, compaction.

scene('server: status and members', async etcd => {
  const status = await etcd.maintenance.status();
  const members = (await etcd.cluster.memberList({})).members;
  return { version: status.version.split('.').length, leads: members.some(member => member.ID === status.leader), names: members.every(member => member.name) };
});

scene('refusals: as the client throws them', async etcd => ({
  'no key': await refusal(() => etcd.kv.put({ key: Buffer.alloc(0) })),
  'unknown lease': await refusal(() => etcd.put('npm/x').value('1').lease('99')),
  'too long': await refusal(() => etcd.leaseClient.leaseGrant({ TTL: '9000000001' })),
  'a lease id twice': await refusal(async () => { for (const _ of [1, 2]) await etcd.leaseClient.leaseGrant({ ID: '4242', TTL: LONG }); }),
  'a key twice': await refusal(() => etcd.if('npm/x', 'Create', '==', 0).then(etcd.put('npm/x').value(1), etcd.put('npm/x').value(2)).commit()),
  'enable authentication': await refusal(() => etcd.auth.authEnable()),
}));

scene('compaction: what is older than it is neither read nor watched', async etcd => {
  const first = (await etcd.put('npm/compact').value('1')).header.revision;
  const second = (await etcd.put('npm/compact').value('2')).header.revision;
  await etcd.kv.compact({ revision: second });
  const watcher = etcd.watch().key('npm/compact').startRevision(first).watcher();
  const [error] = await once(watcher, 'error', { captureRejections: false }).catch(error => [error]);
  return {
    below: await refusal(() => etcd.get('npm/compact').revision(first).string()),
    at: await etcd.get('npm/compact').revision(second).string(),
    again: await refusal(() => etcd.kv.compact({ revision: second })),
    watched: [error.constructor.name, error.message],
  };
}, { last: true });

async function main() {
  const answers = new Map();
  let broken = false;
  const one = async ({ name, play }) => {
    const etcd = connect();
    try {
      answers.set(name, await Promise.race([play(etcd), sleep(2 * PATIENCE).then(() => { throw new Error('it takes too long'); })]));
    } catch (error) {
      broken = true;
      process.stderr.write(`--- the scene \`${name}\` broke: ${error.stack}\n`);
    } finally {
      etcd.close();
    }
  };
  for (const each of scenes.filter(each => !each.waits && !each.last)) await one(each);
  await Promise.all(scenes.filter(each => each.waits).map(one));
  for (const each of scenes.filter(each => each.last)) await one(each);
  for (const { name } of scenes) {
    if (answers.has(name)) console.log(JSON.stringify({ scene: name, answer: answers.get(name) ?? null }));
  }
  process.exit(broken ? 1 : 0);
}

main();
