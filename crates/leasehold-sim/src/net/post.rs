//! Letters between clients and nodes: each on its own, unreliable, and sometimes twice.

use std::collections::BTreeMap;

use leasehold_core::Command;
use tokio::sync::mpsc;

use super::HostId;
use crate::talk::{Answer, Question};

/// What is in a letter.
#[derive(Clone, Debug)]
pub(crate) enum Mail {
    /// A client asks; the number is its own.
    Asks(u64, Box<Question>),
    /// A node answers the question of that number; some questions have many answers, which are counted.
    Answers(u64, u64, Box<Answer>),
}

impl Mail {
    /// Writes that are bound to no session have nothing that makes a copy harmless: nobody repeats them. A copy of a
    /// renewal extends its lease once more, which its holder could not write down.
    pub(super) fn may_come_twice(&self) -> bool {
        match self {
            Mail::Asks(_, question) => match &**question {
                Question::Command(Command::Write(write)) => write.session.is_some(),
                Question::Command(Command::Renew(_)) => false,
                Question::Command(_)
                | Question::Queue(_)
                | Question::Look(..)
                | Question::Read(_)
                | Question::Watch(..) => true,
            },
            Mail::Answers(..) => true,
        }
    }
}

/// A letter.
#[derive(Clone, Debug)]
pub(crate) struct Letter {
    pub(crate) from: HostId,
    pub(crate) to: HostId,
    pub(crate) mail: Mail,
}

/// Letters under way, and the boxes they go to.
#[derive(Default)]
pub(super) struct Post {
    /// By arrival, then in order of sending.
    under_way: BTreeMap<(u64, u64), Letter>,
    sent: u64,
    boxes: BTreeMap<HostId, mpsc::UnboundedSender<Letter>>,
}

impl Post {
    pub(super) fn open(&mut self, host: HostId) -> mpsc::UnboundedReceiver<Letter> {
        let (send, receive) = mpsc::unbounded_channel();
        self.boxes.insert(host, send);
        receive
    }

    pub(super) fn remove(&mut self, host: HostId) {
        self.boxes.remove(&host);
    }

    pub(super) fn put(&mut self, at: u64, letter: Letter) {
        self.sent += 1;
        self.under_way.insert((at, self.sent), letter);
    }

    pub(super) fn deliver(&mut self, now: u64) {
        while let Some(first) = self.under_way.first_entry().filter(|first| first.key().0 <= now) {
            let letter = first.remove();
            if let Some(to) = self.boxes.get(&letter.to) {
                // A box that is being closed takes no more.
                let _ = to.send(letter);
            }
        }
    }
}
