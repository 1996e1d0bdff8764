//! The wire of ZooKeeper: one session on one connection, requests pipelined on it and answered in order.
//!
//! Written out here because the Rust clients there are bring a reactor of their own, which would be measured as well. Only
//! what the comparison asks for; a session that breaks is not taken up again.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

use super::said;

const CREATE: i32 = 1;
const DELETE: i32 = 2;
const GET: i32 = 4;
const SET: i32 = 5;
const CHILDREN: i32 = 8;
const PING: i32 = 11;
const WATCH: i32 = 106;
const CLOSE: i32 = -11;

/// The number of a message that nobody asked for: a node has changed.
const TOLD: i32 = -1;
const PING_NUMBER: i32 = -2;
/// The kind of change of a node that is there no longer.
const GONE: i32 = 2;
const NO_NODE: i32 = -101;
const NODE_EXISTS: i32 = -110;
/// Whatever its version is.
const ANY: i32 = -1;
/// A watch of a node and all below it that stays.
const RECURSIVE: i32 = 1;
/// No answer is longer.
const ANSWER_MAX: usize = 64 << 20;

/// What kind of node is made.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// One that stays.
    Lasting = 0,
    /// One that goes with the session.
    Ephemeral = 1,
    /// The same, with a rising number behind its name.
    EphemeralInOrder = 3,
}

/// A session. Clones share it; it ends when the server has not heard of it for its ttl.
#[derive(Clone, Debug)]
pub(super) struct Session {
    requests: UnboundedSender<Request>,
    heard: Arc<Mutex<Heard>>,
}

#[derive(Debug)]
struct Request {
    number: i32,
    operation: i32,
    body: Vec<u8>,
    answer: oneshot::Sender<Answer>,
}

/// What an answer brought: what follows its head, or the code of its refusal.
type Answer = Result<Vec<u8>, i32>;

/// Those who wait to be told of changes.
#[derive(Debug, Default)]
struct Heard {
    /// Of one node, once.
    once: HashMap<String, Vec<oneshot::Sender<()>>>,
    /// Of all nodes below those that are watched.
    always: Vec<UnboundedSender<Change>>,
}

/// What happened to a node below one that is watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) path: String,
    /// Whether it is there no longer.
    pub(super) gone: bool,
}

/// What is under way.
type Pending = Arc<Mutex<VecDeque<(i32, oneshot::Sender<Answer>)>>>;

impl Session {
    /// Connects, and begins a session that lives so many milliseconds without a word.
    pub(super) async fn open(address: &str, ttl_ms: i32) -> Result<Session, String> {
        let mut socket = TcpStream::connect(address).await.map_err(said)?;
        socket.set_nodelay(true).map_err(said)?;
        let hello = Body::default().int(0).long(0).int(ttl_ms).long(0).bytes(&[0; 16]).flag(false);
        socket.write_all(&framed(&hello.0)).await.map_err(said)?;
        let (from, to) = socket.into_split();
        let mut from = BufReader::with_capacity(1 << 16, from);
        let welcome = frame(&mut from).await?;
        let granted = Reader(&welcome).skip(4).and_then(|mut rest| rest.int()).unwrap_or(0);
        if granted != ttl_ms {
            return Err(format!("the session was granted for {granted} ms, not {ttl_ms}"));
        }
        let (requests, queue) = unbounded_channel();
        let (heard, pending) = (Arc::<Mutex<Heard>>::default(), Pending::default());
        tokio::spawn(send(to, queue, Arc::clone(&pending)));
        tokio::spawn(receive(from, pending, Arc::clone(&heard)));
        Ok(Session { requests, heard })
    }

    async fn ask(&self, operation: i32, body: Body) -> Result<Answer, String> {
        let (answer, answered) = oneshot::channel();
        let number = if operation == PING { PING_NUMBER } else { 0 };
        let request = Request { number, operation, body: body.0, answer };
        self.requests.send(request).map_err(|_| "the session is over")?;
        answered.await.map_err(|_| "the session is over".to_owned())
    }

    /// Says that it lives.
    pub(super) async fn ping(&self) -> Result<(), String> {
        self.ask(PING, Body::default()).await?.map(drop).map_err(refused)
    }

    /// Ends the session, and with it what goes with it.
    pub(super) async fn close(&self) -> Result<(), String> {
        self.ask(CLOSE, Body::default()).await?.map(drop).map_err(refused)
    }

    /// Makes a node; tells what it is called, or none if there is nothing to make it below.
    pub(super) async fn create(&self, path: &str, kind: Kind) -> Result<Option<String>, String> {
        let anybody = (31, "world", "anyone");
        let body = Body::default().text(path).bytes(&[]).int(1).int(anybody.0).text(anybody.1).text(anybody.2);
        match self.ask(CREATE, body.int(kind as i32)).await? {
            Ok(answer) => Ok(Some(Reader(&answer).text().ok_or_else(strange)?)),
            Err(NO_NODE) => Ok(None),
            Err(code) => Err(refused(code)),
        }
    }

    /// Makes nodes that stay, this one and all above it, where they are missing.
    pub(super) async fn make_way(&self, path: &str) -> Result<(), String> {
        let ends = path.match_indices('/').map(|(at, _)| at).filter(|at| *at > 0).chain([path.len()]);
        for end in ends {
            let body = Body::default().text(&path[..end]).bytes(&[]).int(1).int(31).text("world").text("anyone");
            match self.ask(CREATE, body.int(Kind::Lasting as i32)).await? {
                Ok(_) | Err(NODE_EXISTS) => {}
                Err(code) => return Err(refused(code)),
            }
        }
        Ok(())
    }

    /// Removes a node.
    pub(super) async fn delete(&self, path: &str) -> Result<(), String> {
        self.ask(DELETE, Body::default().text(path).int(ANY)).await?.map(drop).map_err(refused)
    }

    /// The names of the nodes below one.
    pub(super) async fn children(&self, path: &str) -> Result<Vec<String>, String> {
        let answer = self.ask(CHILDREN, Body::default().text(path).flag(false)).await?.map_err(refused)?;
        let mut reader = Reader(&answer);
        let count = reader.int().ok_or_else(strange)?;
        (0..count).map(|_| reader.text().ok_or_else(strange)).collect()
    }

    /// What will tell that a node has changed or is gone; none if it is gone already.
    pub(super) async fn watched(&self, path: &str) -> Result<Option<oneshot::Receiver<()>>, String> {
        let (tell, told) = oneshot::channel();
        locked(&self.heard).once.entry(path.to_owned()).or_default().push(tell);
        // Not asked by whether it exists: that would leave a watch behind for one that is gone.
        match self.ask(GET, Body::default().text(path).flag(true)).await? {
            Ok(_) => Ok(Some(told)),
            Err(NO_NODE) => {
                locked(&self.heard).once.remove(path);
                Ok(None)
            }
            Err(code) => Err(refused(code)),
        }
    }

    /// All nodes below this one that change from now on.
    pub(super) async fn watch_below(&self, path: &str) -> Result<UnboundedReceiver<Change>, String> {
        let (tell, told) = unbounded_channel();
        locked(&self.heard).always.push(tell);
        self.ask(WATCH, Body::default().text(path).int(RECURSIVE)).await?.map_err(refused)?;
        Ok(told)
    }

    /// Writes what a node contains; false if there is no such node.
    pub(super) async fn set(&self, path: &str, value: &[u8]) -> Result<bool, String> {
        match self.ask(SET, Body::default().text(path).bytes(value).int(ANY)).await? {
            Ok(_) => Ok(true),
            Err(NO_NODE) => Ok(false),
            Err(code) => Err(refused(code)),
        }
    }

    /// What a node contains.
    pub(super) async fn get(&self, path: &str) -> Result<Vec<u8>, String> {
        let answer = self.ask(GET, Body::default().text(path).flag(false)).await?.map_err(refused)?;
        Reader(&answer).bytes().map(<[u8]>::to_vec).ok_or_else(strange)
    }
}

/// Sends everything that is ready in one piece.
async fn send(mut to: OwnedWriteHalf, mut queue: UnboundedReceiver<Request>, pending: Pending) {
    let (mut number, mut bytes) = (0, Vec::new());
    while let Some(first) = queue.recv().await {
        bytes.clear();
        let mut next = Some(first);
        while let Some(request) = next {
            number = if number == i32::MAX { 1 } else { number + 1 };
            let own = if request.number == 0 { number } else { request.number };
            let head = Body::default().int(own).int(request.operation);
            bytes.extend(framed(&[head.0, request.body].concat()));
            locked(&pending).push_back((own, request.answer));
            next = queue.try_recv().ok();
        }
        if to.write_all(&bytes).await.is_err() {
            return;
        }
    }
}

/// Takes answers and what is told, until the connection ends. Then all that is unanswered is dropped, and hears of it so.
async fn receive(mut from: BufReader<OwnedReadHalf>, pending: Pending, heard: Arc<Mutex<Heard>>) {
    while let Ok(message) = frame(&mut from).await {
        let mut reader = Reader(&message);
        let (Some(number), Some(_), Some(code)) = (reader.int(), reader.long(), reader.int()) else { break };
        if number == TOLD {
            let gone = reader.int() == Some(GONE);
            let path = reader.skip(4).and_then(|mut rest| rest.text()).unwrap_or_default();
            tell(&heard, &Change { path, gone });
            continue;
        }
        let Some((asked, answer)) = locked(&pending).pop_front() else { break };
        if asked != number {
            break;
        }
        // Whoever gave up needs no answer.
        let _ = answer.send(if code == 0 { Ok(reader.0.to_vec()) } else { Err(code) });
    }
    locked(&pending).clear();
    *locked(&heard) = Heard::default();
}

fn tell(heard: &Mutex<Heard>, change: &Change) {
    let mut heard = locked(heard);
    for waits in heard.once.remove(&change.path).unwrap_or_default() {
        let _ = waits.send(());
    }
    heard.always.retain(|watch| watch.send(change.clone()).is_ok());
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("nobody panics with it")
}

fn refused(code: i32) -> String {
    format!("refused with code {code}")
}

fn strange() -> String {
    "an answer that cannot be read".to_owned()
}

/// A message with its length before it.
fn framed(message: &[u8]) -> Vec<u8> {
    Body::default().bytes(message).0
}

/// Reads one message.
async fn frame(from: &mut BufReader<OwnedReadHalf>) -> Result<Vec<u8>, String> {
    let length = usize::try_from(from.read_i32().await.map_err(said)?).unwrap_or(usize::MAX);
    if length > ANSWER_MAX {
        return Err(strange());
    }
    let mut message = vec![0; length];
    from.read_exact(&mut message).await.map_err(said)?;
    Ok(message)
}

/// What is sent, put together field by field.
#[derive(Debug, Default)]
struct Body(Vec<u8>);

impl Body {
    fn int(mut self, value: i32) -> Body {
        self.0.extend(value.to_be_bytes());
        self
    }

    fn long(mut self, value: i64) -> Body {
        self.0.extend(value.to_be_bytes());
        self
    }

    fn flag(mut self, value: bool) -> Body {
        self.0.push(value.into());
        self
    }

    fn bytes(self, value: &[u8]) -> Body {
        let mut body = self.int(i32::try_from(value.len()).unwrap_or(i32::MAX));
        body.0.extend(value);
        body
    }

    fn text(self, value: &str) -> Body {
        self.bytes(value.as_bytes())
    }
}

/// What is left of an answer; none where it ends too soon.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn skip(mut self, length: usize) -> Option<Reader<'a>> {
        self.take(length)?;
        Some(self)
    }

    fn int(&mut self) -> Option<i32> {
        self.take(4)?.try_into().ok().map(i32::from_be_bytes)
    }

    fn long(&mut self) -> Option<i64> {
        self.take(8)?.try_into().ok().map(i64::from_be_bytes)
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.int()?;
        self.take(usize::try_from(length).unwrap_or(0))
    }

    fn text(&mut self) -> Option<String> {
        self.bytes().map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_as_they_were_written_and_never_beyond_the_end() {
        let body = Body::default().int(-7).long(1 << 40).text("/lock").bytes(b"v").flag(true).0;
        let mut reader = Reader(&body);
        assert_eq!((reader.int(), reader.long()), (Some(-7), Some(1 << 40)));
        assert_eq!((reader.text().as_deref(), reader.bytes()), (Some("/lock"), Some(&b"v"[..])));
        assert_eq!(reader.take(1), Some(&[1][..]));
        assert_eq!((reader.int(), reader.text()), (None, None));
        assert_eq!(Reader(&framed(b"abc")).bytes(), Some(&b"abc"[..]));
    }

    #[test]
    fn a_change_is_told_once_to_those_who_asked_once() {
        let heard = Mutex::new(Heard::default());
        let (tell_once, mut once) = oneshot::channel();
        let (tell_always, mut always) = unbounded_channel();
        locked(&heard).once.insert("/a".to_owned(), vec![tell_once]);
        locked(&heard).always.push(tell_always);
        let change = |path: &str, gone| Change { path: path.to_owned(), gone };
        tell(&heard, &change("/b", false));
        assert!(once.try_recv().is_err());
        tell(&heard, &change("/a", true));
        assert_eq!(once.try_recv(), Ok(()));
        assert_eq!((always.try_recv(), always.try_recv()), (Ok(change("/b", false)), Ok(change("/a", true))));
        assert!(locked(&heard).once.is_empty());
    }
}
