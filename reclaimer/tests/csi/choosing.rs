//! Which store a namespace gets.

use tetris_reclaimer::config::StoreConfig;
use tetris_reclaimer::csi::{Chosen, PerNamespace, choose};

fn store(name: &str, namespaces: &[&str]) -> StoreConfig {
    StoreConfig {
        name: name.to_owned(),
        path: format!("/run/tetris/{name}").into(),
        namespaces: namespaces.iter().map(|name| (*name).to_owned()).collect(),
    }
}

fn rule(namespaces: &[&str]) -> PerNamespace {
    PerNamespace {
        name: "ns-{namespace}".to_owned(),
        path: "/run/tetris/{namespace}".into(),
        namespaces: namespaces.iter().map(|name| (*name).to_owned()).collect(),
        limit: 2,
    }
}

fn name(chosen: Result<Chosen, impl std::fmt::Debug>) -> String {
    chosen.unwrap().config().name.clone()
}

#[test]
fn a_store_that_names_the_namespace_comes_before_its_own_and_that_before_one_for_all() {
    let stores = [store("all", &[]), store("blue", &["blue", "teal"])];
    assert_eq!(name(choose(&stores, None, "blue", None)), "blue");
    assert_eq!(name(choose(&stores, None, "red", None)), "all");
    let rule = rule(&["blue", "red"]);
    assert_eq!(name(choose(&stores, Some(&rule), "blue", None)), "blue");
    assert_eq!(name(choose(&stores, Some(&rule), "red", None)), "ns-red");
    assert_eq!(name(choose(&stores, Some(&rule), "green", None)), "all");
    let own = choose(&stores, Some(&rule), "red", None).unwrap();
    assert_eq!(own.config().path.to_str(), Some("/run/tetris/red"));
    assert_eq!(own.config().namespaces, ["red"]);
}

#[test]
fn a_pod_may_choose_among_the_stores_of_its_namespace_only() {
    let stores = [
        store("all", &[]),
        store("blue", &["blue"]),
        store("x", &["red"]),
    ];
    assert_eq!(name(choose(&stores, None, "blue", Some("all"))), "all");
    let error = choose(&stores, None, "blue", Some("x"))
        .unwrap_err()
        .to_string();
    assert_eq!(
        error,
        "namespace `blue` may not use store `x`; it may use `blue`, `all`"
    );
    let error = choose(&stores[1..], None, "green", None)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("may not use any store; it may use none"),
        "{error}"
    );
    let rule = rule(&[]);
    let error = choose(&stores, Some(&rule), "blue", Some("ns-red")).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("may use `blue`, `ns-blue`, `all`"),
        "{error}"
    );
}

#[test]
fn a_namespace_called_like_the_store_of_others_does_not_get_it() {
    let stores = [store("blue", &["team"]), store("ns-red", &["team"])];
    for namespace in ["blue", "red"] {
        let error = choose(&stores, Some(&rule(&[])), namespace, None).unwrap_err();
        assert_eq!(error.code(), tonic::Code::FailedPrecondition);
        assert!(error.to_string().contains("taken by store"), "{error}");
    }
    let nested = [StoreConfig {
        path: "/run/tetris/blue/inner".into(),
        ..store("inner", &["team"])
    }];
    assert!(choose(&nested, Some(&rule(&[])), "blue", None).is_err());
}
