//! Where the news of the screen come from: lists once a second, and the watch.
//!
//! What is asked for is bounded, however much the server has: so many resources, so many queues.

use std::time::Duration;

use leasehold_api::{Change, Code, QueueList, Resource, ResourceState, Timestamp};
use leasehold_client::http::{Delivery, Error, HttpClient};
use tokio::sync::{mpsc, watch};

use super::super::resources::now;
use crate::render::describe;
use crate::render::text::plain;

/// How often the lists are asked for.
const EVERY: Duration = Duration::from_secs(1);
/// How long the server may take before it counts as lost.
const ANSWER_MAX: Duration = Duration::from_secs(3);
/// The most resources that are asked for.
const RESOURCES_MAX: u16 = 1000;
/// The most queues that are asked for.
const QUEUES_MAX: usize = 20;
/// The pause before a watch that ended is begun again.
const PAUSE: Duration = Duration::from_secs(1);

/// Something new to show.
#[derive(Debug)]
pub(crate) enum News {
    /// The lists as they are.
    Tables(Box<Tables>),
    /// One resource in full, by name.
    Described(String, String),
    /// What happened, and when it was learned.
    Change(Box<Change>, Timestamp),
    /// The server cannot be asked, and why.
    Lost(String),
}

/// Who holds what, and who waits.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Tables {
    /// What is held, wanted or resting.
    pub(crate) resources: Vec<Resource>,
    /// Whether there are more than were asked for.
    pub(crate) has_more: bool,
    /// The queues that have somebody.
    pub(crate) queues: Vec<(String, QueueList)>,
}

/// Asks a server for news.
#[derive(Clone, Debug)]
pub(crate) struct Feed {
    client: HttpClient,
    prefix: String,
    /// The resource that is to be described.
    wanted: watch::Receiver<Option<String>>,
}

impl Feed {
    pub(crate) fn new(client: HttpClient, prefix: String, wanted: watch::Receiver<Option<String>>) -> Feed {
        Feed { client, prefix, wanted }
    }

    /// Asks for the lists.
    pub(crate) async fn look(&mut self) -> Result<News, Error> {
        let list = self.client.first_resources(&self.prefix, RESOURCES_MAX).await?;
        let mut queues = Vec::new();
        for resource in list.resources.iter().filter(|resource| resource.queue.length > 0).take(QUEUES_MAX) {
            match self.client.queue(&resource.name).await {
                Ok(queue) => queues.push((resource.name.clone(), queue)),
                // It was forgotten meanwhile.
                Err(error) if error.code() == Some(Code::NotFound) => {}
                Err(error) => return Err(error),
            }
        }
        let is_shown = |resource: &Resource| resource.state != ResourceState::Free || resource.queue.length > 0;
        let resources = list.resources.into_iter().filter(is_shown).collect();
        Ok(News::Tables(Box::new(Tables { resources, has_more: list.next.is_some(), queues })))
    }

    /// Goes on asking, and telling, until nobody listens.
    pub(crate) fn start(self, told: mpsc::Sender<News>) {
        tokio::spawn(self.clone().keep_looking(told.clone()));
        tokio::spawn(self.keep_watching(told));
    }

    async fn keep_looking(mut self, told: mpsc::Sender<News>) {
        loop {
            // A new wish is answered at once.
            let _ = tokio::time::timeout(EVERY, self.wanted.changed()).await;
            let news = match tokio::time::timeout(ANSWER_MAX, self.look()).await {
                Ok(Ok(news)) => news,
                Ok(Err(error)) => News::Lost(why(error)),
                Err(_) => News::Lost("no answer".to_owned()),
            };
            if told.send(news).await.is_err() {
                return;
            }
            let wanted = self.wanted.borrow_and_update().clone();
            if let Some(name) = wanted {
                let text = self.described(&name).await.unwrap_or_else(|error| error.to_string());
                if told.send(News::Described(name, text)).await.is_err() {
                    return;
                }
            }
        }
    }

    async fn described(&self, name: &str) -> Result<String, Error> {
        let resource = self.client.resource(name).await?;
        let queue = self.client.queue(name).await?;
        let history = self.client.history(name).await?;
        Ok(describe::describe(&resource, &queue, &history, now()))
    }

    async fn keep_watching(self, told: mpsc::Sender<News>) {
        let mut watch = self.client.watch(&self.prefix, None);
        loop {
            match watch.next().await {
                Ok(Delivery::Change(change)) => {
                    if told.send(News::Change(Box::new(change), now())).await.is_err() {
                        return;
                    }
                }
                // That the server is lost is told by the lists.
                Ok(Delivery::Mark(_) | Delivery::Lost(_)) => {}
                // What was missed is missed: the screen shows what is now.
                Err(_) => {
                    tokio::time::sleep(PAUSE).await;
                    watch = self.client.watch(&self.prefix, None);
                }
            }
        }
    }
}

/// Why the server cannot be asked; where it is stands on the screen already.
fn why(error: Error) -> String {
    match error {
        Error::Unreachable { cause, .. } => cause,
        Error::Refused(_) | Error::Protocol { .. } => plain(&error.to_string()),
    }
}
