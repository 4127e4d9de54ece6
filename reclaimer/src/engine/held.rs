//! Objects of one store that processes hold, by the objects' own answers (LAYOUT.md 4), and the choice of
//! those that a pass asks.
//!
//! **Accuracy.** While the node has at most [`ALL`] objects, each pass asks every object. Otherwise each pass
//! asks [`IN_TURN`] of them in turn, small stores whole, and again as many each time that the reclaim
//! protocol spares one of its plan. An object held when it was asked counts as held until it is
//! asked again; if it is free then, it may have been held until that moment, and its idle time begins there.
//! So no idle time counts too long because of the turns. A use that begins and ends between two questions to
//! an object is missed.

use std::collections::HashMap;

use tetris_store_layout::{IoError, ObjectEntry, ObjectId};

/// Most objects of the node asked at every pass.
pub(super) const ALL: usize = 8_192;
/// Number of objects of the node that a pass asks in turn when there are more than [`ALL`].
pub(super) const IN_TURN: usize = 4_096;

/// Time in milliseconds for which an object is not proposed again after reclaim spared it for the first
/// time. It doubles each time, up to [`LONGEST_BACK_OFF_MS`].
const FIRST_BACK_OFF_MS: u64 = 15_000;
const LONGEST_BACK_OFF_MS: u64 = 240_000;

/// A pass, as far as the questions of one store are concerned.
#[derive(Debug, Clone, Copy)]
pub(super) struct Turn {
    /// Number of the pass, from 1.
    pub(super) pass: u64,
    /// Number of objects of this store that it asks at its begin.
    pub(super) most: usize,
    /// Its time in milliseconds since the epoch.
    pub(super) now_ms: u64,
}

/// The objects to ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Question {
    /// A pass begins: new objects, and others in turn.
    Begin,
    /// Objects that were never asked.
    New,
    /// Reclaim spared an object: new ones, and this number of others that this pass has not asked.
    More(usize),
    /// The daemon gave references up: those that were held.
    Held,
}

/// The last answer of an object.
#[derive(Debug, Clone, Copy, Default)]
struct Answer {
    /// True if someone held it.
    held: bool,
    /// Number of the pass in which it was given; 0 if the object was never asked.
    pass: u64,
    /// Latest time at which it may have been held, in milliseconds since the epoch; 0 if it is not known.
    last_held_ms: u64,
}

/// The time until which an object that reclaim spared is not proposed again.
#[derive(Debug, Clone, Copy)]
struct BackOff {
    until_ms: u64,
    length_ms: u64,
}

impl BackOff {
    fn covers(&self, now_ms: u64) -> bool {
        // A clock that was set back must not make it longer.
        (1..=self.length_ms).contains(&self.until_ms.saturating_sub(now_ms))
    }
}

/// Answers of a store's objects.
#[derive(Debug, Default)]
pub(super) struct HeldObjects {
    /// In the order of the catalog.
    answers: Vec<Answer>,
    /// Place at which the next turn begins.
    next: usize,
    spared: HashMap<ObjectId, BackOff>,
    /// Times that an earlier daemon persisted, until the objects are listed for the first time.
    restored: HashMap<ObjectId, u64>,
}

impl HeldObjects {
    /// No answers yet; `restored` are the times of use that an earlier daemon persisted, in milliseconds
    /// since the epoch.
    pub(super) fn new(restored: HashMap<ObjectId, u64>) -> Self {
        Self {
            restored,
            ..Self::default()
        }
    }

    /// Follows a change of the catalog to `objects`; `place_of` returns the place at which an object was before.
    pub(super) fn follow(
        &mut self,
        objects: &[ObjectEntry],
        place_of: impl Fn(&ObjectId) -> Option<u32>,
    ) {
        let restored = std::mem::take(&mut self.restored);
        let before = |id: &ObjectId| {
            let place = place_of(id).and_then(|place| usize::try_from(place).ok());
            let known = place.and_then(|place| self.answers.get(place)).copied();
            known.unwrap_or_else(|| Answer {
                last_held_ms: restored.get(id).copied().unwrap_or(0),
                ..Answer::default()
            })
        };
        let answers = objects.iter().map(|entry| before(&entry.object.id));
        self.answers = answers.collect();
    }

    /// Takes out the objects at the places for which `gone` is true, as the catalog does.
    pub(super) fn forget(&mut self, gone: impl Fn(usize) -> bool) {
        let mut place = 0;
        self.answers.retain(|_| {
            place += 1;
            !gone(place - 1)
        });
    }

    /// Forgets back-offs of objects that are gone, or that nothing proposed for long.
    pub(super) fn prune(&mut self, now_ms: u64, is_there: impl Fn(&ObjectId) -> bool) {
        self.spared.retain(|id, back_off| {
            now_ms.saturating_sub(back_off.until_ms) < LONGEST_BACK_OFF_MS && is_there(id)
        });
    }

    /// Asks objects; `is_held` has the answer of the one at a place. An object that cannot be asked counts as
    /// held.
    ///
    /// # Errors
    /// The first of `is_held`, once all were asked.
    pub(super) fn ask(
        &mut self,
        question: Question,
        turn: &Turn,
        mut is_held: impl FnMut(usize) -> Result<bool, IoError>,
    ) -> Result<(), IoError> {
        let mut asked = Ok(());
        for place in self.choose(question, turn) {
            match is_held(place) {
                Ok(held) => self.note(place, held, turn),
                Err(error) => {
                    if let Some(answer) = self.answers.get_mut(place) {
                        (answer.held, answer.pass) = (true, turn.pass);
                    }
                    asked = asked.and(Err(error));
                }
            }
        }
        asked
    }

    /// Places of the objects to ask.
    fn choose(&mut self, question: Question, turn: &Turn) -> Vec<usize> {
        let all = self.answers.len();
        let (new, most) = match question {
            Question::Begin if turn.most >= all => return (0..all).collect(),
            // New objects do not take the turns of all others.
            Question::Begin => (turn.most / 2, turn.most),
            Question::New => (turn.most.max(IN_TURN), 0),
            Question::More(more) => (more, more),
            Question::Held => return self.places(ALL, |answer| answer.held),
        };
        let mut chosen = self.places(new, |answer| answer.pass == 0);
        let last_new = chosen.last().copied();
        let from = if self.next < all { self.next } else { 0 };
        for place in (from..all).chain(0..from) {
            if chosen.len() >= most {
                break;
            }
            self.next = place + 1;
            let pass = self
                .answers
                .get(place)
                .map_or(turn.pass, |answer| answer.pass);
            let is_chosen = pass == 0 && last_new.is_some_and(|last| place <= last);
            if pass != turn.pass && !is_chosen {
                chosen.push(place);
            }
        }
        chosen
    }

    /// The first `most` places with such an answer.
    fn places(&self, most: usize, which: impl Fn(&Answer) -> bool) -> Vec<usize> {
        let answers = self.answers.iter().enumerate();
        let such = answers.filter(|(_, answer)| which(answer));
        such.map(|(place, _)| place).take(most).collect()
    }

    fn note(&mut self, place: usize, held: bool, turn: &Turn) {
        let Some(answer) = self.answers.get_mut(place) else {
            return;
        };
        // Asked at every pass, it was last seen held at the one before.
        let in_every_pass = answer.pass.saturating_add(1) >= turn.pass;
        if held || (answer.held && !in_every_pass) {
            answer.last_held_ms = turn.now_ms;
        }
        (answer.held, answer.pass) = (held, turn.pass);
    }

    /// Notes that reclaim found the object `id` at `place` held.
    pub(super) fn spare(&mut self, place: usize, id: ObjectId, turn: &Turn) {
        self.note(place, true, turn);
        let before = self.spared.get(&id).map_or(0, |spared| spared.length_ms);
        let length_ms = (before * 2).clamp(FIRST_BACK_OFF_MS, LONGEST_BACK_OFF_MS);
        let until_ms = turn.now_ms.saturating_add(length_ms);
        self.spared.insert(
            id,
            BackOff {
                until_ms,
                length_ms,
            },
        );
    }

    /// Returns true if the object counts as held at its last answer.
    pub(super) fn is_held(&self, place: usize) -> bool {
        self.answers.get(place).is_some_and(|answer| answer.held)
    }

    /// The objects that reclaim spared so recently that they count as held, whatever they answer.
    pub(super) fn backed_off(&self, now_ms: u64) -> impl Iterator<Item = &ObjectId> {
        let spared = self.spared.iter();
        spared
            .filter(move |(_, back_off)| back_off.covers(now_ms))
            .map(|(id, _)| id)
    }

    /// Latest time at which the object may have been held, in milliseconds since the epoch; 0 if it is not known.
    pub(super) fn last_held_ms(&self, place: usize) -> u64 {
        self.answers
            .get(place)
            .map_or(0, |answer| answer.last_held_ms)
    }

    /// The known times of [`HeldObjects::last_held_ms`], of `objects` in the order of the catalog.
    pub(super) fn times(&self, objects: &[ObjectEntry]) -> HashMap<ObjectId, u64> {
        let answers = objects.iter().zip(&self.answers);
        let known = answers.filter(|(_, answer)| answer.last_held_ms > 0);
        let times = known.map(|(entry, answer)| (entry.object.id, answer.last_held_ms));
        self.restored
            .iter()
            .map(|(id, at_ms)| (*id, *at_ms))
            .chain(times)
            .collect()
    }
}

/// Number of objects that a pass asks of each store, given the number that each has. Small stores are
/// asked whole, and the others get equal parts of the rest: the objects of one tenant do not lengthen the
/// turns of another.
pub(super) fn shares(objects: &[usize]) -> Vec<usize> {
    if objects.iter().sum::<usize>() <= ALL {
        return objects.to_vec();
    }
    let mut order: Vec<usize> = (0..objects.len()).collect();
    order.sort_by_key(|store| objects.get(*store).copied());
    let mut shares = vec![0; objects.len()];
    let (mut left, mut stores) = (IN_TURN, objects.len());
    for store in order {
        let (Some(share), Some(has)) = (shares.get_mut(store), objects.get(store)) else {
            continue;
        };
        *share = left.div_ceil(stores.max(1)).min(*has);
        left = left.saturating_sub(*share);
        stores -= 1;
    }
    shares
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use tetris_store_layout::{Access, CreateOptions, Store};

    use super::*;

    fn turn(pass: u64, most: usize, now_ms: u64) -> Turn {
        Turn { pass, most, now_ms }
    }

    /// Answers of `count` objects, none of which was asked.
    fn unasked(count: usize) -> HeldObjects {
        HeldObjects {
            answers: vec![Answer::default(); count],
            ..HeldObjects::default()
        }
    }

    /// Asks, with an answer by place. Returns the asked places.
    fn ask(
        objects: &mut HeldObjects,
        question: Question,
        turn: &Turn,
        held: impl Fn(usize) -> bool,
    ) -> Vec<usize> {
        let asked = RefCell::new(Vec::new());
        let answered = objects.ask(question, turn, |place| {
            asked.borrow_mut().push(place);
            Ok(held(place))
        });
        answered.unwrap();
        asked.into_inner()
    }

    #[test]
    fn a_small_store_is_asked_whole_at_each_pass() {
        let mut objects = unasked(5);
        for pass in 1..4 {
            let turn = turn(pass, 5, pass * 1000);
            let asked = ask(&mut objects, Question::Begin, &turn, |place| place == 2);
            assert_eq!(asked, [0, 1, 2, 3, 4]);
            assert!(objects.is_held(2) && !objects.is_held(3));
            assert_eq!(objects.last_held_ms(2), pass * 1000);
        }
        // Its idle time counts from the last pass that saw it held.
        ask(&mut objects, Question::Begin, &turn(4, 5, 4000), |_| false);
        assert_eq!(objects.last_held_ms(2), 3000);
    }

    #[test]
    fn a_large_store_is_asked_in_turn_and_each_object_has_its_turn() {
        let mut objects = unasked(1_000);
        let mut asked = vec![0; 1_000];
        let mut pass = 0;
        while asked.contains(&0) {
            pass += 1;
            let places = ask(&mut objects, Question::Begin, &turn(pass, 100, 1), |_| {
                false
            });
            assert!(places.len() <= 100, "{} at pass {pass}", places.len());
            for place in places {
                asked[place] += 1;
            }
            assert!(pass <= 40, "{asked:?}");
        }
        // From now on all have been asked, and the turn is as long as it can be.
        let mut places = Vec::new();
        for pass in pass + 1..=pass + 10 {
            places.extend(ask(
                &mut objects,
                Question::Begin,
                &turn(pass, 100, 1),
                |_| false,
            ));
        }
        places.sort_unstable();
        assert_eq!(places, (0..1_000).collect::<Vec<_>>());
    }

    #[test]
    fn an_idle_time_begins_when_a_turn_finds_the_object_free() {
        let mut objects = unasked(1);
        ask(&mut objects, Question::Begin, &turn(1, 1, 1_000), |_| true);
        // Between two turns it counts as held.
        assert!(objects.is_held(0));
        ask(&mut objects, Question::Begin, &turn(20, 1, 20_000), |_| {
            false
        });
        assert!(!objects.is_held(0));
        assert_eq!(objects.last_held_ms(0), 20_000);
        ask(&mut objects, Question::Begin, &turn(40, 1, 40_000), |_| {
            false
        });
        assert_eq!(objects.last_held_ms(0), 20_000);
    }

    #[test]
    fn a_plan_that_met_held_objects_asks_others_and_none_twice() {
        let mut objects = unasked(100);
        for pass in 1..20 {
            ask(&mut objects, Question::Begin, &turn(pass, 20, 1), |_| false);
        }
        let now = turn(20, 20, 1);
        let mut asked = ask(&mut objects, Question::Begin, &now, |_| false);
        assert!(ask(&mut objects, Question::New, &now, |_| false).is_empty());
        asked.extend(ask(&mut objects, Question::More(40), &now, |_| false));
        asked.extend(ask(&mut objects, Question::More(80), &now, |_| false));
        asked.sort_unstable();
        assert_eq!(asked, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn references_that_were_given_up_are_asked_for_again() {
        let mut objects = unasked(10);
        let now = turn(1, 10, 1);
        ask(&mut objects, Question::Begin, &now, |place| place < 3);
        assert_eq!(
            ask(&mut objects, Question::Held, &now, |_| false),
            [0, 1, 2]
        );
        assert!(!objects.is_held(1));
    }

    #[test]
    fn a_spared_object_is_proposed_again_after_a_back_off_that_grows_to_a_bound() {
        let mut objects = unasked(1);
        let id = ObjectId::of(b"spared");
        let mut now_ms = 1_000_000;
        let mut expected = FIRST_BACK_OFF_MS;
        for pass in 1..10 {
            let turn = turn(pass, 1, now_ms);
            objects.spare(0, id, &turn);
            assert!(objects.is_held(0));
            assert_eq!(objects.last_held_ms(0), now_ms);
            // A lease for reading does not show: it answers that no one holds it.
            ask(&mut objects, Question::Begin, &turn, |_| false);
            let counts = |at_ms| objects.backed_off(at_ms).count();
            assert_eq!(counts(now_ms), 1);
            assert_eq!(counts(now_ms + expected - 1), 1, "{expected}");
            assert_eq!(counts(now_ms + expected), 0, "{expected}");
            assert_eq!(counts(now_ms - 1_000), 0, "the clock was set back");
            now_ms += expected;
            expected = (expected * 2).min(LONGEST_BACK_OFF_MS);
        }
        objects.prune(now_ms, |_| true);
        assert_eq!(objects.spared.len(), 1);
        objects.prune(now_ms + 2 * LONGEST_BACK_OFF_MS, |_| true);
        assert_eq!(objects.spared.len(), 0);
    }

    #[test]
    fn answers_follow_their_objects() {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let store = Store::create(dir.path(), &CreateOptions::default()).unwrap();
        for number in 0_u8..3 {
            store.publish(&[number], Access::ReadOnly).unwrap();
        }
        let mut listed = store.objects().unwrap().objects;
        let (first, last) = (listed[0].object.id, listed[2].object.id);
        let mut objects = HeldObjects::new(HashMap::from([(last, 7)]));
        assert_eq!(objects.times(&[]), HashMap::from([(last, 7)]));
        objects.follow(&listed, |_| None);
        assert_eq!(objects.times(&listed), HashMap::from([(last, 7)]));
        ask(&mut objects, Question::Begin, &turn(1, 3, 9), |place| {
            place == 0
        });
        listed.reverse();
        let before = [last, listed[1].object.id, first];
        let place = |id: &ObjectId| before.iter().rev().position(|entry| entry == id);
        objects.follow(&listed, |id| place(id).map(|place| place as u32));
        assert!(objects.is_held(2) && !objects.is_held(0));
        objects.forget(|place| place == 1);
        listed.remove(1);
        let times = HashMap::from([(first, 9), (last, 7)]);
        assert_eq!(objects.times(&listed), times);
    }

    #[test]
    fn small_stores_are_asked_whole_and_large_ones_share_the_rest() {
        assert!(shares(&[]).is_empty());
        assert_eq!(shares(&[3, ALL - 3]), [3, ALL - 3]);
        assert_eq!(shares(&[100_000]), [IN_TURN]);
        let shared = shares(&[50_000, 10, 100_000]);
        assert_eq!(shared[1], 10);
        assert_eq!(shared.iter().sum::<usize>(), IN_TURN);
        assert!(shared[0].abs_diff(shared[2]) <= 1);
        let many = shares(&[ALL; 100]);
        assert!(many.iter().all(|share| *share > 0));
    }
}
