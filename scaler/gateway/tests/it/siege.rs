//! The gateway's program in a cgroup with the limit that it ships with, under hostile clients of all kinds at once.
//!
//! `TETRIS_SIEGE_SECONDS` sets the duration. `TETRIS_SIEGE_PROGRAM` names another gateway to try.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use http_body_util::Full;
use tetris_hostile::cgroup::Cgroup;
use tetris_hostile::clients::{Paths, connect};
use tetris_hostile::siege;

use crate::client::{infer, send_from, whole};
use crate::gateway::function;
use crate::instance::{Instance, Mode};
use crate::replica::{Replica, free_address};

/// Limit of the shipped Deployment.
const LIMIT: u64 = 512 << 20;
const PATHS: Paths = Paths {
    victim: "/functions/victim/x",
    flood: "/functions/flood/x",
    waiting: "/functions/zero/x",
};
const VICTIM: &str = "127.0.0.9:0";
/// Requests of the victim before the attack: all parts of the gateway have been used.
const WARM: usize = 300;
/// Memory that the gateway may keep besides a fifth of that before: caches and arenas of the C library, whose pages
/// it gives back late.
const KEPT: u64 = 32 << 20;
/// Number of looks whether memory is back, a second apart.
const LOOKS: u64 = 20;

/// Asks once, and returns the time that it took.
async fn ask(gateway: SocketAddr) -> Duration {
    let mut request = infer("victim");
    *request.body_mut() = Full::from(vec![b' '; 10 << 10]);
    let asked = Instant::now();
    let answer = whole(send_from(VICTIM, gateway, request).await.unwrap()).await;
    assert_eq!(
        (answer.status.as_u16(), answer.body.as_str()),
        (200, "one"),
        "the victim"
    );
    asked.elapsed()
}

#[tokio::test]
async fn under_siege_the_gateway_serves_others_within_its_memory_and_gives_it_back() {
    let cgroup = match Cgroup::new("gateway", LIMIT) {
        Ok(cgroup) => cgroup,
        Err(reason) => {
            skipped(&reason);
            return;
        }
    };
    // On their own threads: the victim's client and instance wait for no hostile one.
    let hostile = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let answering = Instance::start("one", Mode::Answer);
    let flood = {
        let _here = hostile.enter();
        Instance::start("flood", Mode::Flood)
    };
    let text = [
        "[timeouts]\nhead = \"3s\"\nbody = \"2s\"\n".to_owned(),
        function("victim", "", &[answering.address], 8),
        function("flood", "", &[flood.address], 64),
        function("zero", "queue = 100000", &[], 1),
    ];
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gateway.toml");
    std::fs::write(&path, text.concat()).unwrap();
    let mut gateway = Replica::start_in(&cgroup, &path, free_address(), free_address());
    gateway.ready().await;
    for _ in 0..WARM {
        ask(gateway.address).await;
    }
    let before = gateway.resident();
    hostile.spawn(siege::run(gateway.address, PATHS, connect));
    let began = Instant::now();
    let (mut most, mut slowest, mut asked) = (before, Duration::ZERO, 0);
    while began.elapsed() < siege::duration() {
        assert!(
            gateway.is_alive(),
            "after {:?}, {most} bytes at most",
            began.elapsed()
        );
        slowest = slowest.max(ask(gateway.address).await);
        most = most.max(gateway.resident());
        asked += 1;
    }
    hostile.shutdown_background();
    let allowed = before + before / 5 + KEPT;
    let mut after = gateway.resident();
    for _ in 0..LOOKS {
        if after <= allowed {
            break;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        ask(gateway.address).await;
        after = gateway.resident();
    }
    let page = gateway.page("/metrics").await;
    for line in page.lines().filter(|line| line.contains("_memory_bytes{")) {
        said(line);
    }
    said(&format!(
        "resident bytes: {before} before, {most} at most, {after} after; {asked} requests of the victim, the slowest {slowest:?}"
    ));
    assert!(gateway.is_alive());
    assert!(
        after <= allowed,
        "{after} bytes, {before} before; at most {most}"
    );
}

fn said(text: &str) {
    use std::io::Write as _;
    drop(writeln!(std::io::stderr(), "{text}"));
}

fn skipped(reason: &str) {
    let test = std::thread::current();
    let test = test.name().unwrap_or("test").to_owned();
    said(&format!("SKIPPED: {test}: {reason}"));
}
