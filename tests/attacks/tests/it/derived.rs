//! A pod that lies about derived tensors, on a whole daemon: `volumes` makes the mounts, `broker` takes the claims.

use std::cell::Cell;
use std::io::Write as _;

use tetris_agent::{Agent, LoadOptions, Store, TensorId};

use crate::node::{Node, Options, Pod, USER};

const LEN: usize = 1 << 20;

/// Derives in a pod. Returns the first byte of the result, and true if the pod made it.
fn derive(pod: &Pod, byte: u8) -> (u8, bool) {
    let agent = Agent::open_store(&pod.volume).unwrap();
    let made = Cell::new(false);
    let make = || {
        made.set(true);
        Ok::<_, ()>(vec![byte; LEN])
    };
    let (source, options) = (TensorId::of(b"source"), LoadOptions::default());
    let derived = agent.derive(source, "cast", 1, &options, make);
    let derived = derived.unwrap().unwrap();
    assert_eq!(derived.private_reason(), None);
    (derived[0], made.get())
}

#[test]
fn a_lie_about_a_derived_tensor_reaches_no_other_service_account() {
    const LIE: u8 = 66;
    let Some(mut node) = Node::start(&Options::default()) else {
        return;
    };
    let liar = node.pod_of_account("blue", "liar", "web", USER);
    if !Store::open(&liar.volume).unwrap().hides_owner() {
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED: trust domains: this kernel maps no ids of a tmpfs"
        );
        return node.stop();
    }
    assert_eq!(derive(&liar, LIE), (LIE, true));
    // Its own service account takes its word; that is what the account is for.
    let friend = node.pod_of_account("blue", "friend", "web", USER);
    assert_eq!(derive(&friend, 1), (LIE, false));
    // No one else does, whatever the pods' users and names are.
    for (namespace, name, account) in [
        ("blue", "batch", "batch"),
        ("blue", "default", "default"),
        ("green", "web", "web"),
    ] {
        let other = node.pod_of_account(namespace, name, account, USER);
        assert_eq!(derive(&other, 1), (1, true), "{namespace}/{account}");
        assert_eq!(derive(&other, 2), (1, false), "{namespace}/{account}");
    }
    node.stop();
}
