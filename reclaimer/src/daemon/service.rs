//! Reports to the service manager, such as systemd: readiness, a line of status, and heartbeats
//! while the daemon makes progress. Without one, as in Kubernetes, nothing is sent.

use std::sync::Arc;
use std::time::Duration;

use tetris_service_kit::service_manager::{Message, ServiceManager};
use tetris_service_kit::shutdown::until;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::http::Health;
use crate::report::NodeStatus;

/// Reports to the service manager that started the daemon, if one did.
#[derive(Debug, Clone)]
pub(super) struct ServiceReports(Option<Arc<ServiceManager>>);

impl ServiceReports {
    /// To the service manager that the environment names. An address that cannot be used is logged.
    pub(super) fn from_env() -> Self {
        Self(ServiceManager::from_env().map_or_else(
            |error| {
                tracing::warn!(%error, "the service manager gets no reports");
                None
            },
            |manager| manager.map(Arc::new),
        ))
    }

    /// Reports readiness after the first pass, the state after each pass, and heartbeats as long as
    /// `health` has no fault, until `stopped`.
    pub(super) fn follow(
        &self,
        health: Arc<Health>,
        status: watch::Receiver<Option<Arc<NodeStatus>>>,
        stopped: watch::Receiver<bool>,
    ) {
        if let Some(manager) = &self.0 {
            tokio::spawn(follow(Arc::clone(manager), health, status, stopped));
        }
    }

    /// The configuration is being read again.
    pub(super) fn reloading(&self) {
        self.send(&[Message::Reloading]);
    }

    /// The configuration was read; false if it is wrong and the one in force stays.
    pub(super) fn reloaded(&self, accepted: bool) {
        if accepted {
            self.send(&[Message::Ready]);
        } else {
            let refused =
                "the new configuration is wrong; the one in force stays; the log says why";
            self.send(&[Message::Ready, Message::Status(refused)]);
        }
    }

    /// The daemon ends.
    pub(super) fn stopping(&self) {
        self.send(&[Message::Stopping, Message::Status("stopping")]);
    }

    fn send(&self, messages: &[Message<'_>]) {
        if let Some(manager) = &self.0 {
            send(manager, messages);
        }
    }
}

fn send(manager: &ServiceManager, messages: &[Message<'_>]) {
    if let Err(error) = manager.send(messages) {
        tracing::warn!(%error, ?messages, "the service manager did not get a report");
    }
}

async fn follow(
    manager: Arc<ServiceManager>,
    health: Arc<Health>,
    mut status: watch::Receiver<Option<Arc<NodeStatus>>>,
    stopped: watch::Receiver<bool>,
) {
    // Two in each period, as sd_watchdog_enabled(3) advises. Without a watchdog none is sent.
    let every = manager.watchdog().map(|period| period / 2);
    let period = every.unwrap_or(Duration::from_hours(1));
    let mut beats = interval_at(Instant::now() + period, period);
    beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut stopped = std::pin::pin!(until(stopped));
    let (mut ready, mut healthy) = (false, true);
    loop {
        tokio::select! {
            () = &mut stopped => return,
            _ = beats.tick(), if every.is_some() => {
                let checked = health.check();
                match &checked {
                    Ok(()) => send(&manager, &[Message::Alive]),
                    Err(reason) if healthy => {
                        let reason = reason.to_string();
                        tracing::error!(reason, "no more heartbeats: the service manager restarts the daemon");
                        send(&manager, &[Message::Status(&reason)]);
                    }
                    Err(_) => {}
                }
                healthy = checked.is_ok();
            }
            changed = status.changed() => {
                if changed.is_err() {
                    return;
                }
                let text = status.borrow_and_update().as_deref().map(summary);
                let Some(text) = text else { continue };
                let text = Message::Status(&text);
                if ready {
                    send(&manager, &[text]);
                } else {
                    send(&manager, &[Message::Ready, text]);
                    ready = true;
                }
            }
        }
    }
}

/// The state of the node in one line.
fn summary(status: &NodeStatus) -> String {
    let faults: Vec<String> = status
        .stores
        .iter()
        .filter_map(|store| Some(format!("store {}: {}", store.name, store.error.as_ref()?)))
        .collect();
    if !faults.is_empty() {
        return faults.join("; ");
    }
    let mib = |bytes: u64| bytes >> 20;
    let capacity: u64 = status.mounts.iter().map(|mount| mount.capacity_bytes).sum();
    let free: u64 = status.mounts.iter().map(|mount| mount.free_bytes).sum();
    let models: usize = status.stores.iter().map(|store| store.models.len()).sum();
    let references: u64 = status.stores.iter().map(|store| store.holders).sum();
    let saved: u64 = status.stores.iter().map(|store| store.saved_bytes).sum();
    format!(
        "stores: {}; {} of {} MiB in use; models: {models}; references: {references}; {} MiB saved against private copies",
        status.stores.len(),
        mib(capacity.saturating_sub(free)),
        mib(capacity),
        mib(saved),
    )
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::os::unix::net::UnixDatagram;

    use super::*;

    /// Messages that have arrived, one after the other.
    fn arrived(listener: &UnixDatagram) -> Vec<String> {
        let mut messages = Vec::new();
        let mut bytes = [0; 4096];
        loop {
            match listener.recv(&mut bytes) {
                Ok(length) => {
                    messages.push(String::from_utf8_lossy(&bytes[..length]).into_owned());
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return messages,
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Lets `time` pass, and the tasks act on it.
    async fn pass(time: Duration) {
        tokio::time::sleep(time).await;
        tokio::task::yield_now().await;
    }

    #[tokio::test(start_paused = true)]
    async fn heartbeats_end_when_the_engine_makes_no_progress_and_begin_again_when_it_does() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let listener = UnixDatagram::bind(&path).unwrap();
        listener.set_nonblocking(true).unwrap();
        let watchdog = Some(Duration::from_secs(4));
        let manager = ServiceManager::new(path.as_os_str(), watchdog).unwrap();
        let health = Arc::new(Health::new(Duration::from_secs(10)));
        let (_status, follows) = watch::channel(None);
        let (stop, stopped) = watch::channel(false);
        ServiceReports(Some(Arc::new(manager))).follow(Arc::clone(&health), follows, stopped);
        pass(Duration::from_secs(5)).await;
        assert_eq!(arrived(&listener), ["WATCHDOG=1"; 2]);
        health.beat();
        // The engine's last sign of life was at 5 s, so heartbeats end at 15 s.
        pass(Duration::from_secs(20)).await;
        let last = arrived(&listener);
        assert_eq!(last[..last.len() - 1], ["WATCHDOG=1"; 5]);
        let fault = last.last().unwrap();
        assert!(
            fault.starts_with("STATUS=the daemon's loop last reported"),
            "{fault}"
        );
        pass(Duration::from_secs(20)).await;
        assert_eq!(arrived(&listener), [""; 0]);
        health.beat();
        pass(Duration::from_secs(3)).await;
        assert!(arrived(&listener).contains(&"WATCHDOG=1".to_owned()));
        stop.send(true).unwrap();
        pass(Duration::from_secs(20)).await;
        assert_eq!(arrived(&listener), [""; 0]);
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_watchdog_there_are_no_heartbeats() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let listener = UnixDatagram::bind(&path).unwrap();
        listener.set_nonblocking(true).unwrap();
        let manager = ServiceManager::new(path.as_os_str(), None).unwrap();
        let health = Arc::new(Health::new(Duration::from_hours(10)));
        let (_status, follows) = watch::channel(None);
        let (_stop, stopped) = watch::channel(false);
        ServiceReports(Some(Arc::new(manager))).follow(health, follows, stopped);
        pass(Duration::from_hours(3)).await;
        assert_eq!(arrived(&listener), [""; 0]);
    }
}
