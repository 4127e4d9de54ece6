//! Prefixes that stay on a device, through the server and its protocol.

use std::thread;
use std::time::{Duration, Instant};

use tetris_gpu_device::host::LinkCosts;
use tetris_gpu_protocol::Kept;
use tetris_gpu_server::TemplateReport;
use tetris_gpu_server::residency::TenantId;
use tetris_store_layout::ObjectRef;

use crate::streaming::{LONG, MIB, Node};

/// Objects of 1 MiB, two for each chunk.
const OBJECT: usize = MIB as usize;
const ALL: u64 = u64::MAX;
/// A time in which hardly anything is copied.
const SOON: Duration = Duration::from_micros(1);

fn eventually(what: &str, mut so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !so() {
        assert!(begin.elapsed() < LONG, "not within {LONG:?}: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

fn keep(node: &Node, model: &[ObjectRef], ttft: Duration, most_bytes: u64) -> Kept {
    let acquired = node.acquire(model).unwrap();
    acquired.wait_all(LONG).unwrap();
    let kept = acquired.keep(ttft, most_bytes).unwrap();
    acquired.release().unwrap();
    kept
}

fn use_once(node: &Node, model: &[ObjectRef]) {
    let acquired = node.acquire(model).unwrap();
    acquired.wait_all(LONG).unwrap();
    acquired.release().unwrap();
}

fn template(node: &Node) -> TemplateReport {
    node.server.report().devices[0].templates[0].clone()
}

fn copied(node: &Node) -> u64 {
    node.server.counters().copied_objects
}

#[test]
fn a_prefix_stays_and_only_the_rest_is_copied() {
    let node = Node::new(12 * MIB, LinkCosts::default(), 64 * MIB);
    let model = node.model(&[1, 2, 3, 4, 5, 6, 7, 8], OBJECT);
    let other = node.model(&[21, 22, 23, 24, 25, 26, 27, 28], OBJECT);
    assert_eq!(keep(&node, &model, SOON, 3 * MIB).prefix_bytes, 3 * MIB);
    use_once(&node, &other);
    let usage = template(&node).usage;
    assert_eq!((usage.kept_bytes, usage.resident_bytes), (3 * MIB, 3 * MIB));
    let before = copied(&node);
    let acquired = node.acquire(&model).unwrap();
    // The message that it is there follows the grant.
    acquired.wait(&model[2].id, LONG).unwrap();
    acquired.wait_all(LONG).unwrap();
    assert_eq!(copied(&node) - before, 5, "the suffix");
    for object in &model {
        assert_eq!(
            ObjectRef::of(&acquired.read(&object.id, LONG).unwrap()),
            *object
        );
    }
}

#[test]
fn the_length_follows_equation_1_with_what_is_measured() {
    let node = Node::new(32 * MIB, LinkCosts::default(), 64 * MIB);
    let model = node.model(&(1..=16).collect::<Vec<_>>(), OBJECT);
    // The whole model: before a transfer of 8 MiB no bandwidth is known. This load is one.
    use_once(&node, &model);
    // The server counts a transfer after its last object has arrived.
    eventually("a transfer is measured", || {
        node.server.report().devices[0]
            .transfer_bytes_per_sec
            .is_some()
    });
    let first = keep(&node, &model, SOON, ALL);
    assert!(first.bytes_per_sec > 0);
    let device = &node.server.report().devices[0];
    assert_eq!(device.transfer_bytes_per_sec, Some(first.bytes_per_sec));
    assert_eq!(first.prefix_bytes, 16 * MIB);
    // The time in which half of the model is copied, measured again and again: the prefix follows.
    let half = Duration::from_secs_f64(8.0 * MIB as f64 / first.bytes_per_sec as f64);
    let mut prefix = first.prefix_bytes;
    for _ in 0..15 {
        prefix = keep(&node, &model, half, ALL).prefix_bytes;
    }
    assert!((8 * MIB..=9 * MIB).contains(&prefix), "{prefix}");
    assert_eq!(template(&node).ttft_us, half.as_micros() as u64);
    // An outlier changes nothing.
    assert_eq!(
        keep(&node, &model, Duration::from_secs(9), ALL).prefix_bytes,
        prefix
    );
}

#[test]
fn a_prefix_makes_room_for_clients_and_comes_back() {
    let node = Node::new(10 * MIB, LinkCosts::default(), 64 * MIB);
    let model = node.model(&[1, 2, 3, 4, 5, 6, 7, 8], OBJECT);
    let large = node.model(&[21, 22, 23, 24, 25, 26, 27, 28], OBJECT);
    assert_eq!(keep(&node, &model, SOON, 6 * MIB).prefix_bytes, 6 * MIB);
    let acquired = node.acquire(&large).unwrap();
    acquired.wait_all(LONG).unwrap();
    let usage = template(&node).usage;
    assert!(usage.resident_bytes <= 2 * MIB, "{usage:?}");
    // While the client has it there is no room.
    node.server.check();
    assert!(template(&node).usage.resident_bytes <= 2 * MIB);
    acquired.release().unwrap();
    node.server.check();
    eventually("the prefix is back", || {
        template(&node).usage.resident_bytes == 6 * MIB
    });
    assert!(node.server.counters().prefetched_objects >= 4);
    let before = copied(&node);
    use_once(&node, &model);
    assert_eq!(copied(&node) - before, 2);
}

#[test]
fn models_of_one_base_share_its_prefix_within_the_budget() {
    let node = Node::new(32 * MIB, LinkCosts::default(), 5 * MIB);
    let base = node.model(&[1, 2, 3, 4, 5, 6], OBJECT);
    let tuned = node.model(&[1, 2, 3, 4, 15, 16], OBJECT);
    assert_eq!(keep(&node, &base, SOON, 4 * MIB).prefix_bytes, 4 * MIB);
    assert_eq!(keep(&node, &tuned, SOON, 4 * MIB).prefix_bytes, 4 * MIB);
    let device = node.server.report().devices[0].clone();
    assert_eq!(
        (device.templates.len(), device.usage.kept_bytes),
        (2, 4 * MIB)
    );
    // What does not fit the budget is not kept: the model used last comes first.
    assert_eq!(keep(&node, &base, SOON, ALL).prefix_bytes, 5 * MIB);
    assert_eq!(node.server.report().devices[0].usage.kept_bytes, 5 * MIB);
}

#[test]
fn a_prefix_ends_with_its_wish_and_with_its_tenant() {
    let node = Node::new(16 * MIB, LinkCosts::default(), 64 * MIB);
    let model = node.model(&[1, 2, 3, 4], OBJECT);
    assert_eq!(keep(&node, &model, SOON, ALL).prefix_bytes, 4 * MIB);
    assert_eq!(keep(&node, &model, SOON, 0).prefix_bytes, 0);
    assert!(node.server.report().devices[0].templates.is_empty());
    keep(&node, &model, SOON, ALL);
    assert!(node.server.leave(TenantId(0)));
    let device = node.server.report().devices[0].clone();
    assert_eq!((device.templates.len(), device.usage.kept_bytes), (0, 0));
}

#[test]
fn a_server_without_a_budget_keeps_nothing() {
    let node = Node::new(16 * MIB, LinkCosts::default(), 0);
    let model = node.model(&[1, 2], OBJECT);
    assert_eq!(
        keep(&node, &model, Duration::from_millis(1), ALL).prefix_bytes,
        0
    );
}
