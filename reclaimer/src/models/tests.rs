//! The registry of kept models, and the socket for their mounts.

use std::fs::File;
use std::os::fd::AsFd as _;

use tokio::net::UnixListener;

use super::*;

fn key(name: &str) -> ModelKey {
    of_pods(name, tetris_store_layout::FIRST_POD_DOMAIN)
}

fn of_pods(name: &str, domain: u32) -> ModelKey {
    ModelKey {
        store: "blue".to_owned(),
        domain: TrustDomain::Pods(domain),
        name: name.to_owned(),
    }
}

fn report(stage: ModelStage) -> ModelReport {
    ModelReport {
        stage,
        done: 1,
        total: 4,
        bytes_per_second: 2,
        mount: 0,
        problem: match stage {
            ModelStage::Failed => "no answer".to_owned(),
            _ => String::new(),
        },
    }
}

fn device() -> OwnedFd {
    File::open("/dev/null").unwrap().into()
}

/// Has the keeper report, as often as the clock stands still.
async fn note(keeper: &KeeperHandle, stage: ModelStage) -> Option<PassedMount> {
    match keeper.report(report(stage)).await? {
        KeeperOrder::Mount(mount) => Some(mount),
        KeeperOrder::Yield => panic!("the keeper is to give way"),
    }
}

/// Returns true if the keeper is asked to give way.
async fn gives_way(keeper: &KeeperHandle, stage: ModelStage) -> bool {
    matches!(keeper.report(report(stage)).await, Some(KeeperOrder::Yield))
}

#[tokio::test(start_paused = true)]
async fn a_model_is_as_far_as_its_furthest_keeper() {
    let models = KeptModels::default();
    assert_eq!(models.state(&key("a")), ModelState::Absent);
    let first = models.keep(key("a"));
    assert_eq!(models.state(&key("a")), ModelState::Absent);
    assert!(note(&first, ModelStage::Pulling).await.is_none());
    let pulling = ModelState::Pulling {
        done: 1,
        total: 4,
        bytes_per_second: 2,
    };
    assert_eq!(models.state(&key("a")), pulling);
    let second = models.keep(key("a"));
    assert!(note(&second, ModelStage::Present).await.is_none());
    let present = ModelState::Present { mount: 0 };
    assert_eq!(models.state(&key("a")), present);
    // Neither by another name, nor in another domain or store.
    let elsewhere = ModelKey {
        store: "green".to_owned(),
        ..key("a")
    };
    for other in [key("b"), of_pods("a", 1 << 24 | 5), elsewhere] {
        assert_eq!(models.state(&other), ModelState::Absent);
    }
    drop(second);
    assert_eq!(models.state(&key("a")), pulling);
    drop(first);
    assert_eq!(models.state(&key("a")), ModelState::Absent);
}

#[tokio::test(start_paused = true)]
async fn the_last_failures_are_known_when_their_keepers_are_gone() {
    let models = KeptModels::default();
    let fail = async |name: &str| {
        let keeper = models.keep(key(name));
        note(&keeper, ModelStage::Failed).await;
    };
    let failed = ModelState::Failed {
        problem: "no answer".to_owned(),
    };
    fail("first").await;
    assert_eq!(models.state(&key("first")), failed);
    for number in 0..FAILURES {
        fail(&format!("model-{number}")).await;
        // Again and again is one failure.
        fail(&format!("model-{number}")).await;
    }
    assert_eq!(models.locked().failures.len(), FAILURES);
    assert_eq!(models.state(&key("first")), ModelState::Absent);
    assert_eq!(models.state(&key("model-0")), failed);
    // One under way again is no failure any more.
    let again = models.keep(key("model-0"));
    note(&again, ModelStage::Pulling).await;
    drop(again);
    assert_eq!(models.state(&key("model-0")), ModelState::Absent);
}

#[tokio::test(start_paused = true)]
async fn a_mount_goes_to_the_last_keeper_that_has_the_model() {
    let models = KeptModels::default();
    let (old, new) = (models.keep(key("a")), models.keep(key("a")));
    let mount = models.mount(&key("a"), 7, device()).await;
    assert_eq!(mount, Err(NotMounted::NoKeeper));
    note(&old, ModelStage::Present).await;
    note(&new, ModelStage::Present).await;
    let keeper = async {
        let order = note(&new, ModelStage::Present).await.unwrap();
        assert_eq!(order.mount, 7);
        order.taken();
    };
    let (mounted, ()) = tokio::join!(async { models.mount(&key("a"), 7, device()).await }, keeper);
    assert_eq!(mounted, Ok(()));
    assert_eq!(models.state(&key("a")), ModelState::Present { mount: 7 });
    drop(old);
}

#[tokio::test(start_paused = true)]
async fn idle_models_of_lower_priority_give_way_one_after_the_other() {
    let models = KeptModels::default();
    let ranked = |name: &str, priority| {
        let keeper = models.keep(key(name));
        keeper.rank(priority);
        keeper
    };
    let (low, lower, equal, mounted) = (
        ranked("low", 2),
        ranked("lower", 1),
        ranked("equal", 3),
        ranked("mounted", 0),
    );
    let (unranked, failed) = (models.keep(key("unranked")), ranked("failed", 0));
    let other_store = models.keep(ModelKey {
        store: "green".to_owned(),
        ..key("elsewhere")
    });
    other_store.rank(0);
    for keeper in [&low, &equal, &unranked, &other_store] {
        note(keeper, ModelStage::Present).await;
    }
    note(&lower, ModelStage::Pulling).await;
    note(&failed, ModelStage::Failed).await;
    let has_mount = ModelReport {
        mount: 7,
        ..report(ModelStage::Present)
    };
    assert!(mounted.report(has_mount.clone()).await.is_none());

    let blocked = ranked("blocked", 3);
    note(&blocked, ModelStage::Blocked).await;
    assert!(gives_way(&lower, ModelStage::Pulling).await);
    // Pods do not find it any more, and it is the only one that goes.
    assert_eq!(models.state(&key("lower")), ModelState::Absent);
    note(&blocked, ModelStage::Blocked).await;
    for keeper in [&low, &equal, &unranked, &other_store] {
        note(keeper, ModelStage::Present).await;
    }
    assert!(mounted.report(has_mount).await.is_none());
    drop(lower);
    note(&blocked, ModelStage::Blocked).await;
    assert!(gives_way(&low, ModelStage::Present).await);
    // It stays all the same, e.g. since a pod has mounted it: its report counts again.
    note(&low, ModelStage::Present).await;
    let present = ModelState::Present { mount: 0 };
    assert_eq!(models.state(&key("low")), present);
}

#[tokio::test(start_paused = true)]
async fn a_keeper_that_does_not_go_holds_others_back_for_a_bounded_time() {
    let models = KeptModels::default();
    let (first, second) = (models.keep(key("a")), models.keep(key("b")));
    let blocked = models.keep(key("c"));
    for (keeper, priority) in [(&first, 0), (&second, 1), (&blocked, 2)] {
        keeper.rank(priority);
    }
    note(&first, ModelStage::Present).await;
    note(&second, ModelStage::Present).await;
    note(&blocked, ModelStage::Blocked).await;
    assert!(gives_way(&first, ModelStage::Present).await);
    // It never reports again, and does not hang up.
    note(&blocked, ModelStage::Blocked).await;
    note(&second, ModelStage::Present).await;
    tokio::time::advance(YIELD).await;
    note(&blocked, ModelStage::Blocked).await;
    assert!(gives_way(&second, ModelStage::Present).await);
}

#[tokio::test(start_paused = true)]
async fn a_keeper_that_takes_no_mounts_is_given_a_few_for_a_few_seconds() {
    let models = KeptModels::default();
    let keeper = models.keep(key("a"));
    note(&keeper, ModelStage::Present).await;
    let key = key("a");
    let orders: Vec<_> = (1..=ORDERS as u64 + 1)
        .map(|mount| {
            let (models, key) = (models.clone(), key.clone());
            tokio::spawn(async move { models.mount(&key, mount, device()).await })
        })
        .collect();
    let mut outcomes = Vec::new();
    for order in orders {
        outcomes.push(order.await.unwrap());
    }
    assert_eq!(outcomes.pop(), Some(Err(NotMounted::Busy)));
    let silent = outcomes
        .iter()
        .all(|outcome| *outcome == Err(NotMounted::NoAnswer));
    assert!(silent, "{outcomes:?}");
    // None is left behind for it.
    let left = models
        .locked()
        .keepers
        .values()
        .map(|keeper| keeper.orders.len())
        .sum::<usize>();
    assert_eq!(left, 0);
    // One that goes while a mount waits answers for none.
    let (mounted, ()) = tokio::join!(models.mount(&key, 7, device()), async { drop(keeper) });
    assert_eq!(mounted, Err(NotMounted::NoKeeper));
}

#[test]
fn questions_are_for_models_in_domains_of_pods() {
    let question = |domain, model: &str| ModelQuestion {
        store: "blue".to_owned(),
        domain,
        model: model.to_owned(),
    };
    let domain = tetris_store_layout::FIRST_POD_DOMAIN;
    assert_eq!(question(domain, "a").key(), Some(key("a")));
    for wrong in [
        question(0, "a"),
        question(domain, "../a"),
        question(domain, ""),
    ] {
        assert_eq!(wrong.key(), None);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn descriptors_come_with_orders_over_a_socket_of_root() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("models");
    let listener = UnixListener::bind(&path).unwrap();
    let models = KeptModels::default();
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = tokio::spawn(serve_mounts(listener, models.clone(), async {
        let _stopped = stopped.await;
    }));
    let order = |name: &str, mount| MountOrder {
        model: ModelQuestion {
            store: "blue".to_owned(),
            domain: tetris_store_layout::FIRST_POD_DOMAIN,
            model: name.to_owned(),
        },
        mount,
    };
    let ask = |order: MountOrder| {
        let path = path.clone();
        let ask = move || order_mount(&path, &order, device().as_fd());
        async { tokio::task::spawn_blocking(ask).await.unwrap() }
    };
    let answer = ask(order("a", 3)).await;
    if !rustix::process::getuid().is_root() {
        // It hangs up on others.
        answer.unwrap_err();
        return;
    }
    let refused = |reason: &str| MountAnswer::Refused {
        reason: reason.to_owned(),
    };
    assert_eq!(
        answer.unwrap(),
        refused("no pod of this node has the model any more")
    );
    let MountAnswer::Refused { reason } = ask(order("a", 0)).await.unwrap() else {
        panic!("a mount without a number is taken")
    };
    assert!(
        reason.starts_with("expected a model and a mount of it"),
        "{reason}"
    );
    let keeper = models.keep(key("a"));
    let taking = tokio::spawn(async move {
        loop {
            if let Some(order) = note(&keeper, ModelStage::Present).await {
                let mount = order.mount;
                order.taken();
                return mount;
            }
        }
    });
    while models.state(&key("a")) == ModelState::Absent {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(ask(order("a", 3)).await.unwrap(), MountAnswer::Taken);
    assert_eq!(taking.await.unwrap(), 3);
    // A message without a descriptor.
    let mut plain = tokio::net::UnixStream::connect(&path).await.unwrap();
    let text = serde_json::to_vec(&order("a", 3)).unwrap();
    tokio::io::AsyncWriteExt::write_all(&mut plain, &text)
        .await
        .unwrap();
    let mut answer = String::new();
    tokio::io::AsyncReadExt::read_to_string(&mut plain, &mut answer)
        .await
        .unwrap();
    assert!(
        answer.contains("an order has one descriptor, found 0"),
        "{answer}"
    );
    drop(stop);
    serving.await.unwrap();
}
