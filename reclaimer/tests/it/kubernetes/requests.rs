//! Requests to the API server.

use tetris_node::kubernetes::{PAGE_PODS, WATCH_SECONDS};

use crate::kubernetes::server::{Call, NODE};
use crate::kubernetes::watched::Watched;

fn assert_parameter(call: &Call, name: &str, value: &str) {
    assert_eq!(call.parameter(name).as_deref(), Some(value), "{}", call.uri);
}

#[tokio::test(start_paused = true)]
async fn requests_are_for_this_nodes_pods_and_bounded() {
    let mut watched = Watched::start();
    let selector = format!("spec.nodeName={NODE}");
    let list = watched.server.next_list().await;
    assert_parameter(&list, "fieldSelector", &selector);
    assert_parameter(&list, "limit", &PAGE_PODS.to_string());
    list.pods(&[]);
    let watch = watched.server.next_watch().await;
    assert_parameter(&watch, "fieldSelector", &selector);
    assert_parameter(&watch, "timeoutSeconds", &WATCH_SECONDS.to_string());
    assert_parameter(&watch, "allowWatchBookmarks", "true");
    assert_parameter(&watch, "resourceVersion", "100");
}

#[tokio::test(start_paused = true)]
async fn lists_are_of_the_latest_state_not_of_a_cache() {
    // A cache may lag behind, and then a list would lack a pod that was known already.
    let mut watched = Watched::start();
    let list = watched.server.next_list().await;
    assert_eq!(list.parameter("resourceVersion"), None, "{}", list.uri);
}
