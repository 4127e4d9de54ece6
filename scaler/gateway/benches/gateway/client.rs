//! Clients: connections that send one request after the other, or requests at random times.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::task::JoinSet;

/// A request's size is that of a short text's.
const TEXT: &[u8] = br#"{"inputs":[{"name":"text","shape":[1],"datatype":"BYTES","data":["one copy of every tensor, however many processes use it"]}]}"#;
/// Tokens of a text like that.
const TOKENS: &[u8] = br#"{"inputs":[{"name":"input_ids","shape":[1,12],"datatype":"INT64","data":[101,2028,6100,1997,2296,23435,1010,2174,2116,6194,2224,102]},{"name":"attention_mask","shape":[1,12],"datatype":"INT64","data":[1,1,1,1,1,1,1,1,1,1,1,1]}]}"#;

/// Body of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question {
    /// For instances that compute nothing.
    Text,
    /// For a text encoder without a tokenizer.
    Tokens,
}

impl Question {
    const fn body(self) -> &'static [u8] {
        match self {
            Self::Text => TEXT,
            Self::Tokens => TOKENS,
        }
    }
}

pub type Connection = SendRequest<Full<Bytes>>;

pub async fn connect(address: SocketAddr) -> Result<Connection> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (sender, connection) = handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    Ok(sender)
}

pub async fn ask(connection: &mut Connection, question: Question) -> Result<StatusCode> {
    connection.ready().await?;
    let request = Request::post("/v2/models/m/infer").header("host", "gateway");
    let request = request
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from_static(question.body())))?;
    let response = connection.send_request(request).await?;
    let status = response.status();
    response.into_body().collect().await?;
    Ok(status)
}

/// Asks on `count` connections without a pause for a time; returns the number of answers.
pub async fn closed(
    address: SocketAddr,
    count: usize,
    time: Duration,
    question: Question,
) -> Result<u64> {
    let until = Instant::now() + time;
    let mut tasks = JoinSet::new();
    for _ in 0..count {
        tasks.spawn(async move {
            let mut connection = connect(address).await?;
            let mut answers = 0_u64;
            while Instant::now() < until {
                let status = ask(&mut connection, question).await?;
                ensure!(status == StatusCode::OK, "status {status}");
                answers += 1;
            }
            anyhow::Ok(answers)
        });
    }
    let mut all = 0;
    while let Some(answers) = tasks.join_next().await {
        all += answers??;
    }
    Ok(all)
}

/// Time from which a latency counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum From {
    /// From the time at which the request was due, so that no wait is left out.
    Due,
    /// From its sending: the client's timer has steps of a millisecond.
    Sent,
}

/// Requests at random times.
#[derive(Debug, Clone, Copy)]
pub struct Arrivals {
    /// Number of requests per second, on average.
    pub rate: f64,
    pub time: Duration,
    pub seed: u64,
    pub from: From,
    pub question: Question,
}

/// Asks at random times; returns the latency of each request in seconds, sorted. A failure counts as
/// infinite.
pub async fn open(address: SocketAddr, arrivals: Arrivals) -> Result<Vec<f64>> {
    let mut all = open_in_turn(&[address], arrivals).await?;
    Ok(all.swap_remove(0))
}

/// The same, with each request to the next one of several addresses; returns the latencies of each
/// address.
pub async fn open_in_turn(addresses: &[SocketAddr], arrivals: Arrivals) -> Result<Vec<Vec<f64>>> {
    let Arrivals {
        rate,
        time,
        seed,
        from,
        question,
    } = arrivals;
    let mut idle: Vec<Arc<Mutex<Vec<Connection>>>> = Vec::new();
    for &address in addresses {
        let mut connections = Vec::new();
        for _ in 0..32 {
            connections.push(connect(address).await?);
        }
        idle.push(Arc::new(Mutex::new(connections)));
    }
    let (begin, mut due, mut random) = (Instant::now(), Duration::ZERO, Random(seed));
    let mut tasks = JoinSet::new();
    let turns = addresses.iter().zip(&idle).enumerate().cycle();
    for (turn, (&address, idle)) in turns {
        if due >= time {
            break;
        }
        due += Duration::from_secs_f64(random.exponential() / rate);
        tokio::time::sleep_until((begin + due).into()).await;
        let idle = Arc::clone(idle);
        tasks.spawn(async move {
            let known = idle.lock().await.pop();
            let sent = begin.elapsed();
            let answered = async {
                let mut connection = match known {
                    Some(connection) => connection,
                    None => connect(address).await?,
                };
                let status = ask(&mut connection, question).await?;
                idle.lock().await.push(connection);
                anyhow::Ok(status)
            };
            let latency = match answered.await {
                Ok(StatusCode::OK) => {
                    let from = if from == From::Due { due } else { sent };
                    begin.elapsed().saturating_sub(from).as_secs_f64()
                }
                Ok(_) | Err(_) => f64::INFINITY,
            };
            (turn, latency)
        });
    }
    let mut latencies = vec![Vec::new(); addresses.len()];
    while let Some(asked) = tasks.join_next().await {
        let (turn, latency) = asked?;
        latencies[turn].push(latency);
    }
    for of_address in &mut latencies {
        of_address.sort_by(f64::total_cmp);
    }
    Ok(latencies)
}

/// Numbers that follow from a seed (xorshift64*): every proxy gets the same arrivals.
struct Random(u64);

impl Random {
    /// An exponential number of mean 1.
    fn exponential(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let bits = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11;
        -(1.0 - bits as f64 / (1_u64 << 53) as f64).ln()
    }
}

/// The value at a percentile of sorted values.
pub fn percentile(sorted: &[f64], percent: f64) -> f64 {
    let at = (sorted.len() as f64 * percent / 100.0).ceil() as usize;
    sorted.get(at.max(1) - 1).copied().unwrap_or(f64::NAN)
}
