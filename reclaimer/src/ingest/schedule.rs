//! Turns of ingest jobs. No threads, no clock.
//!
//! Turns go by user of a store. The store is the socket of the request, which in a cluster is a
//! namespace. Clients of one store can take only a bounded number of turns from those of another, and
//! never its first: a store of which nothing is read has its own turn.

use tetris_store_layout::FileIdentity;

use super::IngestRequest;
use super::options::IngestConfig;

/// Files that are given up but whose reader still hangs, before files of file systems that can hang
/// are refused: of one store, and in all.
const MAX_HANGING_OF_STORE: usize = 4;
const MAX_HANGING: usize = 64;
/// The same for local file systems and one user of a store: that user's other files are read on,
/// unless they hang as well.
const MAX_LOCAL_HANGING_OF_USER: usize = 2;

/// Identity of a job: version of a file, the client's wish, and store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) store: String,
    pub(super) request: IngestRequest,
    pub(super) identity: FileIdentity,
}

/// All jobs, in the order in which they began.
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

/// A turn of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// One of those that all stores share.
    Shared,
    /// The one kept for its store, beside those that are shared.
    Kept,
}

/// The numbers are the users for whom something is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Waiting,
    Running(u32, Turn),
    /// It was given up, and its thread has not come back.
    Hanging(u32),
}

/// A file cannot wait for its turn: there are too many.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Full;

/// Jobs that start as soon as they look: their place among the entries, and the user who pays.
type Starting = Vec<(usize, u32)>;

impl Schedule {
    /// Adds a client to the job of a file, if there is one.
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

    /// Adds a job for a client.
    pub(super) fn begin(
        &mut self,
        key: Key,
        uid: u32,
        local: bool,
        config: &IngestConfig,
    ) -> Result<u64, Full> {
        let waiting = |entry: &Entry| entry.phase == Phase::Waiting;
        let of_user = |entry: &Entry| waiting(entry) && entry.users.first() == Some(&uid);
        if self.of_store(&key.store, waiting) >= config.queue as usize
            || self.of_store(&key.store, of_user) >= config.queue_per_user as usize
            || self.too_much_hangs(&key.store, local)
            || (local && self.local_hanging(&key.store, uid) >= MAX_LOCAL_HANGING_OF_USER)
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

    /// Starts a job if it is its turn; otherwise returns how many are before it.
    pub(super) fn try_start(&mut self, id: u64, config: &IngestConfig) -> Result<Turn, u32> {
        let running = self.entries.iter().filter(|entry| entry.is_running());
        let running = running.count();
        let shared = self.entries.iter().filter(|entry| entry.has_shared_turn());
        let free = (config.concurrent as usize).saturating_sub(shared.count());
        let mut starting = Starting::new();
        while starting.len() < free
            && let Some((at, uid)) = self.next(&starting, config)
        {
            if let Some(entry) = self.entries.get_mut(at).filter(|entry| entry.id == id) {
                entry.phase = Phase::Running(uid, Turn::Shared);
                return Ok(Turn::Shared);
            }
            starting.push((at, uid));
        }
        if let Some(uid) = self.kept_turn(id, &starting, config)
            && let Some(entry) = self.entries.iter_mut().find(|entry| entry.id == id)
        {
            entry.phase = Phase::Running(uid, Turn::Kept);
            return Ok(Turn::Kept);
        }
        let earlier = self.entries.iter().take_while(|entry| entry.id != id);
        let waiting = earlier.filter(|entry| entry.phase == Phase::Waiting);
        Err((running + waiting.count()) as u32)
    }

    /// The user who pays for a job that gets the turn kept for its store: the earliest one there that
    /// may start, while nothing of the store is read or about to be.
    fn kept_turn(&self, id: u64, starting: &Starting, config: &IngestConfig) -> Option<u32> {
        let job = self.entries.iter().find(|entry| entry.id == id)?;
        if self.turns(job, starting, |_| true) > 0 {
            return None;
        }
        let of_store = self
            .entries
            .iter()
            .filter(|entry| entry.key.store == job.key.store && entry.phase == Phase::Waiting);
        let mut able =
            of_store.filter_map(|entry| Some((entry.id, self.payer(entry, starting, config)?)));
        able.next()
            .filter(|(first, _)| *first == id)
            .map(|(_, uid)| uid)
    }

    /// The next job, and the user who pays for it: the earliest of the stores with the fewest
    /// turns.
    fn next(&self, starting: &Starting, config: &IngestConfig) -> Option<(usize, u32)> {
        let entries = self.entries.iter().enumerate();
        let candidates = entries.filter_map(|(at, entry)| {
            if entry.phase != Phase::Waiting || starting.iter().any(|(other, _)| *other == at) {
                return None;
            }
            let turns = self.turns(entry, starting, |_| true);
            let uid = self.payer(entry, starting, config)?;
            (turns < config.per_store as usize).then_some((turns, at, uid))
        });
        candidates.min().map(|(_, at, uid)| (at, uid))
    }

    /// A user who waits for a job and may have another one.
    fn payer(&self, entry: &Entry, starting: &Starting, config: &IngestConfig) -> Option<u32> {
        let may = |uid: &&u32| {
            let (store, most) = (&entry.key.store, config.per_user as usize);
            let turns = self.turns(entry, starting, |user| user == **uid);
            if entry.local {
                let hanging = self.local_hanging(store, **uid);
                return turns < most && hanging < MAX_LOCAL_HANGING_OF_USER;
            }
            let hangs = |other: &Entry| other.phase == Phase::Hanging(**uid);
            turns + self.of_store(store, hangs) < most
        };
        entry.users.iter().find(may).copied()
    }

    /// Turns that users of the entry's store have, or are about to have.
    fn turns(&self, entry: &Entry, starting: &Starting, of: impl Fn(u32) -> bool) -> usize {
        let store = &entry.key.store;
        let runs = |other: &Entry| matches!(other.phase, Phase::Running(uid, _) if of(uid));
        let is_own = |at: usize| {
            let other = self.entries.get(at);
            other.is_some_and(|other| other.key.store == *store)
        };
        let about_to = starting.iter().filter(|(at, uid)| is_own(*at) && of(*uid));
        self.of_store(store, runs) + about_to.count()
    }

    fn of_store(&self, store: &str, is: impl Fn(&Entry) -> bool) -> usize {
        let of_store = self.entries.iter().filter(|entry| entry.key.store == store);
        of_store.filter(|entry| is(entry)).count()
    }

    /// Returns true if no more files of local file systems, or of others, may hang.
    fn too_much_hangs(&self, store: &str, local: bool) -> bool {
        let hangs = |entry: &Entry| entry.hangs() && (entry.local || !local);
        let all = self.entries.iter().filter(|entry| hangs(entry));
        self.of_store(store, hangs) >= MAX_HANGING_OF_STORE || all.count() >= MAX_HANGING
    }

    /// Files of local file systems that hang for a user of a store.
    fn local_hanging(&self, store: &str, uid: u32) -> usize {
        let hangs = |entry: &Entry| entry.local && entry.phase == Phase::Hanging(uid);
        self.of_store(store, hangs)
    }

    /// Gives a running job up. Its thread may never come back.
    pub(super) fn give_up(&mut self, id: u64) {
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.id == id)
            && let Phase::Running(uid, _) = entry.phase
        {
            entry.phase = Phase::Hanging(uid);
        }
    }

    /// Forgets a job.
    pub(super) fn end(&mut self, id: u64) {
        self.entries.retain(|entry| entry.id != id);
    }
}

impl Entry {
    fn is_running(&self) -> bool {
        matches!(self.phase, Phase::Running(..))
    }

    fn has_shared_turn(&self) -> bool {
        matches!(self.phase, Phase::Running(_, Turn::Shared))
    }

    fn hangs(&self) -> bool {
        matches!(self.phase, Phase::Hanging(_))
    }
}

#[cfg(test)]
mod tests {
    use tetris_store_layout::ManifestKind;

    use super::*;

    fn key(ino: u64) -> Key {
        key_in("a", ino)
    }

    fn key_in(store: &str, ino: u64) -> Key {
        Key {
            store: store.to_owned(),
            request: IngestRequest::File(ManifestKind::File),
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
        assert_eq!(schedule.try_start(first, &limits), Ok(Turn::Shared));
        assert_eq!(schedule.try_start(second, &limits), Err(1));
        assert_eq!(schedule.try_start(other, &limits), Ok(Turn::Shared));
        schedule.end(first);
        assert_eq!(schedule.try_start(second, &limits), Ok(Turn::Shared));
    }

    #[test]
    fn the_earlier_one_goes_first_even_if_the_later_one_looks_first() {
        let (mut schedule, mut limits) = (Schedule::default(), LIMITS());
        limits.concurrent = 1;
        let first = schedule.begin(key(1), 7, true, &limits).unwrap();
        let second = schedule.begin(key(2), 8, true, &limits).unwrap();
        assert_eq!(schedule.try_start(second, &limits), Err(1));
        assert_eq!(schedule.try_start(first, &limits), Ok(Turn::Shared));
    }

    #[test]
    fn a_file_in_the_queue_of_a_greedy_user_goes_on_for_another_who_wants_it() {
        let (mut schedule, limits) = (Schedule::default(), LIMITS());
        let greedy = schedule.begin(key(1), 7, true, &limits).unwrap();
        let wanted = schedule.begin(key(2), 7, true, &limits).unwrap();
        assert_eq!(schedule.try_start(greedy, &limits), Ok(Turn::Shared));
        assert!(schedule.try_start(wanted, &limits).is_err());
        assert_eq!(schedule.join(&key(2), 8), Some(wanted));
        assert_eq!(schedule.try_start(wanted, &limits), Ok(Turn::Shared));
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
        assert_eq!(schedule.try_start(hangs, &limits), Ok(Turn::Shared));
        schedule.give_up(hangs);
        assert_eq!(schedule.join(&key(1), 7), None);
        let again = schedule.begin(key(1), 7, false, &limits).unwrap();
        assert!(schedule.try_start(again, &limits).is_err());
        let local = schedule.begin(key(2), 7, true, &limits).unwrap();
        assert_eq!(schedule.try_start(local, &limits), Ok(Turn::Shared));
        schedule.end(local);
        let other = schedule.begin(key(3), 8, false, &limits).unwrap();
        assert_eq!(schedule.try_start(other, &limits), Ok(Turn::Shared));
    }

    #[test]
    fn file_systems_that_hang_are_refused_where_too_much_does() {
        let (mut schedule, limits) = (Schedule::default(), LIMITS());
        let begin = |schedule: &mut Schedule, store: &str, uid: u32, local| {
            let key = key_in(store, u64::from(uid));
            schedule.begin(key, uid, local, &limits)
        };
        for store in 0..MAX_HANGING / MAX_HANGING_OF_STORE {
            let store = store.to_string();
            for uid in 0..MAX_HANGING_OF_STORE as u32 {
                let id = begin(&mut schedule, &store, uid, false).unwrap();
                assert_eq!(schedule.try_start(id, &LIMITS()), Ok(Turn::Shared));
                schedule.give_up(id);
            }
            assert_eq!(begin(&mut schedule, &store, 99, false), Err(Full));
            let local = begin(&mut schedule, &store, 99, true).unwrap();
            schedule.end(local);
        }
        assert_eq!(begin(&mut schedule, "other", 0, false), Err(Full));
        assert!(begin(&mut schedule, "other", 0, true).is_ok());
    }

    #[test]
    fn what_one_store_does_leaves_the_same_user_of_another_its_turns_and_its_queue() {
        let (mut schedule, limits) = (Schedule::default(), LIMITS());
        let many = |store: &str, schedule: &mut Schedule| -> Vec<u64> {
            let all = (0..100).filter_map(|n| {
                let key = key_in(store, u64::from(n));
                schedule.begin(key, n % 5, true, &limits).ok()
            });
            all.collect()
        };
        let hostile = many("hostile", &mut schedule);
        assert_eq!(hostile.len(), limits.queue as usize);
        let start = |schedule: &mut Schedule, ids: &[u64]| -> usize {
            let started = ids
                .iter()
                .filter(|id| schedule.try_start(**id, &limits).is_ok());
            started.count()
        };
        assert_eq!(start(&mut schedule, &hostile), limits.per_store as usize);
        // The same user ids, through another socket.
        let other = many("other", &mut schedule);
        assert_eq!(other.len(), limits.queue as usize);
        assert_eq!(start(&mut schedule, &other), 2);
        // All turns are taken, but for those that are kept: each store has its first.
        for name in ["third", "fourth"] {
            let [one, two] = [1, 2].map(|n| {
                let key = key_in(name, n);
                schedule.begin(key, n as u32, true, &limits).unwrap()
            });
            assert!(schedule.try_start(two, &limits).is_err());
            assert_eq!(schedule.try_start(one, &limits), Ok(Turn::Kept));
            assert!(schedule.try_start(two, &limits).is_err());
        }
        // A turn that gets free goes to the store that has fewer, though others wait for longer.
        schedule.end(hostile[0]);
        schedule.end(hostile[1]);
        let fifth = schedule
            .begin(key_in("fifth", 1), 1, true, &limits)
            .unwrap();
        assert_eq!(start(&mut schedule, &hostile[2..]), 1);
        assert_eq!(schedule.try_start(fifth, &limits), Ok(Turn::Shared));
    }

    #[test]
    fn local_files_that_hang_count_against_their_user_and_no_other() {
        let (mut schedule, limits) = (Schedule::default(), LIMITS());
        let begin =
            |schedule: &mut Schedule, ino, uid| schedule.begin(key(ino), uid, true, &limits);
        let hang = |schedule: &mut Schedule, ino, uid| {
            let id = begin(schedule, ino, uid).unwrap();
            assert!(schedule.try_start(id, &limits).is_ok());
            schedule.give_up(id);
            id
        };
        let first = hang(&mut schedule, 1, 7);
        // One may be an accident.
        let second = begin(&mut schedule, 2, 7).unwrap();
        assert_eq!(schedule.try_start(second, &limits), Ok(Turn::Shared));
        let waits = begin(&mut schedule, 3, 7).unwrap();
        schedule.give_up(second);
        assert_eq!(begin(&mut schedule, 4, 7), Err(Full));
        assert!(schedule.try_start(waits, &limits).is_err());
        let other = begin(&mut schedule, 5, 8).unwrap();
        assert_eq!(schedule.try_start(other, &limits), Ok(Turn::Shared));
        schedule.end(other);
        // A read that came back makes place.
        schedule.end(first);
        assert_eq!(schedule.try_start(waits, &limits), Ok(Turn::Shared));
        schedule.end(waits);
        hang(&mut schedule, 6, 7);
        hang(&mut schedule, 7, 8);
        hang(&mut schedule, 8, 8);
        assert_eq!(
            begin(&mut schedule, 9, 9),
            Err(Full),
            "of all users of a store"
        );
    }
}
