//! A network between a client and a server that can be told to swallow what it should carry.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// A proxy on a free port of loopback; it ends with the process.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    swallow_requests: AtomicBool,
    swallow_replies: AtomicBool,
    open: Mutex<Vec<TcpStream>>,
}

impl Proxy {
    /// A proxy before a server.
    pub(crate) fn before(server: SocketAddr) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, state) = (listener.local_addr().unwrap(), Arc::new(State::default()));
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            while let Ok((near, _)) = listener.accept() {
                let Ok(far) = TcpStream::connect(server) else { continue };
                shared.carry(near, far);
            }
        });
        Proxy { address, state }
    }

    /// Everything that is sent from now on arrives nowhere; connections stay open, as over a dead cable.
    pub(crate) fn swallow_everything(&self) {
        self.state.swallow_requests.store(true, Ordering::SeqCst);
        self.state.swallow_replies.store(true, Ordering::SeqCst);
    }

    /// Requests arrive, their replies do not.
    pub(crate) fn swallow_replies(&self) {
        self.state.swallow_replies.store(true, Ordering::SeqCst);
    }

    /// Carries everything again, on new connections; what was swallowed is lost and the old ones are cut.
    pub(crate) fn heal(&self) {
        self.cut();
        self.state.swallow_requests.store(false, Ordering::SeqCst);
        self.state.swallow_replies.store(false, Ordering::SeqCst);
    }

    /// Cuts every connection.
    pub(crate) fn cut(&self) {
        for stream in self.state.open.lock().unwrap().drain(..) {
            // One that is closed already is cut enough.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl State {
    fn carry(self: &Arc<Self>, near: TcpStream, far: TcpStream) {
        for stream in [&near, &far] {
            stream.set_nodelay(true).unwrap();
            self.open.lock().unwrap().push(stream.try_clone().unwrap());
        }
        let (near_too, far_too) = (near.try_clone().unwrap(), far.try_clone().unwrap());
        let (up, down) = (Arc::clone(self), Arc::clone(self));
        thread::spawn(move || copy(near, far, &up.swallow_requests));
        thread::spawn(move || copy(far_too, near_too, &down.swallow_replies));
    }
}

fn copy(mut from: TcpStream, mut to: TcpStream, swallow: &AtomicBool) {
    let mut piece = [0; 16 << 10];
    while let Ok(size @ 1..) = from.read(&mut piece) {
        if !swallow.load(Ordering::SeqCst) && to.write_all(&piece[..size]).is_err() {
            break;
        }
    }
    // The other side may be gone already.
    let _ = to.shutdown(Shutdown::Both);
}
