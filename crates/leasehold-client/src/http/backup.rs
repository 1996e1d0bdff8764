//! A backup of the cluster, piece by piece as it arrives.
//!
//! Whether it arrived whole is told by the bytes themselves, which end with a mark and checksums; nothing here
//! looks into them.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;

use super::error::cause_of;
use super::transport::Call;
use super::url::Url;
use super::watch::accepted;
use super::{Error, HttpClient};

/// After how long without a byte the transfer counts as broken.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// A backup on its way in.
#[derive(Debug)]
pub struct Download {
    addr: String,
    body: Incoming,
}

impl HttpClient {
    /// Begins a backup of the whole cluster.
    pub async fn backup(&self) -> Result<Download, Error> {
        let call = Call::get(Url::new("/v1/cluster/backup"));
        let (addr, _, response) = self.transport().open(&call).await.map_err(|failure| failure.error)?;
        let response = accepted(&addr, response).await?;
        Ok(Download { addr, body: response.into_body() })
    }
}

impl Download {
    /// The next piece; none at the end.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        loop {
            let lost = |cause: String| Error::Unreachable { addr: self.addr.clone(), cause };
            match tokio::time::timeout(SILENCE_MAX, self.body.frame()).await {
                Err(_) => return Err(lost("nothing was heard for a minute".to_owned())),
                Ok(None) => return Ok(None),
                Ok(Some(Err(error))) => {
                    return Err(lost(format!("the backup broke off: {}", cause_of(&error))));
                }
                Ok(Some(Ok(frame))) => {
                    if let Ok(piece) = frame.into_data() {
                        return Ok(Some(piece));
                    }
                }
            }
        }
    }
}
