//! Conditions on any bytes taken for a request of kube-scheduler. Shared by the fuzz target
//! and the tests of the scaler.

use std::collections::BTreeMap;

use serde::Deserialize;
use tetris_scaler::extender::wire::{HostPriority, MAX_SCORE, NamedNode, NodeList};

/// The answer of `/filter`, as a scheduler reads it.
#[derive(Deserialize)]
struct Filtered {
    #[serde(rename = "Nodes")]
    nodes: Option<NodeList>,
    #[serde(rename = "NodeNames")]
    names: Option<Vec<String>>,
    #[serde(rename = "FailedAndUnresolvableNodes")]
    failed: BTreeMap<String, String>,
    #[serde(rename = "Error")]
    error: String,
}

/// Sends `body` to both pages of the extender by `post`, which returns status and text of the
/// answer. Returns true if the extender understood it.
///
/// # Panics
///
/// If an answer is not one that a scheduler reads, invents or loses a node, or gives a score beyond
/// the limit.
pub fn check(body: &[u8], mut post: impl FnMut(&str, &[u8]) -> (u16, String)) -> bool {
    let (status, text) = post("/filter", body);
    assert_eq!(status, 200, "{text}");
    let filtered: Filtered = serde_json::from_str(&text).expect("an answer in JSON");
    let (status, scores) = post("/prioritize", body);
    if !filtered.error.is_empty() {
        assert_eq!(status, 400, "{scores}");
        return false;
    }
    assert_eq!(status, 200, "{scores}");
    let scores: Vec<HostPriority> = serde_json::from_str(&scores).expect("an answer in JSON");
    let is_score = |score: i64| (0..=MAX_SCORE).contains(&score);
    assert!(
        scores.iter().all(|entry| is_score(entry.score)),
        "{scores:?}"
    );
    let passed: Vec<String> = match (filtered.names, filtered.nodes) {
        (Some(names), None) => names,
        (None, Some(list)) => {
            let nodes = list.items.into_iter().flatten();
            nodes.map(|node| name(node.get())).collect()
        }
        _ => panic!("expected one form of nodes: {text}"),
    };
    let expected = scores.into_iter().map(|score| score.host);
    let expected: Vec<_> = expected
        .filter(|node| !filtered.failed.contains_key(node))
        .collect();
    assert_eq!(passed, expected, "{:?}", filtered.failed);
    true
}

fn name(node: &str) -> String {
    let node: NamedNode = serde_json::from_str(node).expect("a node with a name");
    node.metadata.name
}
