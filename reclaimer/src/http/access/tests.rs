//! Decisions over time, with a reviewer that the test controls.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use std::time::Duration;

use tetris_service_kit::token_reviews::ReviewError;

use super::*;

const SCALER: &str = "system:serviceaccount:tetris-system:tetris-scaler";
const A: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const B: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));

/// Knows the token `scaler`, and `account:NAME` of any other account.
#[derive(Debug, Clone, Default)]
struct Reviewer {
    reviews: Arc<AtomicUsize>,
    is_down: Arc<AtomicBool>,
    forgets: Arc<AtomicBool>,
}

impl TokenReviewer for Reviewer {
    async fn review(&self, token: &str) -> Result<Option<String>, ReviewError> {
        self.reviews.fetch_add(1, Ordering::Relaxed);
        if self.is_down.load(Ordering::Relaxed) {
            return Err(ReviewError {
                problem: "the API server is away".to_owned(),
                next_step: "wait",
            });
        }
        if self.forgets.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let account = (token == "scaler").then(|| SCALER.to_owned());
        Ok(account.or_else(|| Some(token.strip_prefix("account:")?.to_owned())))
    }
}

struct Scene {
    reviewer: Reviewer,
    gate: Arc<Gate<Reviewer>>,
}

impl Scene {
    fn new() -> Self {
        let reviewer = Reviewer::default();
        let gate = Gate::new(
            reviewer.clone(),
            [SCALER.to_owned()],
            ReviewLimits::default(),
        );
        Self {
            reviewer,
            gate: Arc::new(gate),
        }
    }

    async fn ask(&self, address: IpAddr, token: &str) -> Access {
        let mut headers = HeaderMap::new();
        let value = format!("Bearer {token}");
        headers.insert(AUTHORIZATION, value.parse().unwrap());
        self.gate.decide(address, &headers).await
    }

    fn reviews(&self) -> usize {
        self.reviewer.reviews.load(Ordering::Relaxed)
    }
}

#[tokio::test(start_paused = true)]
async fn a_named_account_is_admitted_and_reviewed_once_in_a_while() {
    let scene = Scene::new();
    for _ in 0..30 {
        assert_eq!(scene.ask(A, "scaler").await, Access::Admitted);
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    assert_eq!(scene.reviews(), 1);
    tokio::time::advance(Duration::from_secs(20)).await;
    assert_eq!(scene.ask(A, "scaler").await, Access::Admitted);
    tokio::task::yield_now().await;
    assert_eq!(scene.reviews(), 2);
}

#[tokio::test(start_paused = true)]
async fn other_accounts_and_requests_without_a_token_are_refused() {
    let scene = Scene::new();
    assert_eq!(scene.ask(A, "account:other").await, Access::Forbidden);
    assert_eq!(scene.ask(B, "nonsense").await, Access::Unauthenticated);
    let none = scene.gate.decide(A, &HeaderMap::new()).await;
    assert_eq!(none, Access::Unauthenticated);
    for value in [
        "Basic scaler",
        "Bearer ",
        "Bearer a b",
        "scaler",
        "Bearer \u{7f}",
    ] {
        let mut headers = HeaderMap::new();
        if let Ok(value) = value.parse() {
            headers.insert(AUTHORIZATION, value);
        }
        let access = scene.gate.decide(A, &headers).await;
        assert_eq!(access, Access::Unauthenticated, "{value}");
    }
    assert_eq!(scene.reviews(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_is_away_keeps_nobody_out_for_a_while_and_admits_nobody_new() {
    let scene = Scene::new();
    assert_eq!(scene.ask(A, "scaler").await, Access::Admitted);
    scene.reviewer.is_down.store(true, Ordering::Relaxed);
    for _ in 0..119 {
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(scene.ask(A, "scaler").await, Access::Admitted);
        tokio::task::yield_now().await;
    }
    tokio::time::advance(Duration::from_secs(2)).await;
    assert_eq!(scene.ask(A, "scaler").await, Access::Undecided);
    assert_eq!(scene.ask(B, "account:other").await, Access::Undecided);
    scene.reviewer.is_down.store(false, Ordering::Relaxed);
    assert_eq!(scene.ask(A, "scaler").await, Access::Admitted);
}

#[tokio::test(start_paused = true)]
async fn a_token_that_is_no_longer_valid_is_dropped_by_its_renewal() {
    let scene = Scene::new();
    assert_eq!(scene.ask(A, "scaler").await, Access::Admitted);
    scene.reviewer.forgets.store(true, Ordering::Relaxed);
    tokio::time::advance(Duration::from_secs(41)).await;
    assert_eq!(scene.ask(A, "scaler").await, Access::Admitted);
    tokio::task::yield_now().await;
    assert_eq!(scene.ask(A, "scaler").await, Access::Unauthenticated);
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_tokens_costs_few_reviews_and_keeps_no_admitted_client_out() {
    let scene = Scene::new();
    assert_eq!(scene.ask(A, "scaler").await, Access::Admitted);
    for second in 0..10_u8 {
        for client in 0..200_u8 {
            let address = IpAddr::V4(Ipv4Addr::new(10, 1, second, client));
            scene.ask(address, "nonsense").await;
            assert_ne!(scene.ask(address, "again").await, Access::Admitted);
        }
        assert_eq!(scene.ask(A, "scaler").await, Access::Admitted);
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    assert!(scene.reviews() <= 65, "{}", scene.reviews());
}

#[tokio::test(start_paused = true)]
async fn an_address_with_a_refused_token_waits() {
    let scene = Scene::new();
    assert_eq!(scene.ask(B, "nonsense").await, Access::Unauthenticated);
    assert_eq!(scene.ask(B, "scaler").await, Access::PutOff);
    assert_eq!(scene.ask(A, "scaler").await, Access::Admitted);
    tokio::time::advance(Duration::from_secs(10)).await;
    assert_eq!(scene.ask(B, "account:other").await, Access::Forbidden);
}
