//! The arena against a reference that only records positions.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

const GRANULE: u64 = 64;
const CHUNK: u64 = 1024;
const ALIGN: u64 = 8;

fn small_config() -> ArenaConfig {
    ArenaConfig::try_new(GRANULE, CHUNK, ALIGN, 12).unwrap()
}

fn object(number: u64) -> ObjectId {
    ObjectId::of(&number.to_le_bytes())
}

#[derive(Debug, Clone)]
enum Step {
    /// Lengths of objects placed together, and the limit of the arena's growth, in bytes.
    Place(Vec<u64>, u64),
    /// Index of the live object to remove.
    Remove(prop::sample::Index),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let len = prop_oneof![4 => 1u64..200, 2 => 200u64..1100, 1 => 1000u64..4000];
    let lens = prop::collection::vec(len, 1..8);
    let room = prop_oneof![3 => Just(u64::MAX), 1 => 0u64..3000];
    let step = prop_oneof![
        2 => (lens, room).prop_map(|(lens, room)| Step::Place(lens, room)),
        5 => any::<prop::sample::Index>().prop_map(Step::Remove),
    ];
    prop::collection::vec(step, 1..400)
}

/// Positions of the live objects and lengths of the chunks.
#[derive(Default)]
struct Reference {
    live: BTreeMap<ObjectId, ObjectPlace>,
    chunks: BTreeMap<ChunkId, u64>,
    /// True for chunks of the full length.
    whole: bool,
}

impl Reference {
    fn placed(&mut self, objects: &[(ObjectId, u64)], placement: &Placement) {
        assert_eq!(objects.len(), placement.places.len());
        for new in &placement.created {
            assert!(new.bytes > 0 && new.bytes.is_multiple_of(GRANULE));
            assert_eq!(
                self.chunks.insert(new.id, new.bytes),
                None,
                "a name used again"
            );
        }
        for ((id, len), place) in objects.iter().zip(&placement.places) {
            assert_eq!(place.len, *len);
            assert_eq!(self.live.insert(*id, *place), None);
        }
        for new in &placement.created {
            let inside = self.live.values().filter(|place| place.chunk == new.id);
            let used: u64 = inside.map(|place| place.len.next_multiple_of(ALIGN)).sum();
            if self.whole {
                assert!(new.bytes <= CHUNK || new.bytes - used < GRANULE, "A6");
                continue;
            }
            assert!(new.bytes - used < GRANULE, "A3: {used} of {new:?}");
        }
        let total: u64 = objects
            .iter()
            .map(|(_, len)| len.next_multiple_of(ALIGN))
            .sum();
        let long = objects.iter().filter(|(_, len)| *len > CHUNK).count() as u64;
        let most = 2 * total.div_ceil(CHUNK) + 1 + long;
        assert!(self.whole || placement.created.len() as u64 <= most, "A4");
    }

    fn removed(&mut self, id: &ObjectId, removed: Removed) {
        assert_eq!(self.live.remove(id), Some(removed.place));
        let chunk = removed.place.chunk;
        let empty = self.live.values().all(|place| place.chunk != chunk);
        assert_eq!(removed.released, empty, "A2");
        if empty {
            self.chunks.remove(&chunk);
        }
    }

    fn agrees(&self, arena: &Arena) {
        let stats = arena.stats();
        assert_eq!(
            stats.created_bytes,
            self.chunks.values().sum::<u64>(),
            "leak"
        );
        assert_eq!(stats.objects, self.live.len());
        let used = self
            .live
            .values()
            .map(|place| place.len.next_multiple_of(ALIGN));
        assert_eq!(stats.live_bytes, used.sum::<u64>());
        let mut ends: BTreeMap<ChunkId, u64> = BTreeMap::new();
        for place in self.live.values().collect::<BTreeSet<_>>() {
            assert!(place.offset.is_multiple_of(ALIGN));
            let end = ends.entry(place.chunk).or_default();
            assert!(place.offset >= *end, "A1: overlap at {place:?}");
            *end = place.offset + place.len;
            assert!(
                *end <= self.chunks[&place.chunk],
                "A1: {place:?} leaves its chunk"
            );
        }
        // Every byte that is not live lies in some hole, so no byte is lost for later objects.
        let holes: u64 = arena.holes.iter().map(|(len, ..)| len).sum();
        assert_eq!(holes, stats.waste_bytes());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_overlaps_nothing_leaks_over_long_sequences(steps in steps(), whole: bool) {
        let config = small_config();
        let config = if whole { config.with_whole_chunks() } else { config };
        let mut arena = Arena::new(config);
        let mut reference = Reference { whole, ..Reference::default() };
        let mut next = 0;
        for step in steps {
            match step {
                Step::Place(lens, room) => {
                    let objects: Vec<_> = lens.iter().map(|len| { next += 1; (object(next), *len) }).collect();
                    let before = arena.created_bytes();
                    match arena.place(&objects, room) {
                        Ok(placement) => {
                            prop_assert!(arena.created_bytes() - before <= room);
                            reference.placed(&objects, &placement);
                        }
                        Err(PlaceError::NoRoom { need_bytes, room_bytes }) => {
                            prop_assert!(need_bytes > room_bytes);
                        }
                        Err(other) => panic!("{other}"),
                    }
                }
                Step::Remove(which) => {
                    let live: Vec<_> = reference.live.keys().copied().collect();
                    if !live.is_empty() {
                        let id = *which.get(&live);
                        reference.removed(&id, arena.remove(&id).unwrap());
                    }
                }
            }
            reference.agrees(&arena);
        }
        for id in reference.live.keys() {
            arena.remove(id);
        }
        prop_assert_eq!(arena.stats(), ArenaStats::default());
    }
}

#[test]
fn a_model_alone_wastes_less_than_a_granule_for_each_chunk() {
    let mut arena = Arena::new(ArenaConfig::default());
    // Llama-like: 32 layers of seven matrices, and two embeddings.
    let layer = [
        33_554_432,
        8_388_608,
        8_388_608,
        33_554_432,
        117_440_512,
        117_440_512,
        117_440_512,
        8192,
        8192,
    ];
    let mut lens = vec![1_050_673_152u64, 1_050_673_152];
    lens.extend((0..32).flat_map(|_| layer));
    let objects: Vec<_> = lens
        .iter()
        .zip(0..)
        .map(|(len, at)| (object(at), *len))
        .collect();
    arena.place(&objects, u64::MAX).unwrap();
    let stats = arena.stats();
    assert!(stats.waste_bytes() < stats.chunks as u64 * ArenaConfig::default().granule_bytes());
    println!(
        "{stats:?}, waste {:.3} %",
        100.0 * stats.waste_bytes() as f64 / stats.live_bytes as f64
    );
}

#[test]
fn whole_chunks_fit_for_each_other() {
    let mut arena = Arena::new(small_config().with_whole_chunks());
    let place = |arena: &mut Arena, from: u64, lens: &[u64]| {
        let objects: Vec<_> = (from..).map(object).zip(lens.iter().copied()).collect();
        let placement = arena.place(&objects, u64::MAX).unwrap();
        let created = placement.created.iter();
        created.map(|chunk| chunk.bytes).collect::<Vec<_>>()
    };
    assert_eq!(
        place(&mut arena, 0, &[600, 600, 400, 400, 100]),
        [CHUNK, CHUNK, CHUNK]
    );
    // The rest of a model goes into the last chunk of another.
    assert_eq!(place(&mut arena, 10, &[512, 512, 300]), [CHUNK]);
    // Chunks that would be half empty are cut, except the last; a longer object has its own.
    assert_eq!(place(&mut arena, 20, &[700, 700, 700]), [704, 704, CHUNK]);
    assert_eq!(place(&mut arena, 30, &[1500]), [1536]);
    // Without room for a whole chunk there may be room for a shorter one.
    let mut small = Arena::new(small_config().with_whole_chunks());
    let placement = small.place(&[(object(1), 100)], 128).unwrap();
    assert_eq!(placement.created[0].bytes, 128);
}

#[test]
fn small_models_share_granules() {
    let mut arena = Arena::new(ArenaConfig::default());
    for number in 0..20 {
        arena.place(&[(object(number), 100_000)], u64::MAX).unwrap();
    }
    assert_eq!(arena.stats().created_bytes, 2 << 20);
}

#[test]
fn holes_are_filled_when_the_arena_may_not_grow() {
    let mut arena = Arena::new(small_config());
    let objects: Vec<_> = (0..8).map(|at| (object(at), CHUNK / 2)).collect();
    arena.place(&objects, u64::MAX).unwrap();
    arena.remove(&object(3)).unwrap();
    let placement = arena.place(&[(object(9), CHUNK / 2)], 0).unwrap();
    assert_eq!(placement.created, []);
    assert!(matches!(
        arena.place(&[(object(10), CHUNK / 2)], 0),
        Err(PlaceError::NoRoom {
            need_bytes: 512,
            room_bytes: 0
        })
    ));
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let mut arena = Arena::new(small_config());
    arena.place(&[(object(1), 100)], u64::MAX).unwrap();
    let before = arena.stats();
    for objects in [
        vec![(object(2), 0)],
        vec![(object(2), u64::MAX)],
        vec![(object(2), 1 << 61), (object(3), 1 << 61), (object(4), 8)],
        vec![(object(2), 10), (object(2), 10)],
        vec![(object(2), 10), (object(1), 100)],
    ] {
        assert!(arena.place(&objects, u64::MAX).is_err());
        assert_eq!(arena.stats(), before);
    }
    assert_eq!(arena.remove(&object(2)), None);
}
