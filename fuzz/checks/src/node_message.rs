//! Conditions on any bytes taken for a message between the node daemon's processes. Shared by
//! the fuzz target and the tests of the daemon.

use std::fmt::Debug;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tetris_node::keep_warm::WarmSet;
use tetris_node::processes::messages::{
    Asked, Declarations, LivingNamespaces, MirrorServes, MirrorStores, NamespaceGone,
    NamespaceQuestion, PlaceOfPod, PodQuestion, ReleaseReferences, ReleasedReferences, RemoveStore,
    RemovedStore,
};
use tetris_node::report::process_report::ProcessReport;

use tetris_test_support::heap::Bound;

/// First byte of an input: the message that the others are.
pub const DECLARATIONS: u8 = 0;
pub const REMOVE_STORE: u8 = 1;
pub const REMOVED_STORE: u8 = 2;
pub const MIRROR_STORES: u8 = 3;
pub const MIRROR_SERVES: u8 = 4;
pub const RELEASE: u8 = 5;
pub const RELEASED: u8 = 6;
pub const POD_QUESTION: u8 = 7;
pub const PLACE: u8 = 8;
pub const NAMESPACE_QUESTION: u8 = 9;
pub const GONE: u8 = 10;
pub const LIVING: u8 = 11;
pub const REPORT: u8 = 12;
const MESSAGES: u8 = 13;

/// A text of one letter in a list takes 4 bytes of the message, and up to 49 of memory where the list has
/// just grown.
pub const HEAP: Bound = Bound {
    fixed: 16 << 10,
    per_byte: 16,
};

/// Reads a message. Returns true if it is one.
///
/// # Panics
///
/// If a message is another one when it is written and read again, or takes too much memory.
pub fn check(input: &[u8]) -> bool {
    let Some((message, bytes)) = input.split_first() else {
        return false;
    };
    match message % MESSAGES {
        DECLARATIONS => declarations(bytes),
        REMOVE_STORE => same::<RemoveStore>(bytes).is_some(),
        REMOVED_STORE => same::<RemovedStore>(bytes).is_some(),
        MIRROR_STORES => same::<MirrorStores>(bytes).is_some(),
        MIRROR_SERVES => same::<MirrorServes>(bytes).is_some(),
        RELEASE => same::<ReleaseReferences>(bytes).is_some(),
        RELEASED => same::<ReleasedReferences>(bytes).is_some(),
        POD_QUESTION => same::<PodQuestion>(bytes).is_some(),
        PLACE => same::<Asked<PlaceOfPod>>(bytes).is_some(),
        NAMESPACE_QUESTION => same::<NamespaceQuestion>(bytes).is_some(),
        GONE => same::<Asked<NamespaceGone>>(bytes).is_some(),
        LIVING => same::<LivingNamespaces>(bytes).is_some(),
        _ => same::<ProcessReport>(bytes).is_some(),
    }
}

fn same<T: Serialize + DeserializeOwned + PartialEq + Debug>(bytes: &[u8]) -> Option<T> {
    let message: T = HEAP.hold(bytes.len(), || serde_json::from_slice(bytes).ok())?;
    let text = serde_json::to_vec(&message).unwrap();
    let again: T = serde_json::from_slice(&text).expect("it was written");
    assert_eq!(again, message, "a message that is lost");
    Some(message)
}

/// Declarations, as the broker takes them: as a set.
fn declarations(bytes: &[u8]) -> bool {
    let Some(message) = same::<Declarations>(bytes) else {
        return false;
    };
    let set = HEAP.hold(bytes.len(), || WarmSet::try_from(message));
    match set {
        Ok(set) => {
            let again = WarmSet::try_from(Declarations::from(&set)).expect("it was one");
            assert_eq!(again.pods, set.pods);
            true
        }
        Err(error) => {
            let text = error.source.to_string();
            assert!((1..2_000).contains(&text.len()), "{text}");
            assert!(!text.contains(char::is_control), "{text:?}");
            false
        }
    }
}
