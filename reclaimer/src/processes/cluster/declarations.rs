//! Declarations of pods on their way to the broker: when they change, again and again, and at once
//! after the broker was restarted.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use axum::http::Method;
use tetris_service_kit::unix_http::{UnixClient, UnixHttpError};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::keep_warm::{Freshness, WarmSet};
use crate::processes::messages::{
    DECLARATIONS_BYTES, DECLARATIONS_EVERY, Declarations, PodDeclarations,
};

/// Time between two looks at the broker's socket, and between two attempts to reach it.
const LOOK: Duration = Duration::from_secs(1);

/// Sends the declarations to the broker until no one changes them any more.
pub(crate) async fn send(broker: UnixClient, mut changes: watch::Receiver<WarmSet>) {
    let mut due = Instant::now();
    let mut told = Told::default();
    let mut looks = tokio::time::interval(LOOK);
    let mut socket = identity(broker.path());
    loop {
        tokio::select! {
            changed = changes.changed() => match changed {
                Ok(()) => due = Instant::now(),
                Err(_) => return,
            },
            _ = looks.tick() => {
                let now = identity(broker.path());
                if now.is_some() && now != socket {
                    socket = now;
                    due = Instant::now();
                }
            }
        }
        if Instant::now() < due {
            continue;
        }
        let Some(message) = message(&changes.borrow_and_update(), &mut told) else {
            continue;
        };
        let sent = broker.call(Method::PUT, "/declarations", &message).await;
        let again_in = if sent.is_ok() {
            DECLARATIONS_EVERY
        } else {
            LOOK
        };
        told.sent(sent);
        due = Instant::now() + again_in;
    }
}

/// Message with the set, none before the first complete list: the broker goes by the declarations
/// that it knows from before.
fn message(set: &WarmSet, told: &mut Told) -> Option<Declarations> {
    match set.freshness {
        Freshness::NoCluster | Freshness::Unknown => None,
        Freshness::Current | Freshness::Stale { .. } => {
            let mut message = Declarations::from(set);
            told.left_out(&fit(&mut message.pods, DECLARATIONS_BYTES));
            Some(message)
        }
    }
}

/// Leaves out pods until the rest fits: those that declare most go first, so that no number of them
/// takes the declarations of others out of force. Returns those that are left out.
fn fit(pods: &mut Vec<PodDeclarations>, most: usize) -> Vec<PodDeclarations> {
    /// Length of the message without its pods.
    const FRAME: usize = 256;
    let length = |pod: &PodDeclarations| serde_json::to_vec(pod).map_or(0, |json| json.len() + 1);
    let mut lengths: Vec<(usize, usize)> = pods.iter().map(length).zip(0..).collect();
    let mut total: usize = lengths.iter().map(|(length, _)| length).sum();
    if total <= most.saturating_sub(FRAME) {
        return Vec::new();
    }
    lengths.sort_unstable();
    let mut gone = Vec::new();
    while total > most.saturating_sub(FRAME)
        && let Some((length, index)) = lengths.pop()
    {
        total -= length;
        gone.push(index);
    }
    gone.sort_unstable_by(|one, other| other.cmp(one));
    gone.into_iter().map(|index| pods.remove(index)).collect()
}

/// State that the log has, so that it gets each change once.
#[derive(Debug, Default)]
struct Told {
    failing: bool,
    left_out: bool,
}

impl Told {
    fn sent(&mut self, sent: Result<(), UnixHttpError>) {
        let was_failing = std::mem::replace(&mut self.failing, sent.is_err());
        match sent {
            Err(error) if was_failing => {
                tracing::debug!(%error, "the broker still takes no declarations");
            }
            Err(error) => {
                tracing::warn!(%error, "the broker takes no declarations: it goes by the last ones that it has");
            }
            Ok(()) if was_failing => tracing::info!("the broker takes declarations again"),
            Ok(()) => {}
        }
    }

    fn left_out(&mut self, pods: &[PodDeclarations]) {
        let were_left_out = std::mem::replace(&mut self.left_out, !pods.is_empty());
        if let (Some(most), false) = (pods.last(), were_left_out) {
            tracing::warn!(
                pods = pods.len(),
                namespace = most.pod.namespace,
                pod = most.pod.name,
                models = most.models.len(),
                "pods declare too many models for one message: those with most are left out; shorten their annotations"
            );
        }
    }
}

/// The socket, as distinct from the one that a restarted broker makes.
fn identity(socket: &Path) -> Option<(u64, u64, i64, i64)> {
    let stat = std::fs::symlink_metadata(socket).ok()?;
    Some((stat.dev(), stat.ino(), stat.ctime(), stat.ctime_nsec()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keep_warm::Pod;

    fn pod(name: &str, models: usize) -> PodDeclarations {
        let pod = Pod {
            namespace: "blue".to_owned(),
            name: name.to_owned(),
            uid: name.to_owned(),
        };
        PodDeclarations {
            pod,
            models: vec!["m".repeat(100); models],
        }
    }

    fn names(pods: &[PodDeclarations]) -> Vec<&str> {
        pods.iter().map(|pod| pod.pod.name.as_str()).collect()
    }

    #[test]
    fn pods_that_declare_most_are_left_out_of_a_message_that_is_too_long() {
        let mut pods = vec![pod("a", 1), pod("b", 50), pod("c", 2), pod("d", 60)];
        assert!(fit(&mut pods, 1 << 20).is_empty());
        assert_eq!(names(&fit(&mut pods, 7000)), ["d"]);
        assert_eq!(names(&pods), ["a", "b", "c"]);
        assert_eq!(names(&fit(&mut pods, 1000)), ["b"]);
        assert_eq!(names(&pods), ["a", "c"]);
        assert_eq!(names(&fit(&mut pods, 0)), ["c", "a"]);
    }

    #[test]
    fn a_message_that_fits_is_no_longer_than_its_limit() {
        let mut message = Declarations {
            freshness: Freshness::Current.into(),
            pods: (0..50).map(|n| pod(&format!("\"{n}\\"), n)).collect(),
        };
        for most in [100_000, 20_000, 3000] {
            fit(&mut message.pods, most);
            let json = serde_json::to_vec(&message).unwrap();
            assert!(json.len() <= most, "{} of {most}", json.len());
        }
    }

    #[test]
    fn nothing_is_sent_before_the_first_complete_list() {
        let mut told = Told::default();
        let mut set = WarmSet::no_cluster();
        assert!(message(&set, &mut told).is_none());
        set.freshness = Freshness::Unknown;
        assert!(message(&set, &mut told).is_none());
        set.freshness = Freshness::Current;
        assert!(message(&set, &mut told).is_some());
    }
}
