//! Room granted to jobs in stores with a limit, and not filled yet.

use std::sync::Arc;

use tetris_loader::ReadMonitor;

/// All of it.
#[derive(Debug, Default)]
pub(super) struct Reserved(Vec<Reservation>);

#[derive(Debug)]
struct Reservation {
    job: u64,
    store: String,
    bytes: u64,
    monitor: Arc<ReadMonitor>,
    /// Number of bytes read before the reservation.
    since: u64,
}

impl Reservation {
    /// Remaining bytes. Read bytes are about to be published, and the store's catalog counts them
    /// from then on.
    fn left(&self) -> u64 {
        let read = self.monitor.bytes_read().saturating_sub(self.since);
        self.bytes.saturating_sub(read)
    }
}

impl Reserved {
    /// Replaces a job's reservation by bytes that it reads from now on. Returns the room that the
    /// store needs.
    pub(super) fn set(
        &mut self,
        job: u64,
        store: &str,
        bytes: u64,
        monitor: &Arc<ReadMonitor>,
    ) -> u64 {
        self.end(job);
        self.0.push(Reservation {
            job,
            store: store.to_owned(),
            bytes,
            monitor: Arc::clone(monitor),
            since: monitor.bytes_read(),
        });
        let own = self.0.iter().filter(|other| other.store == store);
        own.map(Reservation::left).fold(0, u64::saturating_add)
    }

    /// The job needs no more.
    pub(super) fn end(&mut self, job: u64) {
        self.0.retain(|other| other.job != job);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_store_counts_what_its_flights_have_left() {
        let (mut reserved, monitor) = (Reserved::default(), Arc::default());
        assert_eq!(reserved.set(1, "a", 10, &monitor), 10);
        assert_eq!(reserved.set(2, "b", 5, &monitor), 5);
        assert_eq!(reserved.set(3, "a", 7, &monitor), 17);
        assert_eq!(reserved.set(3, "a", 2, &monitor), 12);
        reserved.end(1);
        assert_eq!(reserved.set(4, "a", u64::MAX, &monitor), u64::MAX);
    }
}
