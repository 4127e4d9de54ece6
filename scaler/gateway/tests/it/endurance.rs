//! At least 100,000 requests through two gateways, while instances are killed, hang, are slow and lie, and
//! instances and gateways are replaced: no request fails that had not begun.
//!
//! A request has begun when a gateway has sent it to an instance, or when the gateway that had it was
//! killed. Requests go on until all faults are over; faults come after numbers of answers, not after
//! times.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use nix::sys::signal::Signal;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::gateway::function;
use crate::port::Port;
use crate::replica::{Replica, free_address};
use crate::server::Server;

const REQUESTS: u64 = 100_000;
const CLIENTS: u64 = 48;
const INSTANCES: usize = 6;
const CONCURRENCY: u32 = 8;
/// The gateways' timeout for a response.
const HANG: &str = "2s";

/// Instances that count each request that they see.
#[derive(Default)]
struct Ground {
    /// Instances that have seen a request, by its number.
    seen: Mutex<HashMap<u64, usize>>,
    /// Requests that were seen twice.
    twice: AtomicU64,
    /// Milliseconds that each instance takes; the largest number for one that never answers.
    takes_ms: [AtomicU64; INSTANCES],
}

fn serve(ground: &Arc<Ground>, number: usize, port: Port) -> Server {
    let ground = Arc::clone(ground);
    Server::start(port, move |request| {
        answer(Arc::clone(&ground), number, request)
    })
}

async fn answer(
    ground: Arc<Ground>,
    number: usize,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let id = request.headers()["x-number"]
        .to_str()
        .unwrap()
        .parse()
        .unwrap();
    request.into_body().collect().await?;
    if ground.seen.lock().unwrap().insert(id, number).is_some() {
        ground.twice.fetch_add(1, Ordering::Relaxed);
    }
    match ground.takes_ms[number].load(Ordering::Relaxed) {
        u64::MAX => std::future::pending().await,
        0 => {}
        ms => tokio::time::sleep(Duration::from_millis(ms)).await,
    }
    Ok(Response::new(Full::new(Bytes::from(id.to_string()))))
}

/// Results of all clients.
#[derive(Default)]
struct Results {
    asked: AtomicU64,
    answered: AtomicU64,
    /// True once the faults are over.
    over: AtomicBool,
    /// Status of each request that was answered with another one than 200.
    failed: Mutex<HashMap<u64, u16>>,
    /// Requests whose connection to a gateway ended without an answer.
    cut: Mutex<HashSet<u64>>,
}

/// Asks one gateway, and the other one where nothing was sent or a connection was cut off. A gateway
/// that is being killed may take connections for a moment still, and cut them off as well.
async fn clients(replicas: [SocketAddr; 2], client: u64, results: Arc<Results>) {
    let mut at = client as usize;
    let mut connection: Option<SendRequest<Full<Bytes>>> = None;
    while !results.over.load(Ordering::Relaxed) || results.asked.load(Ordering::Relaxed) < REQUESTS
    {
        let id = results.asked.fetch_add(1, Ordering::Relaxed);
        loop {
            let known = connection.take().filter(|open| !open.is_closed());
            let open = match known {
                Some(open) => Some(open),
                None => connect(replicas[at % 2]).await,
            };
            let Some(mut open) = open else {
                at += 1;
                tokio::time::sleep(Duration::from_millis(1)).await;
                continue;
            };
            if open.ready().await.is_err() {
                continue;
            }
            let request = Request::post("/functions/embed/x")
                .header("host", "g")
                .header("x-number", id);
            match open
                .try_send_request(request.body(Full::new(Bytes::from_static(b"{}"))).unwrap())
                .await
            {
                Ok(response) => {
                    let (parts, body) = response.into_parts();
                    let Ok(body) = body.collect().await else {
                        results.cut.lock().unwrap().insert(id);
                        at += 1;
                        break;
                    };
                    if parts.status == 200 {
                        assert_eq!(
                            body.to_bytes(),
                            id.to_string(),
                            "the answer to another request"
                        );
                    } else {
                        let status = parts.status.as_u16();
                        results.failed.lock().unwrap().insert(id, status);
                    }
                    if parts
                        .headers
                        .get("connection")
                        .is_some_and(|value| value == "close")
                    {
                        // It asks to be left.
                        at += 1;
                    } else {
                        connection = Some(open);
                    }
                    break;
                }
                Err(error) if error.message().is_some() => {}
                Err(_) => {
                    results.cut.lock().unwrap().insert(id);
                    at += 1;
                    break;
                }
            }
        }
        results.answered.fetch_add(1, Ordering::Relaxed);
    }
}

async fn connect(address: SocketAddr) -> Option<SendRequest<Full<Bytes>>> {
    let stream = TcpStream::connect(address).await.ok()?;
    stream.set_nodelay(true).ok()?;
    let (sender, connection) = handshake(TokioIo::new(stream)).await.ok()?;
    tokio::spawn(connection);
    Some(sender)
}

struct Faults {
    ground: Arc<Ground>,
    /// Instances that run.
    servers: Vec<Option<Server>>,
    /// Ports of those that were killed.
    ports: [Option<Port>; INSTANCES],
    addresses: Vec<SocketAddr>,
    replicas: [Replica; 2],
    path: std::path::PathBuf,
    results: Arc<Results>,
}

impl Faults {
    /// Waits for as many more answers.
    async fn after(&self, answers: u64) {
        let until = self.results.answered.load(Ordering::Relaxed) + answers;
        while self.results.answered.load(Ordering::Relaxed) < until {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Ends an instance. Its port stays its own.
    async fn kill(&mut self, number: usize) {
        let server = self.servers[number].take().unwrap();
        self.ports[number] = Some(server.kill().await);
    }

    /// Starts an instance again that was killed.
    fn serve(&mut self, number: usize) {
        let port = self.ports[number].take().unwrap();
        self.servers[number] = Some(serve(&self.ground, number, port));
    }

    fn takes(&self, number: usize, ms: u64) {
        self.ground.takes_ms[number].store(ms, Ordering::Relaxed);
    }

    /// Replaces an instance as a rolling update does: it drains, ends, and another one starts.
    async fn replace(&mut self, number: usize) {
        std::fs::write(&self.path, text(&self.addresses, Some(number))).unwrap();
        for replica in &self.replicas {
            while !replica
                .page("/metrics")
                .await
                .contains("state=\"draining\"} 1")
            {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
        let name = self.addresses[number].to_string();
        for replica in &self.replicas {
            while outstanding(&replica.page("/loads").await, &name) > 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
        self.kill(number).await;
        self.serve(number);
        std::fs::write(&self.path, text(&self.addresses, None)).unwrap();
        for replica in &self.replicas {
            while !replica
                .page("/metrics")
                .await
                .contains("state=\"draining\"} 0")
            {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    }

    async fn restart(&mut self, number: usize, signal: Signal) {
        let replica = &mut self.replicas[number];
        replica.signal(signal);
        replica.ended().await;
        let (address, own) = (replica.address, replica.own);
        *replica = Replica::start(&self.path, address, own);
        replica.ready().await;
    }
}

/// Text of the gateways' file.
fn text(addresses: &[SocketAddr], draining: Option<usize>) -> String {
    let mut text = format!("[timeouts]\nresponse = \"{HANG}\"\nfarewell = \"1s\"\n");
    text += &function("embed", "queue = 100000", addresses, CONCURRENCY).replace("100ms", "5ms");
    if let Some(number) = draining {
        let address = format!("address = \"{}\"", addresses[number]);
        text = text.replace(&address, &format!("{address}\ndrain = true"));
    }
    text
}

fn outstanding(page: &str, name: &str) -> u64 {
    let page: serde_json::Value = serde_json::from_str(page).unwrap();
    let instances = page["functions"][0]["instances"]
        .as_array()
        .unwrap()
        .clone();
    let instance = instances.iter().find(|instance| instance["pod"] == name);
    instance.map_or(0, |entry| entry["outstanding"].as_u64().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_request_fails_that_had_not_begun() {
    let ground = Arc::new(Ground::default());
    let mut servers = Vec::new();
    for number in 0..INSTANCES {
        servers.push(Some(serve(&ground, number, Port::take())));
    }
    let addresses: Vec<_> = servers.iter().flatten().map(Server::address).collect();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gateway.toml");
    std::fs::write(&path, text(&addresses, None)).unwrap();
    let results = Arc::new(Results::default());
    let first = Replica::start(&path, free_address(), free_address());
    let second = Replica::start(&path, free_address(), free_address());
    let mut faults = Faults {
        ground: Arc::clone(&ground),
        servers,
        ports: Default::default(),
        addresses,
        replicas: [first, second],
        path,
        results: Arc::clone(&results),
    };
    for replica in &faults.replicas {
        replica.ready().await;
    }
    let replicas = [faults.replicas[0].address, faults.replicas[1].address];
    let mut asking = JoinSet::new();
    for number in 0..CLIENTS {
        asking.spawn(clients(replicas, number, Arc::clone(&results)));
    }

    // Killed, and away for a time although the gateways' file claims that it is there.
    faults.after(5_000).await;
    faults.kill(0).await;
    faults.after(10_000).await;
    faults.serve(0);
    // Hung, until all of its requests are given up.
    faults.takes(1, u64::MAX);
    faults.after(10_000).await;
    faults.takes(1, 0);
    let name = faults.addresses[1].to_string();
    for replica in &faults.replicas {
        while outstanding(&replica.page("/loads").await, &name) > CONCURRENCY.into() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    faults.after(5_000).await;
    faults.takes(2, 30);
    faults.after(5_000).await;
    faults.takes(2, 0);
    tokio::time::sleep(Duration::from_secs(3)).await;
    let begun = results.failed.lock().unwrap().clone();
    // Updates: nothing fails from here on.
    for number in 0..INSTANCES {
        faults.replace(number).await;
    }
    faults.restart(0, Signal::SIGTERM).await;
    faults.after(2_000).await;
    faults.restart(1, Signal::SIGTERM).await;
    faults.after(2_000).await;
    let cut_before: HashSet<u64> = results.cut.lock().unwrap().clone();
    for number in 0..2 {
        faults.restart(number, Signal::SIGKILL).await;
        faults.after(2_000).await;
    }
    results.over.store(true, Ordering::Relaxed);
    while let Some(ended) = asking.join_next().await {
        ended.unwrap();
    }

    let (failed, cut) = (results.failed.lock().unwrap(), results.cut.lock().unwrap());
    let answered = results.answered.load(Ordering::Relaxed);
    println!(
        "{answered} requests: {} failed at killed and hung instances, {} were cut off with killed gateways",
        failed.len(),
        cut.len()
    );
    assert!(answered >= REQUESTS);
    assert_eq!(
        ground.twice.load(Ordering::Relaxed),
        0,
        "no request is sent twice"
    );
    assert!(
        cut_before.is_empty(),
        "{cut_before:?} were cut off by gateways that were not killed"
    );
    assert!(
        cut.len() as u64 <= 2 * CLIENTS,
        "more than each client had at the killed gateways: {}",
        cut.len()
    );
    let later: Vec<_> = failed
        .iter()
        .filter(|(id, _)| !begun.contains_key(id))
        .collect();
    assert!(later.is_empty(), "updates failed requests: {later:?}");
    for (id, status) in failed.iter() {
        // Broken off or given up: sent. All others had not begun.
        assert!(
            [502, 504].contains(status),
            "request {id} had not begun, and got {status}"
        );
    }
    // Those that an instance had when it was killed or hung, at each of two gateways, and those on probation.
    let most = 2 * 2 * CONCURRENCY as usize + 8;
    assert!(failed.len() <= most, "{failed:?}");
}
