//! The network of a simulation: connections between nodes, letters between clients and nodes, and the weather.
//!
//! A connection is a pair of pipes that keep their order, as TCP does: a lost part comes late and holds up what is
//! behind it, and a cut link holds everything until it heals or the connection breaks. A letter is on its own: it may be
//! lost, come twice, and overtake others. Links are cut by direction, so one side may hear the other and not be heard.
//! Everything is delivered between two ticks, in one order that follows from the seed.

mod post;
mod wire;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use leasehold_raft::Wire;
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::sync::mpsc;

use crate::time::TrueTime;
use post::Post;
pub(crate) use post::{Letter, Mail};
use wire::{Connection, Pipes};

/// A host by number: nodes come first, then clients.
pub(crate) type HostId = u16;

/// How the network behaves where nothing is cut.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weather {
    /// The longest ordinary delay, in milliseconds.
    pub(crate) delay: u64,
    /// Of a thousand messages, so many are late.
    pub(crate) late: u32,
    /// By at most so many milliseconds.
    pub(crate) late_by: u64,
    /// Of a thousand letters, so many are lost; parts of connections come later instead.
    pub(crate) lost: u32,
    /// Of a thousand letters, so many come a second time, perhaps much later.
    pub(crate) twice: u32,
}

impl Weather {
    /// The same without anything late, lost or doubled.
    pub(crate) fn gentle(self) -> Weather {
        Weather { late: 0, lost: 0, twice: 0, ..self }
    }

    pub(crate) fn is_gentle(self) -> bool {
        self.late == 0 && self.lost == 0 && self.twice == 0
    }
}

/// The network. Clones are the same one.
#[derive(Clone)]
pub(crate) struct Net(Arc<Mutex<State>>);

pub(crate) struct State {
    time: TrueTime,
    chance: StdRng,
    weather: Weather,
    /// From whom nothing comes to whom.
    cut: BTreeSet<(HostId, HostId)>,
    pipes: Pipes,
    doors: BTreeMap<SocketAddr, (HostId, mpsc::UnboundedSender<Box<dyn Wire>>)>,
    post: Post,
}

impl std::fmt::Debug for Net {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Net")
    }
}

impl State {
    fn delay(&mut self) -> u64 {
        let Weather { delay, late, late_by, .. } = self.weather;
        let usual = self.chance.random_range(0..=delay);
        if self.chance.random_range(0..1000) < late { usual + self.chance.random_range(0..=late_by) } else { usual }
    }

    fn happens(&mut self, in_thousand: u32) -> bool {
        self.chance.random_range(0..1000) < in_thousand
    }
}

impl Net {
    pub(crate) fn new(time: TrueTime, seed: u64, weather: Weather) -> Net {
        Net(Arc::new(Mutex::new(State {
            time,
            chance: StdRng::seed_from_u64(seed),
            weather,
            cut: BTreeSet::new(),
            pipes: Pipes::default(),
            doors: BTreeMap::new(),
            post: Post::default(),
        })))
    }

    /// The address of a host.
    pub(crate) fn address(host: HostId) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], 7000 + host))
    }

    /// Who is reached at an address.
    fn host_at(address: &str) -> io::Result<HostId> {
        let parsed: SocketAddr = address.parse().map_err(|_| io::Error::other("no address of this network"))?;
        Ok(parsed.port() - 7000)
    }

    pub(crate) fn set_weather(&self, weather: Weather) {
        self.0.lock().weather = weather;
    }

    pub(crate) fn is_gentle(&self) -> bool {
        self.0.lock().weather.is_gentle()
    }

    /// Lets nothing pass from one host to another.
    pub(crate) fn cut(&self, from: HostId, to: HostId) {
        self.0.lock().cut.insert((from, to));
    }

    /// Lets everything pass again. Some of the connections that were cut do not survive it.
    pub(crate) fn heal(&self) {
        let state = &mut *self.0.lock();
        let healed = std::mem::take(&mut state.cut);
        for link in healed {
            let (now, chance) = (state.time.now(), &mut state.chance);
            state.pipes.recover(link, now, chance);
        }
    }

    /// Takes a host off the network. Its connections are broken towards the others, unless it dies silently.
    pub(crate) fn remove(&self, host: HostId, silently: bool) {
        let mut state = self.0.lock();
        state.doors.retain(|_, (owner, _)| *owner != host);
        state.post.remove(host);
        state.pipes.remove(host, silently);
    }

    /// Delivers what has arrived by now.
    pub(crate) fn deliver(&self) {
        let state = &mut *self.0.lock();
        let now = state.time.now();
        state.pipes.deliver(now, &state.cut);
        state.post.deliver(now);
    }

    /// Listens for connections.
    pub(crate) fn listen(
        &self,
        host: HostId,
        address: SocketAddr,
    ) -> io::Result<mpsc::UnboundedReceiver<Box<dyn Wire>>> {
        let (send, receive) = mpsc::unbounded_channel();
        self.0.lock().doors.insert(address, (host, send));
        Ok(receive)
    }

    /// Connects a host to an address; takes a way there and back.
    pub(crate) async fn connect(self, from: HostId, address: String) -> io::Result<Box<dyn Wire>> {
        let to = Net::host_at(&address)?;
        // Like lost beginnings of a connection, it is tried again until it passes; whoever waits has a limit of his own.
        while self.is_cut(from, to) || self.is_cut(to, from) {
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
        let way = {
            let mut state = self.0.lock();
            state.delay() + state.delay()
        };
        tokio::time::sleep(Duration::from_millis(way)).await;
        let mut state = self.0.lock();
        let refused = || io::Error::new(io::ErrorKind::ConnectionRefused, "nobody listens there");
        let (_, door) = state.doors.get(&Net::address(to)).ok_or_else(refused)?;
        let door = door.clone();
        let (there, back) = (state.pipes.open(from, to), state.pipes.open(to, from));
        let theirs = Connection { net: self.clone(), reads: there, writes: back };
        door.send(Box::new(theirs)).map_err(|_| refused())?;
        drop(state);
        Ok(Box::new(Connection { net: self, reads: back, writes: there }))
    }

    fn is_cut(&self, from: HostId, to: HostId) -> bool {
        self.0.lock().cut.contains(&(from, to))
    }

    /// Opens a host's letter box.
    pub(crate) fn letter_box(&self, host: HostId) -> mpsc::UnboundedReceiver<Letter> {
        self.0.lock().post.open(host)
    }

    /// Sends a letter; nobody hears whether it arrives.
    pub(crate) fn send(&self, from: HostId, to: HostId, mail: Mail) {
        let mut state = self.0.lock();
        if state.cut.contains(&(from, to)) {
            return;
        }
        let (lost, twice, now) = (state.weather.lost, state.weather.twice, state.time.now());
        if !state.happens(lost) {
            let at = now + state.delay();
            state.post.put(at, Letter { from, to, mail: mail.clone() });
        }
        if state.happens(twice) && mail.may_come_twice() {
            let at = now + state.delay() + state.chance.random_range(0..4000);
            state.post.put(at, Letter { from, to, mail });
        }
    }
}
