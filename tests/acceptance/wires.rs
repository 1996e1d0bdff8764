//! Wires between the nodes of a cluster that can be cut, both ways or one way, slowed down and healed.
//!
//! There is one listener before every node; who connects is read from the introduction (docs/formats/peer.md). A cut wire
//! holds back what is sent: connections stay open, and after healing it arrives late, as over a network that
//! retransmits, or the connections break. While a wire is cut, no new connection gets through it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::runs::soon;

/// What an introduction has at least, and where the two nodes stand in it.
const INTRODUCTION: usize = 48;
/// How much is carried at once; with the length of a queue it bounds what is under way.
const PIECE: usize = 8 << 10;
const QUEUE: usize = 8;

/// One direction between two nodes, by their numbers.
pub(crate) type Way = (usize, usize);

/// A network that a test can hurt.
pub(crate) trait Net {
    /// How many nodes it joins.
    fn size(&self) -> usize;
    /// Nothing that `from` sends reaches `to` any more.
    fn cut_one_way(&self, from: usize, to: usize);
    /// What a node sends and gets is slow: so many bytes a second.
    fn slow_down(&self, node: usize, bytes_per_second: u32);
    /// Everything arrives again; what was under way may arrive late.
    fn heal(&self);

    /// Neither reaches the other.
    fn cut(&self, one: usize, other: usize) {
        self.cut_one_way(one, other);
        self.cut_one_way(other, one);
    }

    /// A node is alone.
    fn isolate(&self, node: usize) {
        for other in (0..self.size()).filter(|other| *other != node) {
            self.cut(node, other);
        }
    }
}

/// What becomes of what is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    Hold,
    Slow { bytes_per_second: u32, delay: Duration },
}

#[derive(Clone, Debug, Default)]
struct Rules {
    by_way: BTreeMap<Way, Rule>,
    /// How often all connections were broken.
    breaks: u64,
}

/// The wires of a cluster; they end when this is dropped.
pub(crate) struct Wires {
    /// Where the nodes reach each other.
    pub(crate) addresses: Vec<SocketAddr>,
    board: Arc<Board>,
    _runtime: Runtime,
}

/// What all connections share.
#[derive(Debug)]
struct Board {
    rules: watch::Sender<Rules>,
    /// The ids of the nodes, as far as somebody has asked for them by id.
    ids: Mutex<Vec<Option<u64>>>,
    /// When each way has carried what it has taken so far, if it is slow.
    busy: Mutex<BTreeMap<Way, Instant>>,
}

impl Wires {
    /// Wires before nodes that listen at these addresses.
    pub(crate) fn before(nodes: &[SocketAddr]) -> Wires {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let board = Arc::new(Board {
            rules: watch::Sender::new(Rules::default()),
            ids: Mutex::new(vec![None; nodes.len()]),
            busy: Mutex::default(),
        });
        let mut addresses = Vec::new();
        for (to, node) in nodes.iter().copied().enumerate() {
            let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
            addresses.push(listener.local_addr().unwrap());
            let board = Arc::clone(&board);
            runtime.spawn(async move {
                while let Ok((near, _)) = listener.accept().await {
                    tokio::spawn(Arc::clone(&board).carry(near, node, to));
                }
            });
        }
        Wires { addresses, board, _runtime: runtime }
    }

    fn rule(&self, way: Way, rule: Rule) {
        // A rule about a node that nobody knows by its id yet would not hold.
        soon("meeting of all nodes", || self.board.ids.lock().unwrap().iter().all(Option::is_some).then_some(()));
        self.board.rules.send_modify(|rules| {
            rules.by_way.insert(way, rule);
        });
    }

    /// A way is slow: so many bytes a second, and each so much later.
    pub(crate) fn slow(&self, from: usize, to: usize, bytes_per_second: u32, delay: Duration) {
        self.rule((from, to), Rule::Slow { bytes_per_second, delay });
    }

    /// Everything is carried again, on new connections; the old ones break, with all that was held back.
    pub(crate) fn heal_with_new_connections(&self) {
        self.board.rules.send_modify(|rules| {
            rules.breaks += 1;
            rules.by_way.clear();
        });
    }
}

impl Net for Wires {
    fn size(&self) -> usize {
        self.addresses.len()
    }

    fn cut_one_way(&self, from: usize, to: usize) {
        self.rule((from, to), Rule::Hold);
    }

    fn slow_down(&self, node: usize, bytes_per_second: u32) {
        for other in (0..self.size()).filter(|other| *other != node) {
            self.slow(node, other, bytes_per_second, Duration::from_millis(30));
            self.slow(other, node, bytes_per_second, Duration::from_millis(30));
        }
    }

    fn heal(&self) {
        self.board.rules.send_modify(|rules| rules.by_way.clear());
    }
}

impl Board {
    /// Carries one connection to the node with the number `to`.
    async fn carry(self: Arc<Self>, mut near: TcpStream, node: SocketAddr, to: usize) {
        let mut introduction = [0; INTRODUCTION];
        if near.read_exact(&mut introduction).await.is_err() {
            return;
        }
        let id = |at: usize| u64::from_le_bytes(introduction[at..at + 8].try_into().unwrap());
        let (sender, meant) = (id(32), id(40));
        if meant != 0 {
            self.ids.lock().unwrap()[to] = Some(meant);
        }
        let broken = self.broken();
        let carried = async {
            self.open(sender, to).await;
            let Ok(mut far) = TcpStream::connect(node).await else { return };
            if far.set_nodelay(true).and(near.set_nodelay(true)).is_err() || far.write_all(&introduction).await.is_err()
            {
                return;
            }
            let ((near_in, near_out), (far_in, far_out)) = (near.into_split(), far.into_split());
            let up = self.pump(near_in, far_out, || self.number(sender).map(|from| (from, to)));
            let down = self.pump(far_in, near_out, || self.number(sender).map(|from| (to, from)));
            tokio::select! {
                () = up => {}
                () = down => {}
            }
        };
        tokio::select! {
            () = carried => {}
            () = broken => {}
        }
    }

    fn number(&self, id: u64) -> Option<usize> {
        self.ids.lock().unwrap().iter().position(|known| *known == Some(id))
    }

    fn rule(&self, way: Option<Way>) -> Option<Rule> {
        self.rules.borrow().by_way.get(&way?).copied()
    }

    /// Returns when a new connection can be made.
    async fn open(&self, sender: u64, to: usize) {
        let both = |from: usize| [(from, to), (to, from)];
        let held = || self.number(sender).is_some_and(|from| both(from).iter().any(|way| self.holds(Some(*way))));
        let mut rules = self.rules.subscribe();
        while held() && rules.changed().await.is_ok() {}
    }

    fn holds(&self, way: Option<Way>) -> bool {
        self.rule(way) == Some(Rule::Hold)
    }

    /// Returns when all connections are broken.
    fn broken(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut rules = self.rules.subscribe();
        let before = rules.borrow_and_update().breaks;
        async move {
            let _ = rules.wait_for(|rules| rules.breaks != before).await;
        }
    }

    /// Carries one direction, as late as the rules say.
    async fn pump(&self, mut from: OwnedReadHalf, mut to: OwnedWriteHalf, way: impl Fn() -> Option<Way>) {
        let (send, mut pieces) = mpsc::channel::<(Instant, Vec<u8>)>(QUEUE);
        let read = async {
            let mut piece = vec![0; PIECE];
            while let Ok(size @ 1..) = from.read(&mut piece).await {
                if send.send((self.due(way(), size), piece[..size].to_vec())).await.is_err() {
                    return;
                }
            }
            drop(send);
        };
        let write = async {
            let mut rules = self.rules.subscribe();
            while let Some((due, piece)) = pieces.recv().await {
                tokio::time::sleep_until(due).await;
                while self.holds(way()) && rules.changed().await.is_ok() {}
                if to.write_all(&piece).await.is_err() {
                    return;
                }
            }
        };
        tokio::select! {
            () = write => {}
            () = async { read.await; std::future::pending().await } => {}
        }
    }

    /// When a piece arrives.
    fn due(&self, way: Option<Way>, size: usize) -> Instant {
        let now = Instant::now();
        let (Some(way), Some(Rule::Slow { bytes_per_second, delay })) = (way, self.rule(way)) else { return now };
        let mut busy = self.busy.lock().unwrap();
        let free = busy.entry(way).or_insert(now);
        *free = now.max(*free) + Duration::from_secs_f64(size as f64 / f64::from(bytes_per_second));
        *free + delay
    }
}
