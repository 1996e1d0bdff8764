//! The mailbox of one connection: what is asked, what is answered, what is told.
//!
//! Commands of a connection are answered straight into its mailbox, whoever carries them out: there is no task and no
//! channel for each. What arrives lies in the inbox until the connection looks through it. Every command is answered
//! once. What waits to be taken is bounded: a command is taken on only while there is room, progress is the latest of
//! each wait, and notices that nobody takes become a gap. A lease is told lost only after the answer that granted it.

mod inbox;
mod ticket;

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{EndCause, Revision};
use parking_lot::{Mutex, MutexGuard};
use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use crate::attached::Place;
use crate::attachments::{Attachments, Role};
use crate::batch::{Batch, Notice, Room, answer_bytes, notice_bytes, progress_bytes};
use crate::calls::Call;
use crate::lanes::Reply;
use crate::waiting::{Kept, Progress, Wish, waits_for};
use crate::{Done, Failure, Service};
use inbox::{Arrived, Inbox, Put};
pub(crate) use ticket::{Busy, Ticket};

/// How many commands of a connection may be without an answer that was taken.
pub(crate) const UNANSWERED_MAX: usize = 16_384;
/// How many notices may wait to be taken.
const NOTICES_MAX: usize = 16_384;
/// With so many waiting, asks for a hand-over are not added to them.
const ASKS_MAX: usize = NOTICES_MAX / 2;

/// The number of a command is in use by another one without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the number {0} belongs to a command that is not answered yet; number commands one after the other")]
pub struct NumberInUse(pub u64);

/// A command that may have to wait.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) wish: Wish,
    pub(crate) call: Option<Call>,
}

#[derive(Debug)]
enum Patient {
    /// It may have to wait.
    Asked(Box<Asked>, /* given up */ bool),
    /// It waits; what is sent gives it up, and so does dropping the sender.
    Waits(oneshot::Sender<()>),
}

/// A command without an answer.
#[derive(Debug)]
struct Pending {
    /// Tells commands with the same number apart.
    serial: u64,
    since: Instant,
    role: Role,
    patient: Option<Patient>,
    /// It is to be answered soon: it does not wait in a queue.
    prompt: bool,
}

/// What follows from an answer.
enum Carried {
    /// The command is answered; a lease that nothing makes known any more.
    Out(Option<Place>),
    /// It waits from now on.
    On(Box<Waits>),
}

/// A command that waits.
struct Waits {
    number: u64,
    serial: u64,
    asked: Box<Asked>,
    wait: Revision,
    kept: Kept,
    given_up: oneshot::Receiver<()>,
}

#[derive(Debug, Default)]
struct Inside {
    pending: HashMap<u64, Pending>,
    /// How many of them are to be answered soon, and what else is.
    prompt: usize,
    /// Nobody looks whether something is to be answered soon: the next one to come rings.
    dozes: bool,
    serial: u64,
    answers: VecDeque<(u64, Result<Done, Failure>)>,
    progress: BTreeMap<u64, Progress>,
    notices: VecDeque<Notice>,
    gap: bool,
    attachments: Attachments,
    /// No further commands come.
    finished: bool,
    /// Nobody takes anything any more.
    closed: bool,
    /// Empty; room for what is looked through.
    arrived: Vec<Arrived>,
}

/// The mailbox of one connection.
#[derive(Debug)]
pub(crate) struct Mailbox {
    inbox: Inbox,
    /// Locked before the inbox, never after.
    inside: Mutex<Inside>,
    /// Rings when something is ready; for one listener.
    pub(crate) ready: Notify,
    /// Rings when there may be room for a command; for one listener.
    pub(crate) room: Notify,
    service: Service,
    /// Where waits run: commands may be answered on threads of the log.
    runtime: Handle,
}

impl Mailbox {
    pub(crate) fn new(service: Service) -> Arc<Mailbox> {
        let runtime = Handle::current();
        let (inbox, inside, ready, room) = Default::default();
        Arc::new(Mailbox { inbox, inside, ready, room, service, runtime })
    }

    /// Takes a command on: from now on it is answered once.
    pub(crate) fn begin(
        self: &Arc<Self>,
        number: u64,
        role: Role,
        asked: Option<Asked>,
    ) -> Result<Ticket, NumberInUse> {
        let mut inside = self.inside.lock();
        if inside.pending.contains_key(&number) {
            return Err(NumberInUse(number));
        }
        inside.serial += 1;
        let serial = inside.serial;
        let newly = inside.begin(&role);
        let patient = asked.map(|asked| Patient::Asked(Box::new(asked), false));
        inside.pending.insert(number, Pending { serial, since: Instant::now(), role, patient, prompt: true });
        let wakes = inside.hurry();
        drop(inside);
        if wakes {
            self.ready.notify_one();
        }
        if let Some(place) = newly {
            self.service.replica().attached.add(place, self);
        }
        Ok(Ticket { mailbox: Arc::clone(self), number, serial, used: false })
    }

    /// Gives up a wait; a number that is not in use is ignored.
    pub(crate) fn give_up(&self, number: u64) {
        let mut inside = self.inside.lock();
        let Some(pending) = inside.pending.get_mut(&number) else { return };
        match pending.patient.take() {
            Some(Patient::Asked(asked, _)) => pending.patient = Some(Patient::Asked(asked, true)),
            Some(Patient::Waits(give_up)) => {
                let _ = give_up.send(());
                // From now on it is to be answered soon, however long it has waited.
                (pending.since, pending.prompt) = (Instant::now(), true);
                let wakes = inside.hurry();
                drop(inside);
                if wakes {
                    self.ready.notify_one();
                }
            }
            None => {}
        }
    }

    /// Notes that something else is to be answered soon.
    pub(crate) fn busy(self: &Arc<Self>) -> Busy {
        if self.inside.lock().hurry() {
            self.ready.notify_one();
        }
        Busy(Arc::clone(self))
    }

    /// Tells whether nothing is to be answered soon; then the next that is rings.
    pub(crate) fn dozes_off(&self) -> bool {
        let mut inside = self.inside.lock();
        inside.dozes = inside.prompt == 0;
        inside.dozes
    }

    /// Does what follows from what arrived.
    pub(crate) fn look_through(self: &Arc<Self>) {
        let (mut detached, mut waits) = (Vec::new(), Vec::new());
        let mut inside = self.inside.lock();
        let mut arrived = std::mem::take(&mut inside.arrived);
        self.inbox.take(&mut arrived);
        for one in arrived.drain(..) {
            match one {
                Arrived::Answer { number, serial, result } => match inside.carried_out(number, serial, result) {
                    Carried::Out(place) => detached.extend(place),
                    Carried::On(wait) => waits.push(wait),
                },
                Arrived::Ended { place, cause, revision } => inside.ended(place, cause, revision),
            }
        }
        inside.arrived = arrived;
        drop(inside);
        detached.into_iter().for_each(|place| self.detach(place));
        for wait in waits {
            let Waits { number, serial, asked, wait, kept, given_up } = *wait;
            let ticket = Ticket { mailbox: Arc::clone(self), number, serial, used: false };
            self.runtime.spawn(self.service.clone().wait_on(*asked, wait, kept, given_up, ticket));
        }
    }

    /// Answers a command, unless it was answered before.
    fn settle(self: &Arc<Self>, number: u64, serial: u64, result: Result<Done, Failure>) {
        let detached = self.inside.lock().settle(number, serial, result);
        self.ready.notify_one();
        detached.into_iter().for_each(|place| self.detach(place));
    }

    /// Detaches a lease that nothing makes known any more.
    fn detach(self: &Arc<Self>, place: Place) {
        let attached = &self.service.replica().attached;
        attached.remove([place.clone()], self);
        // Another command may have attached it again meanwhile.
        let again = self.inside.lock().attachments.contains(&place);
        if again {
            attached.add(place, self);
        }
    }

    /// Tells those without an answer for too long that the outcome is not known.
    pub(crate) fn sweep(self: &Arc<Self>, within: Duration) {
        let late = |pending: &Pending| pending.prompt && pending.since.elapsed() >= within;
        let late: Vec<_> = {
            let inside = self.inside.lock();
            let late = inside.pending.iter().filter(|(_, pending)| late(pending));
            late.map(|(number, pending)| (*number, pending.serial)).collect()
        };
        for (number, serial) in late {
            self.settle(
                number,
                serial,
                Err(Failure::NoQuorum { may_have_happened: true, why: crate::service::NO_ANSWER.into() }),
            );
        }
    }

    /// Everything that is ready; none if nothing is.
    pub(crate) fn take(&self) -> Option<Batch> {
        let mut inside = self.inside.lock();
        if inside.is_quiet() {
            return None;
        }
        let mut batch = Batch::default();
        let mut room = Room::default();
        while room.left()
            && let Some(answer) = inside.answers.pop_front()
        {
            room.fill(answer_bytes(&answer.1));
            batch.answers.push(answer);
        }
        while room.left()
            && let Some(progress) = inside.progress.pop_first()
        {
            room.fill(progress_bytes(&progress.1));
            batch.progress.push(progress);
        }
        // A lease is not told lost before the answer that granted it.
        let answered = inside.answers.is_empty();
        while answered
            && room.left()
            && let Some(notice) = inside.notices.pop_front()
        {
            room.fill(notice_bytes(&notice));
            batch.notices.push(notice);
        }
        if answered && inside.notices.is_empty() && std::mem::take(&mut inside.gap) {
            batch.notices.push(Notice::Gap);
        }
        drop(inside);
        self.room.notify_one();
        Some(batch)
    }

    /// Whether something more is to be answered soon than what arrived.
    pub(crate) fn expects_more(&self) -> bool {
        self.inside.lock().prompt > 0
    }

    /// Whether a command can be taken on; none if nobody would take its answer.
    pub(crate) fn has_room(&self) -> Option<bool> {
        let inside = self.inside.lock();
        (!inside.closed).then(|| inside.pending.len() + inside.answers.len() < UNANSWERED_MAX)
    }

    /// Whether everything was answered and taken and nothing more will come.
    pub(crate) fn is_over(&self, stopped: bool) -> bool {
        let inside = self.inside.lock();
        (inside.finished || stopped) && inside.pending.is_empty() && inside.is_quiet()
    }

    /// No further commands come.
    pub(crate) fn finish(&self) {
        self.inside.lock().finished = true;
        self.ready.notify_one();
    }

    /// Nobody takes anything any more: waits leave their queues, leases are detached and go on.
    pub(crate) fn close(self: &Arc<Self>) {
        let mut inside = self.inside.lock();
        inside.closed = true;
        let places = inside.attachments.drain();
        let (kept, dropped) = std::mem::take(&mut inside.pending)
            .into_iter()
            // What may yet be queued must leave its queue then.
            .partition(|(_, pending)| matches!(pending.patient, Some(Patient::Asked(_, _))));
        inside.pending = kept;
        let answers = std::mem::take(&mut inside.answers);
        inside.progress.clear();
        inside.notices.clear();
        drop(inside);
        drop::<(HashMap<u64, Pending>, _)>((dropped, answers));
        self.room.notify_one();
        self.service.replica().attached.remove(places, self);
        self.inbox.close();
        self.look_through();
    }

    fn locked(&self) -> Option<MutexGuard<'_, Inside>> {
        let inside = self.inside.lock();
        (!inside.closed).then_some(inside)
    }

    /// A lease of the connection ended.
    pub(crate) fn lease_ended(&self, place: &Place, cause: &EndCause, revision: Revision) {
        let ended = Arrived::Ended { place: place.clone(), cause: cause.clone(), revision };
        match self.inbox.put(ended) {
            Put::First => self.ready.notify_one(),
            // Nobody is told of ends any more.
            Put::Behind | Put::Closed => {}
        }
    }

    /// Somebody asks for a resource that a lease of the connection holds.
    pub(crate) fn handover_asked(&self, place: &Place, notice: &Notice) {
        let Some(mut inside) = self.locked() else { return };
        let told = inside.attachments.asked(place, notice.clone());
        self.tell(inside, told);
    }

    fn tell(&self, mut inside: MutexGuard<'_, Inside>, told: impl IntoIterator<Item = Notice>) {
        let before = inside.is_quiet();
        told.into_iter().for_each(|notice| inside.note(notice));
        let news = before && !inside.is_quiet();
        drop(inside);
        if news {
            self.ready.notify_one();
        }
    }

    /// The connection may have missed something.
    pub(crate) fn gap(&self) {
        let Some(mut inside) = self.locked() else { return };
        inside.gap = true;
        drop(inside);
        self.ready.notify_one();
    }

    /// Attaches leases before it is known whether they live.
    pub(crate) fn attach(self: &Arc<Self>, places: impl Iterator<Item = Place>) {
        for place in places {
            let newly = self.inside.lock().begin(&Role::Holds(place));
            if let Some(place) = newly {
                self.service.replica().attached.add(place, self);
            }
        }
    }

    /// Notes whether an attached lease lives.
    pub(crate) fn attach_settled(self: &Arc<Self>, place: Place, lives: bool) {
        let mut inside = self.inside.lock();
        let (detached, told) = inside.attachments.settle(Role::Holds(place), lives);
        self.tell(inside, told);
        detached.into_iter().for_each(|place| self.detach(place));
    }
}

impl Inside {
    fn is_quiet(&self) -> bool {
        self.answers.is_empty() && self.progress.is_empty() && self.notices.is_empty() && !self.gap
    }

    /// Notes that something is to be answered soon; tells whether that must ring.
    fn hurry(&mut self) -> bool {
        self.prompt += 1;
        std::mem::take(&mut self.dozes)
    }

    /// Answers a command, or has it wait.
    fn carried_out(&mut self, number: u64, serial: u64, result: Result<Reply, Failure>) -> Carried {
        // Who led is told to callers over calls of their own; looking up its name costs too much here.
        let done = result.and_then(|reply| {
            let Reply { answer, now, revision, .. } = reply;
            Ok(Done { outcome: answer?, now, revision, forwarded_to: None })
        });
        let Some(pending) = self.pending.get_mut(&number).filter(|pending| pending.serial == serial) else {
            return Carried::Out(None);
        };
        let waits = match (&done, &pending.patient) {
            (Ok(done), Some(Patient::Asked(asked, _))) => {
                waits_for(&done.outcome, &asked.wish).map(|wait| (wait, Kept::from(done, &asked.wish)))
            }
            (_, _) => None,
        };
        let (Some((wait, kept)), Some(Patient::Asked(asked, gave_up))) = (waits, pending.patient.take()) else {
            return Carried::Out(self.settle(number, serial, done));
        };
        let (give_up, given_up) = oneshot::channel();
        match (gave_up, self.closed) {
            (true, _) => drop(give_up.send(())),
            (false, true) => drop(give_up),
            (false, false) => {
                pending.patient = Some(Patient::Waits(give_up));
                pending.prompt = false;
                self.prompt -= 1;
            }
        }
        Carried::On(Box::new(Waits { number, serial, asked, wait, kept, given_up }))
    }

    /// A lease ended: that is told now, later, or not at all.
    fn ended(&mut self, place: Place, cause: EndCause, revision: Revision) {
        if !self.closed
            && let Some(notice) = self.attachments.ended(place, cause, revision)
        {
            self.note(notice);
        }
    }

    /// Answers a command, unless it was answered before; gives a lease that nothing makes known any more.
    fn settle(&mut self, number: u64, serial: u64, result: Result<Done, Failure>) -> Option<Place> {
        let Entry::Occupied(pending) = self.pending.entry(number) else { return None };
        if pending.get().serial != serial {
            return None;
        }
        let Pending { role, prompt, .. } = pending.remove();
        self.prompt -= usize::from(prompt);
        self.progress.remove(&number);
        let (detached, notices) = self.attachments.settle(role, result.is_ok());
        if !self.closed {
            self.answers.push_back((number, result));
            notices.into_iter().for_each(|notice| self.note(notice));
        }
        detached
    }

    fn begin(&mut self, role: &Role) -> Option<Place> {
        if self.closed { None } else { self.attachments.begin(role) }
    }

    fn note(&mut self, notice: Notice) {
        match (&notice, self.notices.len()) {
            (_, 0..ASKS_MAX) | (Notice::Ended { .. } | Notice::Gap, ASKS_MAX..NOTICES_MAX) => {
                self.notices.push_back(notice);
            }
            // Whoever asks can ask again; of an end nobody hears again.
            (Notice::HandoverAsked { .. }, ASKS_MAX..) => {}
            (Notice::Ended { .. } | Notice::Gap, NOTICES_MAX..) => self.gap = true,
        }
    }
}
