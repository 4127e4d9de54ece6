//! Several replicas at once.

use tetris_webhook::certificates::{create, fields};
use tetris_webhook::sync::SyncError;

use crate::served::api::{Api, empty_secret};
use crate::served::replica::{
    DAY, Replica, SERVER, START, assert_trusted, authorities, data, secret,
};

async fn settle(replica: &Replica) {
    while let Err(error) = replica.sync.pass().await {
        assert!(matches!(error, SyncError::Raced { .. }), "{error}");
    }
}

#[tokio::test]
async fn two_that_start_at_once_agree() {
    let api = Api::new();
    let (a, b) = (Replica::new(&api), Replica::new(&api));
    tokio::join!(settle(&a), settle(&b));
    let served = |replica: &Replica| replica.serving.served().unwrap();
    assert!(
        !a.serving.install(&leaf(&api)) && !b.serving.install(&leaf(&api)),
        "both serve what is in the secret"
    );
    assert_eq!(served(&a).validity, served(&b).validity);
    api.with(|state| assert_trusted(state));
}

fn leaf(api: &Api) -> tetris_webhook::certificates::Leaf {
    api.with(|state| {
        tetris_webhook::certificates::Contents::read(&data(state))
            .leaf
            .unwrap()
    })
}

#[tokio::test]
async fn who_comes_second_with_a_secret_takes_that_of_the_first() {
    let api = Api::new();
    let replica = Replica::new(&api);
    let first = create(START, SERVER).unwrap();
    let theirs = secret(&first);
    api.with(|state| state.before_write = Some(Box::new(move |state| drop(state.store(theirs)))));
    let error = replica.sync.pass().await.unwrap_err();
    assert!(matches!(error, SyncError::Raced { .. }), "{error}");
    assert!(replica.serving.served().is_none());
    settle(&replica).await;
    api.with(|state| {
        assert!(data(state) == first);
        assert_trusted(state);
        assert_eq!(state.count("PUT"), 1);
    });
}

#[tokio::test]
async fn who_comes_second_with_a_renewal_takes_that_of_the_first() {
    let api = Api::new();
    let (a, b) = (Replica::new(&api), Replica::new(&api));
    settle(&a).await;
    settle(&b).await;
    let before = api.with(|state| authorities(state));
    for replica in [&a, &b] {
        replica.clock.set(START + 244 * DAY);
    }
    let (first, second) = tokio::join!(a.sync.pass(), b.sync.pass());
    let raced = [first, second]
        .into_iter()
        .filter(|pass| matches!(pass, Err(SyncError::Raced { .. })));
    assert_eq!(
        raced.count(),
        1,
        "one of them renews, the other one is told"
    );
    settle(&a).await;
    settle(&b).await;
    api.with(|state| {
        assert_trusted(state);
        assert!(authorities(state).ends_with(&before));
        assert_eq!(
            authorities(state).matches("BEGIN").count(),
            2,
            "one new authority, not two"
        );
    });
    assert_eq!(a.expires(), b.expires());
}

#[tokio::test]
async fn a_secret_that_was_deleted_meanwhile_is_filled_anew_when_it_is_back() {
    let api = Api::new();
    let replica = Replica::new(&api);
    settle(&replica).await;
    let before = api.with(|state| data(state));
    replica.clock.set(START + 61 * DAY);
    api.with(|state| state.before_write = Some(Box::new(|state| state.secret = None)));
    let error = replica.sync.pass().await.unwrap_err();
    assert!(matches!(error, SyncError::Raced { .. }), "{error}");
    let error = replica.sync.pass().await.unwrap_err();
    assert!(matches!(error, SyncError::NoSecret { .. }), "{error}");
    assert_eq!(replica.readiness.check(), Ok(()), "it still serves");
    api.with(|state| state.store(empty_secret()));
    settle(&replica).await;
    api.with(|state| {
        assert_trusted(state);
        assert_ne!(data(state)[fields::CA_KEY], before[fields::CA_KEY]);
    });
}

/// A rotation by another replica between the two reads: the new authority must not be taken out again.
#[tokio::test]
async fn one_that_is_behind_takes_no_authority_out() {
    let api = Api::new();
    let (behind, ahead) = (Replica::new(&api), Replica::new(&api));
    settle(&ahead).await;
    let old = api.with(|state| {
        // The configuration was applied again, so the one behind has something to write.
        state.configure(crate::served::api::configuration());
        data(state)
    });
    let rotated = {
        let contents = tetris_webhook::certificates::Contents::read(&old);
        let action = tetris_webhook::certificates::Action::RenewCa;
        tetris_webhook::certificates::apply(action, START, contents, SERVER)
            .unwrap()
            .unwrap()
    };
    let theirs = secret(&rotated);
    api.with(|state| {
        state.after_read = Some(Box::new(move |state| {
            state.store(theirs);
            let mut configuration = crate::served::api::configuration();
            let bundle = serde_json::to_value(&data(state)[fields::CA_CERTIFICATES]).unwrap();
            for index in 0..2 {
                configuration["webhooks"][index]["clientConfig"]["caBundle"] = bundle.clone();
            }
            state.configure(configuration);
        }));
    });
    let error = behind.sync.pass().await.unwrap_err();
    assert!(matches!(error, SyncError::Raced { .. }), "{error}");
    api.with(|state| assert_trusted(state));
    settle(&behind).await;
    api.with(|state| assert!(data(state) == rotated));
}
