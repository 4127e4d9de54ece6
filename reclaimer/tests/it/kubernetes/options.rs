//! Options that select no pods are refused: an empty set would say that nothing is warm.

use tetris_node::kubernetes::{DEFAULT_ANNOTATION, OptionsError, WatchOptions};

#[test]
fn names_of_nodes_are_taken() {
    for node in ["n", "node-1", "10.0.0.7", "ip-10-0-0-7.ec2.internal"] {
        let options = WatchOptions::try_new(node, DEFAULT_ANNOTATION).unwrap();
        assert_eq!(options.node(), node);
        assert_eq!(options.annotation(), DEFAULT_ANNOTATION);
    }
}

#[test]
fn what_is_no_name_of_a_node_is_refused() {
    let long = "n".repeat(254);
    for node in [
        "",
        "Node",
        "a,spec.nodeName=b",
        "a b",
        "-a",
        "a-",
        "a..b",
        ".a",
        "a=b",
        &long,
    ] {
        let refused = WatchOptions::try_new(node, DEFAULT_ANNOTATION).unwrap_err();
        assert_eq!(refused, OptionsError::Node { found: node.into() });
        assert!(refused.to_string().contains("kubectl get nodes"));
    }
}

#[test]
fn keys_of_annotations_are_checked() {
    for key in ["models", "example.com/Warm_models.v1"] {
        assert!(WatchOptions::try_new("n", key).is_ok(), "{key}");
    }
    let long = "k".repeat(64);
    for key in [
        "",
        "/",
        "a/",
        "/a",
        "a/b/c",
        "Tetris.dev/models",
        "x y",
        "_a",
        &long,
    ] {
        let refused = WatchOptions::try_new("n", key).unwrap_err();
        assert_eq!(refused, OptionsError::Annotation { found: key.into() });
    }
}
