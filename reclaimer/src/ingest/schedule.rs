//! Whose turn it is. No threads, no clock.

use tetris_store_layout::{FileIdentity, ManifestKind};

use super::options::IngestConfig;

/// Files that are given up but whose reader still hangs, before files of file systems that can hang are refused.
const MAX_HANGING: usize = 16;

/// What is read: which version of which file, as what, into which store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) store: String,
    pub(super) kind: ManifestKind,
    pub(super) identity: FileIdentity,
}

/// All flights, in the order in which they began.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    entries: Vec<Entry>,
    next: u64,
}

#[derive(Debug)]
struct Entry {
    id: u64,
    key: Key,
    local: bool,
    /// The users of the clients that wait, one for each.
    users: Vec<u32>,
    phase: Phase,
}

/// The numbers are the users for whom something is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Waiting,
    Running(u32),
    /// Nobody waits for it any more, and its thread has not come back.
    Hanging(u32),
}

/// A file cannot wait for its turn: there are too many.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Full;

impl Schedule {
    /// Adds a client to the flight of a file, if there is one.
    pub(super) fn join(&mut self, key: &Key, uid: u32) -> Option<u64> {
        let joinable = |entry: &&mut Entry| {
            entry.key == *key
                && !entry.users.is_empty()
                && !matches!(entry.phase, Phase::Hanging(_))
        };
        let entry = self.entries.iter_mut().find(joinable)?;
        entry.users.push(uid);
        Some(entry.id)
    }

    /// Adds a flight for a client.
    pub(super) fn begin(
        &mut self,
        key: Key,
        uid: u32,
        local: bool,
        config: &IngestConfig,
    ) -> Result<u64, Full> {
        let waiting = || {
            let waiting = |entry: &&Entry| entry.phase == Phase::Waiting;
            self.entries.iter().filter(waiting)
        };
        let own = waiting().filter(|entry| entry.users.first() == Some(&uid));
        if waiting().count() >= config.queue as usize
            || own.count() >= config.queue_per_user as usize
            || (!local && self.hanging() >= MAX_HANGING)
        {
            return Err(Full);
        }
        let id = self.next;
        self.next += 1;
        self.entries.push(Entry {
            id,
            key,
            local,
            users: vec![uid],
            phase: Phase::Waiting,
        });
        Ok(id)
    }

    /// Takes a client away; `true` when it was the last one.
    pub(super) fn leave(&mut self, id: u64, uid: u32) -> bool {
        let Some(entry) = self.entries.iter_mut().find(|entry| entry.id == id) else {
            return true;
        };
        if let Some(at) = entry.users.iter().position(|user| *user == uid) {
            entry.users.swap_remove(at);
        }
        entry.users.is_empty()
    }

    /// Starts a flight if it is its turn; otherwise says how many are before it.
    pub(super) fn try_start(&mut self, id: u64, config: &IngestConfig) -> Result<(), u32> {
        let busy = self.charged(|phase| matches!(phase, Phase::Running(_)));
        let mut ahead = busy as u32;
        let mut free = (config.concurrent as usize).saturating_sub(busy);
        let mut starting: Vec<u32> = Vec::new();
        for entry in self
            .entries
            .iter()
            .filter(|entry| entry.phase == Phase::Waiting)
        {
            let user = self.payer(entry, &starting, config);
            if entry.id == id {
                let Some(uid) = user.filter(|_| free > 0) else {
                    return Err(ahead);
                };
                if let Some(entry) = self.entries.iter_mut().find(|entry| entry.id == id) {
                    entry.phase = Phase::Running(uid);
                }
                return Ok(());
            }
            ahead += 1;
            if let Some(uid) = user.filter(|_| free > 0) {
                // It starts as soon as it looks.
                free -= 1;
                starting.push(uid);
            }
        }
        Err(ahead)
    }

    /// A user who waits for a flight and may have another one.
    fn payer(&self, entry: &Entry, starting: &[u32], config: &IngestConfig) -> Option<u32> {
        let may = |uid: &&u32| {
            let running = self.charged(|phase| phase == Phase::Running(**uid));
            let hanging = self.charged(|phase| phase == Phase::Hanging(**uid));
            let starting = starting.iter().filter(|user| user == uid).count();
            let hanging = if entry.local { 0 } else { hanging };
            running + starting + hanging < config.per_user as usize
        };
        entry.users.iter().find(may).copied()
    }

    fn charged(&self, is: impl Fn(Phase) -> bool) -> usize {
        self.entries.iter().filter(|entry| is(entry.phase)).count()
    }

    fn hanging(&self) -> usize {
        self.charged(|phase| matches!(phase, Phase::Hanging(_)))
    }

    /// Gives a running flight up. Its thread may never come back.
    pub(super) fn give_up(&mut self, id: u64) {
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.id == id)
            && let Phase::Running(uid) = entry.phase
        {
            entry.phase = Phase::Hanging(uid);
        }
    }

    /// Forgets a flight.
    pub(super) fn end(&mut self, id: u64) {
        self.entries.retain(|entry| entry.id != id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(ino: u64) -> Key {
        Key {
            store: "a".to_owned(),
            kind: ManifestKind::File,
            identity: FileIdentity {
                dev: 1,
                ino,
                size: 1,
                mtime: (0, 0),
                ctime: (0, 0),
            },
        }
    }

    const LIMITS: fn() -> IngestConfig = || IngestConfig {
        queue: 6,
        queue_per_user: 3,
        ..IngestConfig::default()
    };

    #[test]
    fn one_user_has_one_turn_and_the_next_user_goes_first() {
        let (mut schedule, limits) = (Schedule::default(), LIMITS());
        let mut begin = |ino, uid| schedule.begin(key(ino), uid, true, &limits).unwrap();
        let (first, second, other) = (begin(1, 7), begin(2, 7), begin(3, 8));
        assert_eq!(schedule.try_start(first, &limits), Ok(()));
        assert_eq!(schedule.try_start(second, &limits), Err(1));
        assert_eq!(schedule.try_start(other, &limits), Ok(()));
        schedule.end(first);
        assert_eq!(schedule.try_start(second, &limits), Ok(()));
    }

    #[test]
    fn the_earlier_one_goes_first_even_if_the_later_one_looks_first() {
        let (mut schedule, mut limits) = (Schedule::default(), LIMITS());
        limits.concurrent = 1;
        let first = schedule.begin(key(1), 7, true, &limits).unwrap();
        let second = schedule.begin(key(2), 8, true, &limits).unwrap();
        assert_eq!(schedule.try_start(second, &limits), Err(1));
        assert_eq!(schedule.try_start(first, &limits), Ok(()));
    }

    #[test]
    fn a_file_in_the_queue_of_a_greedy_user_goes_on_for_another_who_wants_it() {
        let (mut schedule, limits) = (Schedule::default(), LIMITS());
        let greedy = schedule.begin(key(1), 7, true, &limits).unwrap();
        let wanted = schedule.begin(key(2), 7, true, &limits).unwrap();
        assert_eq!(schedule.try_start(greedy, &limits), Ok(()));
        assert!(schedule.try_start(wanted, &limits).is_err());
        assert_eq!(schedule.join(&key(2), 8), Some(wanted));
        assert_eq!(schedule.try_start(wanted, &limits), Ok(()));
        assert!(!schedule.leave(wanted, 7));
        assert!(schedule.leave(wanted, 8));
        assert_eq!(schedule.join(&key(2), 9), None, "nobody waits for it");
    }

    #[test]
    fn the_queue_is_bounded_for_all_and_for_each() {
        let (mut schedule, limits) = (Schedule::default(), LIMITS());
        let mut begin = |ino, uid| schedule.begin(key(ino), uid, true, &limits);
        assert!((0..3).all(|ino| begin(ino, 7).is_ok()));
        assert_eq!(begin(3, 7), Err(Full));
        assert!((4..7).all(|ino| begin(ino, 8).is_ok()));
        assert_eq!(begin(7, 9), Err(Full));
    }

    #[test]
    fn what_hangs_gives_its_turn_back_and_counts_against_its_user_where_it_can_hang_again() {
        let (mut schedule, mut limits) = (Schedule::default(), LIMITS());
        limits.concurrent = 1;
        let hangs = schedule.begin(key(1), 7, false, &limits).unwrap();
        assert_eq!(schedule.try_start(hangs, &limits), Ok(()));
        schedule.give_up(hangs);
        assert_eq!(schedule.join(&key(1), 7), None);
        let again = schedule.begin(key(1), 7, false, &limits).unwrap();
        assert!(schedule.try_start(again, &limits).is_err());
        let local = schedule.begin(key(2), 7, true, &limits).unwrap();
        assert_eq!(schedule.try_start(local, &limits), Ok(()));
        schedule.end(local);
        let other = schedule.begin(key(3), 8, false, &limits).unwrap();
        assert_eq!(schedule.try_start(other, &limits), Ok(()));
    }

    #[test]
    fn file_systems_that_hang_are_refused_when_too_much_does() {
        let (mut schedule, limits) = (Schedule::default(), LIMITS());
        for uid in 0..MAX_HANGING as u32 {
            let id = schedule
                .begin(key(u64::from(uid)), uid, false, &limits)
                .unwrap();
            assert_eq!(schedule.try_start(id, &limits), Ok(()));
            schedule.give_up(id);
        }
        assert_eq!(schedule.begin(key(99), 99, false, &limits), Err(Full));
        assert!(schedule.begin(key(99), 99, true, &limits).is_ok());
    }
}
