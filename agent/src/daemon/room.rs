//! Memory of the daemon's answers, so that the agent does not ask in vain.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tetris_loader::PrivateCause;
use tetris_wire::daemon::{RoomReason, RoomRefusal};

/// Time after a request without an answer in which the daemon is not asked: each load would wait in
/// vain.
const AFTER_FAILURE: Duration = Duration::from_mins(1);
/// Time after a refusal before a load asks again for as much: it has up to 16,384 objects, and
/// would ask for each.
const AFTER_REFUSAL: Duration = Duration::from_secs(1);

/// Memory of a daemon that does not answer. One for each agent, shared by its loads.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    failed: Mutex<Option<Instant>>,
}

impl Patience {
    /// Returns true if the daemon may be asked at `now`.
    pub(crate) fn is_left(&self, now: Instant) -> bool {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.is_none_or(|at| now.saturating_duration_since(at) >= AFTER_FAILURE)
    }

    /// Notes that the daemon gave no answer.
    pub(crate) fn lose(&self, now: Instant) {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        *failed = Some(now);
    }
}

/// Refusals of the daemon to one load.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    refused: Mutex<Option<Refused>>,
    not_ingested: Mutex<Option<(PrivateCause, String)>>,
}

#[derive(Debug)]
struct Refused {
    bytes: u64,
    at: Instant,
    /// The first reason, which the report gives, and the cause that it stands for.
    why: (Option<PrivateCause>, String),
}

impl Answers {
    /// Returns true if `bytes` or fewer were refused just before `now`.
    pub(crate) fn is_refused(&self, bytes: u64, now: Instant) -> bool {
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.as_ref().is_some_and(|refused| {
            bytes >= refused.bytes && now.saturating_duration_since(refused.at) < AFTER_REFUSAL
        })
    }

    /// Notes a refusal; the first one is logged.
    pub(crate) fn refuse(&self, bytes: u64, now: Instant, refusal: &RoomRefusal) {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(refused) = refused.as_mut() {
            (refused.bytes, refused.at) = (bytes, now);
            return;
        }
        let RoomRefusal {
            missing_bytes,
            reason,
            text,
        } = refusal;
        tracing::warn!(
            bytes,
            missing_bytes,
            reason = reason.0,
            text,
            "the node's daemon made no room in the tensor store"
        );
        let why =
            format!("the node's daemon made no room, {missing_bytes} bytes are missing: {text}");
        let why = (cause_of(*reason), why);
        *refused = Some(Refused {
            bytes,
            at: now,
            why,
        });
    }

    /// Notes the reason the daemon did not publish a file for this process, and its cause.
    pub(crate) fn not_ingested(&self, cause: PrivateCause, why: &str) {
        let mut noted = self
            .not_ingested
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        noted.get_or_insert_with(|| {
            let why = format!("the node's daemon did not publish the file: {why}");
            (cause, why)
        });
    }

    /// The reason the daemon did not publish a file, with its cause.
    pub(crate) fn why_not_ingested(&self) -> Option<(Option<PrivateCause>, String)> {
        let noted = self.not_ingested.lock();
        let noted = noted.unwrap_or_else(PoisonError::into_inner).clone();
        noted.map(|(cause, why)| (Some(cause), why))
    }

    /// The reason of the first refusal, with its cause if it is more than a full store.
    pub(crate) fn why(&self) -> Option<(Option<PrivateCause>, String)> {
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.as_ref().map(|refused| refused.why.clone())
    }
}

/// The cause that a daemon's refusal stands for, if it is more than a full store. The sizes that
/// are needed are not known yet.
fn cause_of(reason: RoomReason) -> Option<PrivateCause> {
    match reason {
        RoomReason::POLICY => Some(PrivateCause::Kept { needed: 0 }),
        RoomReason::LIMIT => Some(PrivateCause::OverLimit),
        RoomReason::TOO_LARGE => Some(PrivateCause::TooSmall { needed: 0 }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_that_gave_no_answer_is_left_alone_for_a_while() {
        let patience = Patience::default();
        let now = Instant::now();
        assert!(patience.is_left(now));
        patience.lose(now);
        assert!(!patience.is_left(now));
        assert!(!patience.is_left(now + AFTER_FAILURE / 2));
        assert!(patience.is_left(now + AFTER_FAILURE));
    }

    #[test]
    fn what_was_refused_is_asked_for_again_when_it_is_less_or_later() {
        let answers = Answers::default();
        let now = Instant::now();
        assert!(!answers.is_refused(100, now));
        assert_eq!(answers.why(), None);
        let refusal = |text: &str| RoomRefusal {
            missing_bytes: 7,
            reason: RoomReason::IN_USE,
            text: text.to_owned(),
        };
        answers.refuse(100, now, &refusal("first"));
        assert!(answers.is_refused(100, now));
        assert!(answers.is_refused(101, now));
        assert!(!answers.is_refused(99, now));
        assert!(!answers.is_refused(100, now + AFTER_REFUSAL));
        answers.refuse(50, now + AFTER_REFUSAL, &refusal("second"));
        assert!(answers.is_refused(50, now + AFTER_REFUSAL));
        let (cause, why) = answers.why().unwrap();
        assert_eq!(cause, None);
        assert!(why.contains("first") && why.contains("7 bytes"), "{why}");
    }
}
