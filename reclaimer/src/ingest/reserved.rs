//! Room asked for and granted to jobs, and not filled yet.

use std::sync::Arc;

use tetris_loader::ReadMonitor;
use tetris_reclaimer_core::Space;

/// All of it.
#[derive(Debug, Default)]
pub(super) struct Reserved(Vec<Reservation>);

#[derive(Debug)]
struct Reservation {
    job: u64,
    store: String,
    room: Space,
    monitor: Arc<ReadMonitor>,
    /// Numbers of bytes read and staged before the reservation.
    read_before: u64,
    staged_before: u64,
    /// True once the engine has granted it.
    granted: bool,
}

impl Reservation {
    /// The part that the store's catalog does not count: read bytes are about to be published.
    fn left(&self) -> Space {
        self.beyond(self.read())
    }

    /// The part that the file system does not count. Staged objects have all their pages, read or not.
    fn untaken(&self) -> Space {
        let staged = self.monitor.bytes_staged();
        self.beyond(self.read().max(staged.saturating_sub(self.staged_before)))
    }

    fn read(&self) -> u64 {
        self.monitor.bytes_read().saturating_sub(self.read_before)
    }

    /// The rest of the room when these bytes are taken; inodes are taken in proportion.
    fn beyond(&self, taken: u64) -> Space {
        let bytes = self.room.bytes.saturating_sub(taken);
        let inodes = u128::from(self.room.inodes) * u128::from(bytes);
        let inodes = inodes.div_ceil(u128::from(self.room.bytes.max(1)));
        Space {
            bytes,
            inodes: u64::try_from(inodes).unwrap_or(u64::MAX),
        }
    }
}

impl Reserved {
    /// Replaces a job's reservation by room that it fills from now on. Returns the room that the
    /// store needs for all its jobs.
    pub(super) fn set(
        &mut self,
        job: u64,
        store: &str,
        room: Space,
        monitor: &Arc<ReadMonitor>,
    ) -> Space {
        self.end(job);
        self.0.push(Reservation {
            job,
            store: store.to_owned(),
            room,
            monitor: Arc::clone(monitor),
            read_before: monitor.bytes_read(),
            staged_before: monitor.bytes_staged(),
            granted: false,
        });
        let of_store = self.0.iter().filter(|other| other.store == store);
        of_store
            .map(Reservation::left)
            .fold(Space::default(), Space::plus)
    }

    /// The engine has granted the job's room, which counts as taken from now on.
    pub(super) fn grant(&mut self, job: u64) {
        let of_job = self.0.iter_mut().filter(|other| other.job == job);
        of_job.for_each(|reservation| reservation.granted = true);
    }

    /// Granted room that the file system does not count as used, by store.
    pub(super) fn granted(&self) -> Vec<(String, Space)> {
        let granted = self.0.iter().filter(|other| other.granted);
        granted
            .map(|other| (other.store.clone(), other.untaken()))
            .collect()
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
    fn each_store_counts_what_its_jobs_have_left() {
        let (mut reserved, monitor) = (Reserved::default(), Arc::default());
        let mut set = |job, store, bytes| {
            let room = Space { bytes, inodes: 2 };
            reserved.set(job, store, room, &monitor)
        };
        let space = |bytes, inodes| Space { bytes, inodes };
        assert_eq!(set(1, "a", 10), space(10, 2));
        assert_eq!(set(2, "b", 5), space(5, 2));
        assert_eq!(set(3, "a", 7), space(17, 4));
        assert_eq!(set(3, "a", 2), space(12, 4));
        reserved.end(1);
        let all = reserved.set(4, "a", Space::ENDLESS, &monitor);
        assert_eq!(all, Space::ENDLESS);
    }

    #[test]
    fn only_room_that_was_granted_counts_for_others() {
        let (mut reserved, monitor) = (Reserved::default(), Arc::default());
        let room = Space {
            bytes: 10,
            inodes: 2,
        };
        reserved.set(1, "a", room, &monitor);
        reserved.set(2, "b", room, &monitor);
        assert_eq!(reserved.granted(), []);
        reserved.grant(2);
        assert_eq!(reserved.granted(), [("b".to_owned(), room)]);
        // What is asked for anew must be granted anew.
        reserved.set(2, "b", room, &monitor);
        assert_eq!(reserved.granted(), []);
    }

    #[test]
    fn a_staged_object_takes_its_room_once_however_little_of_it_was_read() {
        let (mut reserved, monitor) = (Reserved::default(), Arc::<ReadMonitor>::default());
        monitor.count_staged(7);
        let (bytes, inodes) = (10, 0);
        reserved.set(1, "a", Space { bytes, inodes }, &monitor);
        reserved.grant(1);
        let left = |reserved: &Reserved| reserved.granted()[0].1.bytes;
        assert_eq!(left(&reserved), 10);
        monitor.count_staged(8);
        assert_eq!(left(&reserved), 2);
        // For the store's own limit, which goes by its catalog, nothing of it is there yet.
        let (bytes, inodes) = (5, 0);
        let other = Space { bytes, inodes };
        assert_eq!(reserved.set(2, "a", other, &Arc::default()).bytes, 15);
    }
}
