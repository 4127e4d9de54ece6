//! Reads a worker's output without blocking the parent.

use std::io::{BufRead, BufReader, Read};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

/// Number of bytes of standard error kept for the report.
const STDERR_KEPT: usize = 4096;

/// Sends every line of a stream; the channel closes at the end of the stream.
pub fn lines(stream: impl Read + Send + 'static) -> (Receiver<String>, JoinHandle<()>) {
    let (sender, receiver) = mpsc::channel();
    let reader = thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    (receiver, reader)
}

/// The last bytes of a stream.
#[derive(Clone, Default)]
pub struct Tail(Arc<Mutex<Vec<u8>>>);

impl Tail {
    /// Reads the stream to its end and keeps its last bytes.
    pub fn follow(stream: impl Read + Send + 'static) -> (Self, JoinHandle<()>) {
        let tail = Self::default();
        let copy = tail.clone();
        let reader = thread::spawn(move || {
            let mut stream = stream;
            let mut buffer = [0; 1024];
            while let Ok(count @ 1..) = stream.read(&mut buffer) {
                let mut kept = copy.0.lock().unwrap_or_else(PoisonError::into_inner);
                kept.extend_from_slice(&buffer[..count]);
                let excess = kept.len().saturating_sub(STDERR_KEPT);
                kept.drain(..excess);
            }
        });
        (tail, reader)
    }

    /// The bytes kept so far, as text.
    pub fn text(&self) -> String {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&kept).into_owned()
    }
}
