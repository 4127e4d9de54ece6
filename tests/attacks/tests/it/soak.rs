//! All attacks at once, for minutes, beside a victim in another namespace and a pod that keeps a model mapped.
//!
//! `TETRIS_SOAK_SECONDS` is the duration of the attacks, 60 by default. With `TETRIS_SOAK_TIMES` the measured times
//! are asserted; otherwise they are printed, because another load of the machine lengthens them as well.

use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tetris_agent::{Agent, LoadOptions};
use tetris_attacks::model;

use crate::attacker::{Attacker, Priority, tell};
use crate::gateway::{Gateway, GatewayVictim};
use crate::node::{Node, Options, Pod, values};
use crate::usage::{MemoryWatch, Usage, damaged, files};
use crate::victim::{self, Victim};

const MIB: u64 = 1 << 20;
/// Interval of the victim's loads.
const LOADS: Duration = Duration::from_secs(2);
/// Loads and requests before the attacks, for comparison.
const LOADS_ALONE: usize = 10;
const REQUESTS_ALONE: usize = 250;
/// Interval of questions to `/healthz`.
const PROBES: Duration = Duration::from_millis(100);
/// Interval of a thread that only sleeps: what it wakes late is the machine's.
const WAKES: Duration = Duration::from_millis(5);
/// Interval of volumes that come and go.
const VOLUMES: Duration = Duration::from_secs(1);
/// Interval in which a namespace is made again.
const NAMESPACES: Duration = Duration::from_secs(5);

/// Longest pass, in seconds, and longest answer of all but one in a hundred.
const PASS_SECONDS: f64 = 1.0;
const ANSWER: Duration = Duration::from_millis(100);

/// Growth of a process's private memory that is no leak: stacks of idle threads, and gaps between blocks in use.
const MEMORY_KIB: u64 = 16 << 10;
/// Descriptors that a page, a pass or a probe may have open at any moment.
const OPEN_FILES: u64 = 8;
/// Threads that a pool keeps for some time, and those of a page or a pass.
const THREADS: u64 = 6;
/// Pages of the state that a store's reclaimer keeps, and of the records of the model that stays.
const BYTES: u64 = MIB;
const INODES: u64 = 8;

/// The attacks, with the namespace of each and its arguments. Slow files wait for turns of their namespace.
const ATTACKS: [(&str, &str, &[&str]); 18] = [
    ("lingering", "blue", &[]),
    ("metadata", "blue", &[]),
    ("locks", "blue", &[]),
    ("posix-locks", "blue", &[]),
    ("leases", "blue", &["--container-root"]),
    ("hoard", "blue", &[]),
    ("inodes", "blue", &[]),
    ("slow", "red", &[]),
    ("broken", "red", &[]),
    ("connections", "red", &["--container-root"]),
    ("sidecar", "blue", &[]),
    ("identities", "blue", &[]),
    ("http", "red", &[]),
    ("descriptors", "red", &[]),
    ("frames", "blue", &[]),
    ("records", "blue", &[]),
    ("headers", "red", &[]),
    ("unread", "red", &[]),
];

/// The attacks on a gateway beside the daemon.
const GATEWAY_ATTACKS: [&str; 3] = ["heads", "uploads", "windows"];

/// Times of one kind of answer.
#[derive(Default)]
struct Times(Mutex<Vec<Duration>>);

impl Times {
    fn add(&self, time: Duration) {
        self.0.lock().unwrap().push(time);
    }

    /// The time that so many of a hundred do not exceed.
    fn percentile(&self, percent: usize) -> Duration {
        let mut times = self.0.lock().unwrap().clone();
        times.sort_unstable();
        let at = (times.len() * percent).div_ceil(100).saturating_sub(1);
        times.get(at).copied().unwrap_or_default()
    }

    fn tell(&self, what: &str) {
        let number = self.0.lock().unwrap().len();
        let [median, most, worst] = [50, 99, 100].map(|percent| self.percentile(percent));
        tell(&format!(
            "{what}: {number} times, median {median:?}, 99 % {most:?}, longest {worst:?}"
        ));
    }
}

/// A namespace that is deleted and made again, by someone else each time.
struct Reborn {
    times: u64,
    pod: Option<Pod>,
    last: Instant,
}

impl Reborn {
    /// Makes it anew when it is time, and looks for anything of its predecessor.
    fn turn(&mut self, node: &Node) {
        if self.pod.is_some() && self.last.elapsed() < NAMESPACES {
            return;
        }
        self.times += 1;
        node.api.make("reborn");
        let pod = node.passing_pod("reborn", &format!("reborn-{}", self.times));
        node.publish(&pod);
        let counts = files(&pod.volume.join("objects-v1"));
        assert_eq!(
            counts,
            (0, 0),
            "a namespace found its predecessor's objects"
        );
        let path = pod.scratch.join("model");
        model::write(&path, self.times, 256 << 10).unwrap();
        let options = LoadOptions::default().with_min_shared_bytes(0);
        let agent = Agent::open_store(&pod.volume).unwrap();
        drop(agent.load_with(&path, &options).unwrap());
        if let Some(before) = self.pod.replace(pod) {
            node.unpublish(&before);
        }
        self.last = Instant::now();
    }
}

fn duration() -> Duration {
    let seconds = std::env::var("TETRIS_SOAK_SECONDS");
    Duration::from_secs(seconds.map_or(60, |seconds| seconds.parse().unwrap()))
}

#[test]
fn all_attacks_at_once_cost_a_victim_nothing_and_leave_nothing() {
    let options = Options {
        size_mib: Some(512),
        has_shipped_limits: true,
        ..Options::default()
    };
    let (Some(mut node), Some(mut gateway)) = (Node::start(&options), Gateway::start()) else {
        return;
    };
    for (name, namespace, more) in ATTACKS {
        // Root of its containers owns what root of the node owns, as before idmapped mounts.
        if more.contains(&"--container-root") {
            node.api.set_own_users(namespace, name);
        }
    }
    let keeper = node.pod("keeper", "keeper", victim::USER + 1);
    let mut keeps = Victim::start(&keeper, Duration::from_hours(24));
    keeps.loads(&node, 1);
    let before = warmed_up(&mut node);

    let green = node.pod("green", "victim", victim::USER);
    let all = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    fs::set_permissions(&green.scratch, all).unwrap();
    let models = green.scratch.display().to_string();
    // Each beside the other, as later.
    let mut client = GatewayVictim::start(gateway.address);
    let mut victim = Victim::start(&green, LOADS);
    victim.loads(&node, LOADS_ALONE);
    client.requests(REQUESTS_ALONE);
    let mut pods = vec![green];
    let mut attackers = Vec::new();
    for (user, (name, namespace, more)) in (4711..).zip(ATTACKS) {
        let pod = node.pod(namespace, name, user);
        let mut more = more.to_vec();
        if name == "sidecar" {
            more.extend(["--models", &models]);
        }
        attackers.push((
            name,
            Attacker::start_with(Priority::Idle, &node, &pod, name, &more),
        ));
        pods.push(pod);
    }
    for name in GATEWAY_ATTACKS {
        attackers.push((
            name,
            Attacker::of_gateway(gateway.address, name, Priority::Idle),
        ));
    }
    let watches: Vec<_> = node
        .process_ids()
        .into_iter()
        .map(|(name, id)| (name, MemoryWatch::start(id)))
        .chain([("gateway", gateway.watch())])
        .collect();

    let [probes, volumes, wakes] = std::array::from_fn(|_| Times::default());
    let mut reborn = Reborn {
        times: 0,
        pod: None,
        last: Instant::now(),
    };
    let passes_before = node.page("/metrics").unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // An assertion that fails ends the others as well.
        let ends = Ends(&is_over);
        let (node, over) = (&node, &is_over);
        scope.spawn(|| at_intervals(over, PROBES, || probe(node, &probes)));
        scope.spawn(|| {
            at_intervals(over, Duration::ZERO, || wake(&wakes));
        });
        let passing = node.passing_pod("green", "passing");
        let volumes = &volumes;
        scope.spawn(move || {
            at_intervals(over, VOLUMES, || {
                volumes.add(node.publish(&passing));
                volumes.add(node.unpublish(&passing));
            });
        });
        let until = Instant::now() + duration();
        while Instant::now() < until && !is_over.load(Ordering::Relaxed) {
            victim.look(node);
            client.look();
            gateway.require_running();
            for (_, attacker) in &mut attackers {
                attacker.look();
            }
            reborn.turn(node);
            std::thread::sleep(Duration::from_millis(50));
        }
        drop(ends);
    });
    let passes_after = node.page("/metrics").unwrap();
    for (_, attacker) in &mut attackers {
        attacker.end();
    }
    // While the attacks end, too.
    for (name, attacker) in attackers {
        let skipped = attacker.skipped.clone();
        let (rounds, counts) = attacker.stop();
        tell(&format!("{name}: {rounds} rounds: {counts:?}"));
        assert!(rounds > 0 || skipped.is_some(), "{name} made no round");
    }
    let took = victim.stop(&node);
    tell(&format!(
        "{} loads of the victim, the longest {:?}",
        took.len(),
        took.iter().max().unwrap()
    ));
    tell_ratio("loads", &took, LOADS_ALONE);
    let answers = client.stop();
    tell_ratio("requests", &answers, REQUESTS_ALONE);
    let answers = Times(Mutex::new(answers));
    for (name, watch) in watches {
        tell(&format!("{name}: at most {} bytes", watch.stop()));
    }
    answers.tell("requests to the gateway");
    probes.tell("/healthz");
    wakes.tell("delays of a thread that only sleeps");
    volumes.tell("publishing and unpublishing a volume");
    let longest = longest_pass(&passes_before, &passes_after);
    tell(&format!("passes: none longer than {longest} s"));
    // The latter were made again after the beginning.
    for (namespace, times) in [("keeper", 1), ("green", 2), ("blue", 2), ("red", 2)] {
        let damaged = damaged(&node.store(namespace, times));
        assert!(damaged.is_empty(), "{namespace}: {damaged:?}");
    }
    pods.extend(reborn.pod);
    leave(&mut node, &pods);
    require_returned(&mut node, &before);
    gateway.memory_returns();
    keeps.stop(&node);
    if std::env::var_os("TETRIS_SOAK_TIMES").is_some() {
        assert!(longest <= PASS_SECONDS, "a pass took up to {longest} s");
        assert!(probes.percentile(99) <= ANSWER);
        assert!(volumes.percentile(99) <= ANSWER);
    }
    node.stop();
}

/// Prints the median beside the attacks, and how much longer that is than the median of the first times, before them.
fn tell_ratio(what: &str, times: &[Duration], alone: usize) {
    let (alone, beside) = times.split_at(alone);
    let median = |times: &[Duration]| Times(Mutex::new(times.to_vec())).percentile(50);
    let (alone, beside) = (median(alone), median(beside));
    let ratio = beside.as_secs_f64() / alone.as_secs_f64();
    tell(&format!(
        "{what} of victims: median {alone:?} alone, {beside:?} beside the attacks, {ratio:.2} x"
    ));
}

/// Ends the threads beside, also when this one fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn at_intervals(over: &AtomicBool, interval: Duration, mut action: impl FnMut()) {
    // A failure here is the end for all.
    let _ends = Ends(over);
    while !over.load(Ordering::Relaxed) {
        let begun = Instant::now();
        action();
        std::thread::sleep(interval.saturating_sub(begun.elapsed()));
    }
}

fn wake(delays: &Times) {
    let begun = Instant::now();
    std::thread::sleep(WAKES);
    delays.add(begun.elapsed().saturating_sub(WAKES));
}

fn probe(node: &Node, times: &Times) {
    let begun = Instant::now();
    let answer = node.page("/healthz").unwrap();
    assert!(
        answer.starts_with("HTTP/1.1 200"),
        "{answer}: {}",
        node.log()
    );
    times.add(begun.elapsed());
}

/// Usage after another namespace was there and went, so that what a daemon keeps for good is in it.
fn warmed_up(node: &mut Node) -> Usage {
    let pods: Vec<_> = ["blue", "green", "red"]
        .iter()
        .map(|namespace| node.pod(namespace, &format!("warm-{namespace}"), 4000))
        .collect();
    for pod in &pods {
        let mut warm = Victim::start(pod, Duration::from_millis(50));
        warm.loads(node, 3);
        warm.stop(node);
    }
    leave(node, &pods);
    for namespace in ["blue", "green", "red"] {
        node.api.make(namespace);
    }
    node.usage()
}

/// Takes the volumes away, removes their namespaces, and waits until their stores are gone.
fn leave(node: &mut Node, pods: &[Pod]) {
    for pod in pods {
        node.unpublish(pod);
    }
    for namespace in ["blue", "green", "red", "reborn"] {
        node.api.remove(namespace);
    }
    node.eventually("the stores of namespaces that are gone go", |node| {
        let stores = fs::read_dir(node.stores()).unwrap().flatten();
        let names = stores.map(|entry| entry.file_name().into_string().unwrap());
        names.filter(|name| !name.starts_with("keeper.")).count() == 0
    });
}

/// Waits until memory, descriptors, threads and the tmpfs are where they were.
fn require_returned(node: &mut Node, before: &Usage) {
    let returned = |node: &Node| {
        let now = node.usage();
        let processes = before.processes.iter().all(|(name, before)| {
            let now = &now.processes[name];
            now.memory_kib <= before.memory_kib + MEMORY_KIB
                && now.open_files <= before.open_files + OPEN_FILES
                && now.threads <= before.threads + THREADS
        });
        processes && now.bytes <= before.bytes + BYTES && now.inodes <= before.inodes + INODES
    };
    let deadline = Instant::now() + Duration::from_mins(2);
    while !returned(node) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(100));
    }
    let now = node.usage();
    tell(&format!("before: {before:?}\nafter: {now:?}"));
    assert!(
        returned(node),
        "before {before:?}, now {now:?}: {}",
        node.log()
    );
}

/// The smallest bound of the histogram that no pass between two pages exceeded.
fn longest_pass(before: &str, after: &str) -> f64 {
    let bucket = "tetris_pass_duration_seconds_bucket";
    let number = |page: &str, bound: &str| -> f64 {
        let label = format!("le=\"{bound}\"");
        let buckets = values(page, bucket).filter(|(labels, _)| labels.contains(&label));
        buckets.map(|(_, value)| value).sum()
    };
    let passes = |bound: &str| number(after, bound) - number(before, bound);
    let all = passes("+Inf");
    tell(&format!("{all} passes"));
    let mut bounds: Vec<(f64, String)> = values(after, bucket)
        .filter_map(|(labels, _)| {
            let bound = labels.split("le=\"").nth(1)?.split('"').next()?;
            Some((bound.parse().ok()?, bound.to_owned()))
        })
        .collect();
    bounds.sort_by(|one, other| one.0.total_cmp(&other.0));
    let longest = bounds.iter().find(|(_, name)| passes(name) >= all);
    longest.map_or(f64::INFINITY, |(bound, _)| *bound)
}
