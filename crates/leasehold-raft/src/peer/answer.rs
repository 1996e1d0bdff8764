//! Answers one question about who belongs to the cluster, of a member or of a node that is to join.

use std::time::Duration;

use leasehold_service::log::Machine;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use super::frame::{self, FrameError, SMALL_BODY_MAX};
use super::hello::Hello;
use super::message;
use super::question::{Question, Verdict};
use crate::change::{ChangeError, Changes};

/// How long the question may take to come.
const QUESTION_PATIENCE: Duration = Duration::from_secs(5);
/// How long a change may take; the asking side waits a little longer.
const DECIDE_PATIENCE: Duration = Duration::from_secs(30);
const WRITE_PATIENCE: Duration = Duration::from_secs(10);

/// Reads a question, has it decided, and answers; then the connection ends.
pub(super) async fn answer_one<M: Machine>(
    changes: &Changes<M>,
    hello: &Hello,
    read: &mut (impl AsyncRead + Unpin),
    write: &mut (impl AsyncWrite + Unpin),
) -> FrameError {
    let frame = match timeout(QUESTION_PATIENCE, frame::read(read, SMALL_BODY_MAX)).await {
        Ok(Ok(frame)) => frame,
        Ok(Err(error)) => return error,
        Err(_) => return FrameError::Closed,
    };
    let (kind, body) = match Question::read(frame.kind, &frame.body) {
        Some(Ok(question)) => (frame.kind | message::ANSWER, verdict(changes, hello, &question).await.to_bytes()),
        Some(Err(error)) => (message::FAILED, error.to_string().into_bytes()),
        None => (message::FAILED, format!("a request of kind {} is no question", frame.kind).into_bytes()),
    };
    let mut bytes = Vec::new();
    frame::put(&mut bytes, kind, frame.number, &body);
    let written = timeout(WRITE_PATIENCE, async {
        write.write_all(&bytes).await?;
        write.flush().await
    });
    match written.await {
        Ok(Err(error)) => error.into(),
        Ok(Ok(())) | Err(_) => FrameError::Closed,
    }
}

async fn verdict<M: Machine>(changes: &Changes<M>, hello: &Hello, question: &Question) -> Verdict {
    let decided = async {
        match question {
            // Whoever is no member speaks for no cluster.
            Question::Join(_) if changes.roster.removed().borrow().is_some() => {
                Err(ChangeError::NotNow("the node that was asked is no member any more; ask another one".into()))
            }
            // Asked at any member; passed on once.
            Question::Join(_) if hello.is_joiner() => changes.attempt(question).await,
            _ if hello.is_joiner() => Err(ChangeError::Refused("a node that is no member can only ask to join".into())),
            Question::Gone => {
                changes.roster.note_removed(&format!("{} says so", changes.roster.name(hello.from)));
                Ok(0)
            }
            Question::Join(_) | Question::Change(_) | Question::Moved(_) => {
                changes.decide(question, Some((hello.from, hello.incarnation))).await
            }
        }
    };
    let late = || Err(ChangeError::Unknown("no majority has confirmed the change in time".into()));
    match timeout(DECIDE_PATIENCE, decided).await.unwrap_or_else(|_| late()) {
        Ok(node) => Verdict::Done(node),
        Err(ChangeError::Refused(words)) => Verdict::Refused(words),
        Err(ChangeError::NotNow(words)) => Verdict::NotNow(words),
        Err(ChangeError::Unknown(words)) => Verdict::Unknown(words),
        Err(error @ (ChangeError::NotLeader { .. } | ChangeError::Stopped(_))) => Verdict::NotNow(error.to_string()),
    }
}
