//! Models that this process keeps on the node, for pods that mount them.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use tetris_wire::daemon::{Message, ModelReport, ModelStage};

use super::client::{DaemonClient, domain, unexpected};
use super::connection::DaemonConnection;
use super::error::DaemonError;

/// Longest wait for an answer: the daemon waits for mounts before it answers, for 20 s.
const ANSWER: Duration = Duration::from_mins(1);

/// The daemon's word that this process keeps a model. It lasts until this is dropped.
pub struct ModelKeeper {
    connection: DaemonConnection,
    /// False for a daemon that knows no priorities.
    is_ranked: bool,
}

/// News for a process that keeps a model.
#[derive(Debug)]
pub enum KeeperNews {
    /// It is to answer for a mount.
    Mount(PassedMount),
    /// It is to give the model up: one of higher priority has no room in the store.
    Yield,
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
    /// header, through the mount that this process has. Models of lower `priority` give way to it.
    ///
    /// # Errors
    ///
    /// Fails if this process has no domain, there is no daemon, or it does not answer in time.
    pub fn keep_model(
        &self,
        header: impl AsFd,
        name: &str,
        priority: u32,
    ) -> Result<ModelKeeper, DaemonError> {
        let connection = self.open_for(ANSWER)?;
        domain(&connection, header)?;
        let name = name.to_owned();
        match connection.ask(&Message::KeepModel { name })? {
            Message::ModelNoted => {}
            Message::IngestRefused(refusal) => return Err(DaemonError::Refused(refusal)),
            other => return Err(unexpected("a model to be noted", &other)),
        }
        let is_ranked = match connection.ask(&Message::RankModel { priority }) {
            Ok(Message::ModelNoted) => true,
            Ok(other) => return Err(unexpected("a priority to be noted", &other)),
            Err(DaemonError::TooOld { .. }) => false,
            Err(error) => return Err(error),
        };
        Ok(ModelKeeper {
            connection,
            is_ranked,
        })
    }
}

impl ModelKeeper {
    /// Reports how far the model is. Waits for news: a second while it is not there, and 20 s later.
    ///
    /// # Errors
    ///
    /// Fails if the daemon is gone, or does not answer in time.
    pub fn report(&mut self, mut report: ModelReport) -> Result<Option<KeeperNews>, DaemonError> {
        self.connection.extend();
        if report.stage == ModelStage::Blocked && !self.is_ranked {
            report.stage = ModelStage::Pulling;
        }
        self.connection.send(&Message::ReportModel(report))?;
        match self.connection.message_with()? {
            (Message::ModelNoted, _) => Ok(None),
            (Message::YieldModel, _) => Ok(Some(KeeperNews::Yield)),
            (message @ Message::ServeModel { mount }, mut descriptors) => {
                let device = descriptors.pop();
                let device =
                    device.ok_or_else(|| unexpected("a mount with its descriptor", &message))?;
                Ok(Some(KeeperNews::Mount(PassedMount { mount, device })))
            }
            (other, _) => Err(unexpected("a model to be noted", &other)),
        }
    }
}
