//! Models that this process keeps on the node, for pods that mount them.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use tetris_wire::daemon::{Message, ModelReport};

use super::client::{DaemonClient, domain, unexpected};
use super::connection::DaemonConnection;
use super::error::DaemonError;

/// Longest wait for an answer: the daemon waits for mounts before it answers, for 20 s.
const ANSWER: Duration = Duration::from_mins(1);

/// The daemon's word that this process keeps a model. It lasts until this is dropped.
pub struct ModelKeeper {
    connection: DaemonConnection,
}

/// A mount for this process to answer for.
#[derive(Debug)]
pub struct PassedMount {
    /// Its number; not 0.
    pub mount: u64,
    /// Its descriptor, of `/dev/fuse`.
    pub device: OwnedFd,
}

impl DaemonClient {
    /// Has the daemon know that this process keeps the model `name` on the node, in its trust domain. `header` is the store's
    /// header, through the mount that this process has.
    ///
    /// # Errors
    ///
    /// Fails if this process has no domain, there is no daemon, or it does not answer in time.
    pub fn keep_model(&self, header: impl AsFd, name: &str) -> Result<ModelKeeper, DaemonError> {
        let connection = self.open_for(ANSWER)?;
        domain(&connection, header)?;
        let name = name.to_owned();
        match connection.ask(&Message::KeepModel { name })? {
            Message::ModelNoted => Ok(ModelKeeper { connection }),
            Message::IngestRefused(refusal) => Err(DaemonError::Refused(refusal)),
            other => Err(unexpected("a model to be noted", &other)),
        }
    }
}

impl ModelKeeper {
    /// Reports how far the model is. Waits for a mount: a second while it is not there, and 20 s later.
    ///
    /// # Errors
    ///
    /// Fails if the daemon is gone, or does not answer in time.
    pub fn report(&mut self, report: ModelReport) -> Result<Option<PassedMount>, DaemonError> {
        self.connection.extend();
        self.connection.send(&Message::ReportModel(report))?;
        match self.connection.message_with()? {
            (Message::ModelNoted, _) => Ok(None),
            (message @ Message::ServeModel { mount }, mut descriptors) => {
                let device = descriptors.pop();
                let device =
                    device.ok_or_else(|| unexpected("a mount with its descriptor", &message))?;
                Ok(Some(PassedMount { mount, device }))
            }
            (other, _) => Err(unexpected("a model to be noted", &other)),
        }
    }
}
