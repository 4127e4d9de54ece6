//! 10,000 nodes: the test prints the time, without a bound.

use std::sync::Arc;
use std::time::Instant;

use serde_json::Value;
use tetris_scaler_core::{Inventory, InventoryLimits, NodeView};
use tetris_store_layout::ObjectId;

use crate::extender::cluster::{extender, for_bert, node, post};
use crate::snapshot::{function, profile, snapshot, state};

const NODES: usize = 10_000;
const TENSORS: usize = 1_000;

/// Creates a model of 1,000 tensors, each on a different set of nodes.
fn large() -> tetris_scaler::state::Snapshot {
    let mut large = snapshot(&[("bert", "Operator")]);
    let state = state(&profile("bert", TENSORS), &function("bert", "Operator"));
    let ids: Vec<ObjectId> = state
        .model
        .tensors
        .objects()
        .iter()
        .map(|(id, _)| *id)
        .collect();
    let key = large.functions.keys().next().unwrap().clone();
    large.functions.insert(key, Arc::new(state));
    let mut inventory = Inventory::new(InventoryLimits::default());
    let mut nodes: Vec<NodeView> = Vec::new();
    for at in 0..NODES {
        let has = ids.iter().enumerate();
        let has = has.filter(|(tensor, _)| (at * 31 + tensor * tensor) % 7 < 3);
        let has: Vec<ObjectId> = has.map(|(_, id)| *id).collect();
        let name = format!("node-{at}");
        inventory.set_node(&name, &has).unwrap();
        // Three sevenths of 100 GB are there. Every tenth node has no room for the rest.
        let room = if at % 10 == 0 { 1 << 30 } else { 100 << 30 };
        nodes.push(node(&name, 4_000, Some(room)));
    }
    large.inventory = Arc::new(inventory);
    large.nodes = nodes.into();
    large
}

#[tokio::test]
async fn ten_thousand_nodes_are_scored_and_filtered() {
    let large = large();
    let names: Vec<&str> = large.nodes.iter().map(|node| node.name.as_str()).collect();
    let body = for_bert(&names);
    let router = extender(large);
    for path in ["/prioritize", "/filter"] {
        let mut times = Vec::new();
        for _ in 0..11 {
            let start = Instant::now();
            let (_, text) = post(router.clone(), path, body.clone()).await;
            times.push(start.elapsed());
            let answer: Value = serde_json::from_str(&text).unwrap();
            let failed = answer["FailedAndUnresolvableNodes"].as_object();
            let expected = failed.map_or(NODES, |_| NODES / 10);
            let found = failed.map(serde_json::Map::len);
            let found = found.or(answer.as_array().map(Vec::len));
            assert_eq!(found, Some(expected));
        }
        times.sort();
        println!(
            "{path}: {NODES} nodes, {TENSORS} tensors, {} bytes: {:?}",
            body.len(),
            times[5]
        );
    }
}
