//! Counting of holders beside the passes: each status gets the counts of `/proc/locks` a moment after its
//! pass, or later where the list is long.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tetris_service_kit::shutdown::until;
use tetris_store_layout::{Holders, IoError};
use tokio::sync::{Notify, watch};

use crate::metrics::Metrics;
use crate::report::{ErrorClass, HolderCounts, NodeStatus};

/// The latest status of the node.
type Status = watch::Sender<Option<Arc<NodeStatus>>>;

/// Time between two counts, in multiples of the time that a count took: at most 0.4 % of a core.
const PAUSE: u32 = 250;
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_mins(2);

/// Counts the holders of the latest status.
#[derive(Debug)]
pub(super) struct HolderCounter {
    status: Status,
    metrics: Arc<Metrics>,
    due: Arc<Notify>,
}

impl HolderCounter {
    /// A counter for `status`, and the signal that a status is to be counted.
    pub(super) fn new(status: Status, metrics: Arc<Metrics>) -> (Self, Arc<Notify>) {
        let due = Arc::new(Notify::new());
        let counter = Self {
            status,
            metrics,
            due: Arc::clone(&due),
        };
        (counter, due)
    }

    /// Counts until `stopped`.
    pub(super) async fn run(self, stopped: watch::Receiver<bool>) {
        let mut stopped = pin!(until(stopped));
        loop {
            tokio::select! {
                () = &mut stopped => return,
                () = self.due.notified() => {}
            }
            let Some(seen) = self.status.borrow().clone() else {
                continue;
            };
            let began = Instant::now();
            // It blocks, for a tenth of a second where the list is long.
            let counted = tokio::task::spawn_blocking(move || (count(&seen), seen)).await;
            if let Ok((counted, seen)) = counted {
                self.publish(&seen, counted);
            }
            tokio::select! {
                () = &mut stopped => return,
                () = tokio::time::sleep(pause(began.elapsed())) => {}
            }
        }
    }

    fn publish(&self, seen: &Arc<NodeStatus>, counted: Result<NodeStatus, IoError>) {
        let counted = match counted {
            Ok(counted) => counted,
            Err(error) => {
                tracing::warn!(%error, "holders are not counted");
                self.metrics.error(ErrorClass::Locks, None);
                return;
            }
        };
        if counted.holder_counts == HolderCounts::Incomplete
            && seen.holder_counts != HolderCounts::Incomplete
        {
            tracing::warn!(
                lines = Holders::MAX_LINES,
                "the node has more locks than are counted: counts of holders and savings are too low; `lslocks` names the processes"
            );
        }
        let counted = Arc::new(counted);
        self.status.send_if_modified(|latest| {
            // A pass that ended meanwhile has another status, which is counted next.
            let is_latest = latest
                .as_ref()
                .is_some_and(|latest| Arc::ptr_eq(latest, seen));
            if is_latest {
                *latest = Some(counted);
            } else {
                self.due.notify_one();
            }
            is_latest
        });
    }
}

fn count(status: &NodeStatus) -> Result<NodeStatus, IoError> {
    let holders = Holders::read()?;
    let mut counted = status.clone();
    counted.count_holders(&holders);
    Ok(counted)
}

/// Time until the next count after one that took `took`.
fn pause(took: Duration) -> Duration {
    took.saturating_mul(PAUSE)
        .clamp(SHORTEST_PAUSE, LONGEST_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longer_a_count_takes_the_rarer_it_is() {
        assert_eq!(pause(Duration::from_micros(300)), SHORTEST_PAUSE);
        assert_eq!(pause(Duration::from_millis(120)), Duration::from_secs(30));
        assert_eq!(pause(Duration::from_secs(70)), LONGEST_PAUSE);
    }
}
