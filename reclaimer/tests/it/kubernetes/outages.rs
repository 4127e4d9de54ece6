//! The API server is away: at the start, in between, and while the daemon was restarted.

use std::time::{Duration, SystemTime};

use tetris_node::keep_warm::{Freshness, WarmSet};
use tetris_node::kubernetes::Fault;
use tokio::time::Instant;

use crate::kubernetes::server::pod;
use crate::kubernetes::watched::{Watched, known, pods};
use tetris_test_support::heap;

#[tokio::test(start_paused = true)]
async fn a_server_that_is_down_at_the_start_leaves_the_set_unknown_until_it_comes() {
    let mut watched = Watched::start();
    for _ in 0..4 {
        watched.server.next_list().await.refuse();
    }
    let call = watched.server.next_list().await;
    assert_eq!(watched.unchanged(), ("unknown", pods([])));
    assert_eq!(watched.fault_count(Fault::Watch), 4);
    call.pods(&[pod("a", "bert")]);
    assert_eq!(watched.next().await, ("current", pods([("a", "bert")])));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_goes_down_leaves_every_pod_in_force_since_then() {
    let mut watched = Watched::start();
    let watch = watched
        .server
        .sync(&[pod("a", "bert"), pod("b", "gpt2")])
        .await;
    watched.next().await;
    let before = SystemTime::now();
    watch.reset();
    let broke = watched.published().await;
    let Freshness::Stale { since } = broke.freshness else {
        panic!("{broke:?}");
    };
    assert!(before <= since && since <= SystemTime::now());
    for _ in 0..5 {
        watched.server.next_list().await.refuse();
    }
    let call = watched.server.next_list().await;
    let both = pods([("a", "bert"), ("b", "gpt2")]);
    assert_eq!(watched.unchanged(), ("stale", both.clone()));
    assert_eq!(watched.set.borrow().freshness, Freshness::Stale { since });
    call.pods(&[pod("a", "bert"), pod("b", "gpt2")]);
    assert_eq!(watched.next().await, ("current", both));
}

/// The longest wait between two attempts: kube's backoff of 30 s, with its jitter.
const LONGEST_WAIT: Duration = Duration::from_mins(1);

#[tokio::test(start_paused = true)]
async fn a_server_that_is_away_for_an_hour_is_asked_seldom_and_found_within_one_wait() {
    let mut watched = Watched::start();
    let watch = watched.server.sync(&[pod("a", "bert")]).await;
    watched.next().await;
    watch.reset();
    assert_eq!(watched.next().await, ("stale", pods([("a", "bert")])));
    let began = Instant::now();
    let (mut last, mut asked, mut held) = (began, 0, None);
    while began.elapsed() < Duration::from_hours(1) {
        watched.server.next_list().await.refuse();
        assert!(last.elapsed() <= LONGEST_WAIT, "{:?}", last.elapsed());
        (last, asked) = (Instant::now(), asked + 1);
        if asked == 40 {
            held = Some(heap::held());
        }
    }
    assert!((60..=400).contains(&asked), "{asked} attempts in an hour");
    assert_eq!(watched.unchanged(), ("stale", pods([("a", "bert")])));
    let grown = heap::held() - held.expect("an hour has 40 attempts");
    assert!(
        grown <= 8 << 10,
        "{grown} bytes more than early in the outage"
    );
    let call = watched.server.next_list().await;
    assert!(last.elapsed() <= LONGEST_WAIT, "{:?}", last.elapsed());
    call.pods(&[pod("b", "gpt2")]);
    assert_eq!(watched.next().await, ("current", pods([("b", "gpt2")])));
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_refused_after_a_list_is_stale() {
    let mut watched = Watched::start();
    watched.server.next_list().await.pods(&[pod("a", "bert")]);
    assert_eq!(watched.next().await, ("current", pods([("a", "bert")])));
    watched.server.next_watch().await.status(403);
    assert_eq!(watched.next().await, ("stale", pods([("a", "bert")])));
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_silently_dead_is_noticed() {
    let mut watched = Watched::start();
    let _silent = watched.server.sync(&[pod("a", "bert")]).await;
    watched.next().await;
    watched.server.next_watch().await.refuse();
    assert_eq!(watched.next().await, ("stale", pods([("a", "bert")])));
}

#[tokio::test(start_paused = true)]
async fn what_an_earlier_run_knew_is_in_force_until_the_first_complete_list() {
    let mut watched = Watched::start_with(known("old", "bert"));
    watched.server.next_list().await.refuse();
    watched
        .server
        .next_list()
        .await
        .page(&[pod("new", "gpt2")], "more");
    let call = watched.server.next_list().await;
    assert_eq!(watched.unchanged(), ("stale", pods([("old", "bert")])));
    let since = SystemTime::UNIX_EPOCH;
    assert_eq!(watched.set.borrow().freshness, Freshness::Stale { since });
    call.pods(&[]);
    assert_eq!(watched.next().await, ("current", pods([("new", "gpt2")])));
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_started_again_does_not_call_the_old_set_current() {
    let mut before = known("old", "bert");
    before.freshness = Freshness::Current;
    let mut watched = Watched::start_with(before);
    assert_eq!(watched.next().await, ("stale", pods([("old", "bert")])));
}

#[tokio::test(start_paused = true)]
async fn where_there_is_a_cluster_nothing_says_there_is_none() {
    let mut watched = Watched::start_with(WarmSet::no_cluster());
    assert_eq!(watched.next().await, ("unknown", pods([])));
}
