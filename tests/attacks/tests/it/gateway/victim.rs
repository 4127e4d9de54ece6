//! A client that sends requests all the time, each on its own connection.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tetris_attacks::gateway::FUNCTIONS;
use tetris_hostile::clients::connect;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::runtime::Builder;

use super::instances::ANSWER;
use crate::node::PATIENCE;

const FROM: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 9);
/// Length of a request's body, in bytes.
const BODY: usize = 10 << 10;

pub struct GatewayVictim {
    is_over: Arc<AtomicBool>,
    answers: Receiver<Result<Duration, String>>,
    thread: JoinHandle<()>,
    /// Times of all requests.
    pub took: Vec<Duration>,
}

/// Pause of the victim between two requests.
const REQUESTS: Duration = Duration::from_millis(20);

impl GatewayVictim {
    pub fn start(gateway: SocketAddr) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&is_over);
        let (answered, answers) = channel();
        let thread = std::thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            while !ends.load(Ordering::Relaxed) {
                // The node's victim has the same processors.
                std::thread::sleep(REQUESTS);
                let asked = async { tokio::time::timeout(PATIENCE, ask(gateway)).await };
                let asked = runtime.block_on(asked);
                let outcome = asked.unwrap_or_else(|_| Err("no answer in time".to_owned()));
                let has_failed = outcome.is_err();
                if answered.send(outcome).is_err() || has_failed {
                    return;
                }
            }
        });
        Self {
            is_over,
            answers,
            thread,
            took: Vec::new(),
        }
    }

    /// Waits for further requests.
    ///
    /// # Panics
    /// When one is not answered.
    pub fn requests(&mut self, number: usize) {
        for _ in 0..number {
            let answer = self.answers.recv().unwrap();
            self.took
                .push(answer.unwrap_or_else(|error| panic!("{error}")));
        }
    }

    /// Looks at the requests that there were by now.
    pub fn look(&mut self) {
        let answers = self.answers.try_iter();
        self.took
            .extend(answers.map(|answer| answer.unwrap_or_else(|error| panic!("{error}"))));
    }

    /// Ends it. Returns the times of all requests.
    pub fn stop(mut self) -> Vec<Duration> {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
        let answers = self.answers.try_iter();
        self.took
            .extend(answers.map(|answer| answer.unwrap_or_else(|error| panic!("{error}"))));
        self.took
    }
}

/// Sends a request. Returns the time until it was answered.
async fn ask(gateway: SocketAddr) -> Result<Duration, String> {
    let begun = Instant::now();
    let answer = answer(gateway)
        .await
        .map_err(|error| format!("the victim: {error}"))?;
    let is_right = answer.starts_with("HTTP/1.1 200") && answer.ends_with(ANSWER);
    is_right
        .then(|| begun.elapsed())
        .ok_or_else(|| format!("the victim's answer: {answer}"))
}

async fn answer(gateway: SocketAddr) -> std::io::Result<String> {
    let mut stream = connect(FROM, gateway).await?;
    let head = format!(
        "POST /functions/{}/v2/models/m/infer HTTP/1.1\r\nhost: g\r\nconnection: close\r\ncontent-length: {BODY}\r\n\r\n",
        FUNCTIONS.victim
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(&vec![b' '; BODY]).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}
