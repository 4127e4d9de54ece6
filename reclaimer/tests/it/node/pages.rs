//! The pages that the status has are those that the kernel gives.

use tetris_node::engine::Reclaimer;
use tetris_node::engine::commands::now_ms;
use tetris_node::report::Trigger;

use crate::node::fixture::Fixture;

#[test]
fn a_pass_sees_the_pages_of_a_file_that_it_leaves_no_trace_of() {
    let fixture = Fixture::new();
    let store = fixture.store("a");
    let mut reclaimer = Reclaimer::new(fixture.config(&["a"], |_| {}), false, now_ms());
    let passed = reclaimer.pass(Trigger::Start, &[], now_ms());
    let [mount] = &passed.status.mounts[..] else {
        panic!("{:?}", passed.status.mounts);
    };
    let pages = mount.pages.as_ref().unwrap();
    assert_eq!((pages.of, pages.looked_at_bytes), ("new-file", 4 << 20));
    // Either way is right on some machine, but not without its reason.
    let all_large = pages.large_bytes == pages.looked_at_bytes;
    assert_eq!(pages.small_because.is_none(), all_large);
    assert!(store.objects().unwrap().objects.is_empty());
}

#[test]
fn a_dry_run_writes_nothing_and_looks_at_objects() {
    let fixture = Fixture::new();
    let store = fixture.store("a");
    let mut reclaimer = Reclaimer::new(fixture.config(&["a"], |_| {}), true, now_ms());
    let mut pages = || {
        let passed = reclaimer.pass(Trigger::Interval, &[], now_ms());
        passed.status.mounts[0].pages.clone()
    };
    assert_eq!(pages(), None);
    let bytes = vec![1; 5 << 20];
    let access = tetris_store_layout::Access::ReadOnly;
    let object = store.publish(&bytes, access).unwrap();
    // The first pass finds the object, the next one looks at it.
    let seen = (0..2).find_map(|_| pages()).unwrap();
    assert_eq!((seen.of, seen.looked_at_bytes), ("objects", 4 << 20));
    drop(object);
}
