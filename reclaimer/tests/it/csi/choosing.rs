//! Choice of a namespace's store.

use tetris_node::csi::{Chosen, OwnStore, PerNamespace, choose};
use tetris_node::store::StoreConfig;

fn store(name: &str, namespaces: &[&str]) -> StoreConfig {
    StoreConfig {
        name: name.to_owned(),
        path: format!("/run/tetris/{name}").into(),
        namespaces: namespaces.iter().map(|name| (*name).to_owned()).collect(),
        own: false,
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
    chosen.unwrap().name().to_owned()
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
}

const UID: &str = "01234567-89ab-4cde-8fed-ba9876543210";

#[test]
fn a_namespaces_own_store_is_named_by_its_identifier() {
    let store = OwnStore::new(&[], &rule(&[]), "red", UID).unwrap();
    let expected = StoreConfig {
        name: format!("ns-red.{UID}"),
        path: format!("/run/tetris/red.{UID}").into(),
        namespaces: vec!["red".to_owned()],
        own: true,
    };
    assert_eq!(store.config, expected);
    assert_eq!(
        (&*store.namespace, store.uid.as_deref()),
        ("red", Some(UID))
    );
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
        let chosen = choose(&stores, Some(&rule(&[])), namespace, None).unwrap();
        assert!(matches!(chosen, Chosen::Own(_)), "{chosen:?}");
        let own_store = OwnStore::new(&stores, &rule(&[]), namespace, UID).unwrap();
        assert!(stores.iter().all(
            |store| store.path != own_store.config.path && store.name != own_store.config.name
        ));
    }
    let inner = format!("/run/tetris/blue.{UID}/inner");
    for path in [
        format!("/run/tetris/blue.{UID}"),
        inner,
        "/run/tetris".to_owned(),
    ] {
        let taken = [StoreConfig {
            path: path.into(),
            ..store("team", &["team"])
        }];
        let error = OwnStore::new(&taken, &rule(&[]), "blue", UID).unwrap_err();
        assert_eq!(error.code(), tonic::Code::FailedPrecondition);
        assert!(
            error.to_string().contains("taken by store `team`"),
            "{error}"
        );
    }
}
