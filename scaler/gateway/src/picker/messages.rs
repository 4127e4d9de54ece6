//! Messages of gRPC in the body of a call: their sizes, memory and progress are limited before anything is decoded.

use std::sync::Arc;
use std::time::Instant;

use bytes::{Buf as _, Bytes, BytesMut};
use futures::FutureExt as _;
use http_body_util::BodyExt as _;
use hyper::body::Body;
use tetris_service_kit::pace::{Pace, Progress};
use tonic::Status;

use crate::problem::Problem;
use crate::proxy::{BodyCharge, Payer, Proxy};
use crate::server::{Held, Ledger, too_much_memory};

/// Bytes before each message: a flag and its length.
pub(super) const PREFIX: usize = 5;
/// Largest space made for a message before it comes.
const AT_ONCE: usize = 64 << 10;

/// A message.
#[derive(Debug)]
pub(super) struct Raw {
    /// Its bytes, which are charged until the last part of them is dropped.
    pub(super) bytes: Bytes,
    /// True if it is too small for its own charge.
    pub(super) is_free: bool,
}

/// The reason there is no message.
#[derive(Debug)]
pub(super) enum Fault {
    /// The data plane has left.
    Left,
    /// A message is larger than it may be.
    TooLarge {
        found: usize,
        most: usize,
    },
    /// There is no memory, or the data plane is too slow.
    Refused(Problem),
    Broken(Box<Status>),
}

/// The time that a message may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// The least rate holds once a message has begun.
    ForBegin,
    /// The least rate holds at all times.
    Paced,
}

/// Messages of one call.
#[derive(Debug)]
pub(super) struct Messages<B> {
    body: B,
    /// A frame with bytes that are not read, and its memory.
    frame: Option<(Bytes, Held)>,
    prefix: BytesMut,
    partial: Option<Partial>,
    progress: Progress,
    proxy: Proxy,
    payer: Payer,
    ledger: Arc<Ledger>,
}

/// A message that has not come whole.
#[derive(Debug)]
struct Partial {
    length: usize,
    bytes: BytesMut,
    charge: Option<BodyCharge>,
}

/// A message with its part of the budgets.
#[derive(Debug)]
struct Charged {
    bytes: Bytes,
    _charge: BodyCharge,
}

impl AsRef<[u8]> for Charged {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl<B> Messages<B>
where
    B: Body<Data = Bytes> + Unpin,
{
    /// Messages in `body`. Frames are charged to `ledger`, messages to the data planes' part of the proxy's bodies.
    pub(super) fn new(body: B, proxy: Proxy, ledger: Arc<Ledger>) -> Self {
        let pace: Pace = proxy.bodies().pace();
        Self {
            body,
            frame: None,
            prefix: BytesMut::new(),
            partial: None,
            progress: Progress::new(pace),
            proxy,
            payer: Payer::data_planes(),
            ledger,
        }
    }

    /// Charges messages to `payer` from now on.
    pub(super) const fn set_payer(&mut self, payer: Payer) {
        self.payer = payer;
    }

    /// Reads the next message of at most `most` bytes. No byte is lost if the future is dropped.
    pub(super) async fn next(&mut self, most: usize, wait: Wait) -> Result<Raw, Fault> {
        loop {
            if let Some(message) = self.take(most)? {
                return Ok(message);
            }
            let Some(bytes) = self.read(wait).await? else {
                if self.has_begun() {
                    let status = Status::invalid_argument("the stream ended within a message");
                    return Err(Fault::Broken(Box::new(status)));
                }
                return Err(Fault::Left);
            };
            let held_bytes = self.ledger.hold(bytes.len());
            let charge =
                held_bytes.map_err(|exceeded| Fault::Refused(too_much_memory(exceeded)))?;
            self.frame = Some((bytes, charge));
        }
    }

    fn has_begun(&self) -> bool {
        self.partial.is_some() || !self.prefix.is_empty()
    }

    /// Reads a frame of the call's body.
    async fn read(&mut self, wait: Wait) -> Result<Option<Bytes>, Fault> {
        loop {
            let frame = if let Some(frame) = self.body.frame().now_or_never() {
                frame
            } else if wait == Wait::Paced || self.has_begun() {
                let until = self.progress.waits(now());
                let frame = tokio::time::timeout_at(until.into(), self.body.frame()).await;
                frame.map_err(|_| Fault::Refused(self.proxy.bodies().slow()))?
            } else {
                self.body.frame().await
            };
            let Some(frame) = frame else { return Ok(None) };
            // A reset, or the end of the connection.
            let frame = frame.map_err(|_| Fault::Left)?;
            let bytes = frame.into_data().unwrap_or_default();
            self.progress.moved(now(), bytes.len());
            if !bytes.is_empty() {
                return Ok(Some(bytes));
            }
        }
    }

    /// Takes a message from the frame, as far as it is there.
    fn take(&mut self, most: usize) -> Result<Option<Raw>, Fault> {
        let Some((frame, _)) = &mut self.frame else {
            return Ok(None);
        };
        if self.partial.is_none() {
            let missing = PREFIX.saturating_sub(self.prefix.len());
            let part = frame.split_to(missing.min(frame.len()));
            self.prefix.extend_from_slice(&part);
            if self.prefix.len() >= PREFIX {
                let length = length_of(&self.prefix, most)?;
                self.prefix = BytesMut::new();
                self.partial = Some(Partial {
                    length,
                    bytes: BytesMut::with_capacity(length.min(AT_ONCE)),
                    charge: None,
                });
            }
        }
        let mut whole = None;
        if let Some(partial) = &mut self.partial {
            let missing = partial.length.saturating_sub(partial.bytes.len());
            let part = frame.split_to(missing.min(frame.len()));
            let bodies = self.proxy.bodies();
            let length = partial.bytes.len().saturating_add(part.len());
            let paid = bodies.pay(&mut partial.charge, self.payer, length);
            paid.map_err(Fault::Refused)?;
            partial.bytes.extend_from_slice(&part);
            let space = partial.bytes.capacity();
            let paid = bodies.pay(&mut partial.charge, self.payer, space);
            paid.map_err(Fault::Refused)?;
            if partial.bytes.len() == partial.length {
                whole = self.partial.take();
            }
        }
        if frame.is_empty() {
            self.frame = None;
        }
        Ok(whole.map(Partial::into_raw))
    }
}

impl Partial {
    fn into_raw(self) -> Raw {
        let bytes = self.bytes.freeze();
        match self.charge {
            None => Raw {
                bytes,
                is_free: true,
            },
            Some(charge) => Raw {
                bytes: Bytes::from_owner(Charged {
                    bytes,
                    _charge: charge,
                }),
                is_free: false,
            },
        }
    }
}

/// Reads the length of a message.
fn length_of(mut prefix: &[u8], most: usize) -> Result<usize, Fault> {
    let compressed = prefix.try_get_u8().unwrap_or_default();
    if compressed != 0 {
        let status = Status::unimplemented(
            "expected messages without compression, found one with; send no grpc-encoding",
        );
        return Err(Fault::Broken(Box::new(status)));
    }
    let found = prefix.try_get_u32().unwrap_or(u32::MAX) as usize;
    if found > most {
        return Err(Fault::TooLarge { found, most });
    }
    Ok(found)
}

/// The time, as tests may set it.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::time::Duration;

    use futures::stream;
    use http_body_util::StreamBody;
    use hyper::body::Frame;
    use tokio::time::sleep;

    use super::*;
    use crate::config::{Limits, Timeouts};
    use crate::memory::{Memory, Sizes};
    use crate::metrics::Metrics;

    const MOST: usize = 1 << 20;

    fn proxy() -> (Proxy, Memory) {
        let limits = Limits {
            bodies_bytes: Some(MOST),
            bytes_per_second: 100,
            ..Limits::default()
        };
        let memory = Memory::new(Sizes::of(&limits, None));
        let (timeouts, metrics) = (Timeouts::default(), Metrics::new());
        let proxy = Proxy::new(&limits, timeouts, metrics, memory.clone());
        (proxy, memory)
    }

    /// Messages in frames that come one after the other, each after a pause.
    fn messages(
        proxy: &Proxy,
        frames: Vec<Vec<u8>>,
        pause: Duration,
    ) -> Messages<impl Body<Data = Bytes> + Unpin> {
        let pace = proxy.bodies().pace();
        let heads = &proxy.memory().heads;
        let ledger = Ledger::open(heads, [10, 0, 0, 1].into(), 1, pace).unwrap();
        let frames = stream::unfold(frames.into_iter(), move |mut frames| async move {
            let frame = frames.next()?;
            sleep(pause).await;
            let frame = Ok::<_, Infallible>(Frame::data(Bytes::from(frame)));
            Some((frame, frames))
        });
        Messages::new(StreamBody::new(Box::pin(frames)), proxy.clone(), ledger)
    }

    #[expect(clippy::big_endian_bytes, reason = "gRPC's lengths are")]
    fn prefixed(length: usize, bytes: &[u8]) -> Vec<u8> {
        [&[0], &(length as u32).to_be_bytes()[..], bytes].concat()
    }

    fn message(bytes: &[u8]) -> Vec<u8> {
        prefixed(bytes.len(), bytes)
    }

    #[tokio::test(start_paused = true)]
    async fn messages_come_whole_however_they_are_cut() {
        let (proxy, _memory) = proxy();
        let all = [message(b""), message(b"first"), message(&[7; 100])].concat();
        for size in 1..all.len() {
            let frames = all.chunks(size).map(<[u8]>::to_vec).collect();
            let mut messages = messages(&proxy, frames, Duration::ZERO);
            for expected in [&b""[..], b"first", &[7; 100]] {
                let message = messages.next(MOST, Wait::ForBegin).await.unwrap();
                assert_eq!((&message.bytes[..], message.is_free), (expected, true));
            }
            let end = messages.next(MOST, Wait::ForBegin).await;
            assert!(matches!(end, Err(Fault::Left)), "{end:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_prefix_costs_no_memory_and_a_message_costs_its_own_until_it_is_dropped() {
        let (proxy, memory) = proxy();
        let mut part = messages(&proxy, vec![prefixed(MOST, &[1; 100])], Duration::ZERO);
        let end = part.next(MOST, Wait::ForBegin).await;
        assert!(matches!(end, Err(Fault::Broken(_))), "{end:?}");
        assert!(memory.bodies.used() <= AT_ONCE, "{}", memory.bodies.used());
        drop(part);

        let frames = vec![message(&[1; 10_000])];
        let mut whole = messages(&proxy, frames, Duration::ZERO);
        let message = whole.next(MOST, Wait::ForBegin).await.unwrap();
        assert!(!message.is_free);
        drop(whole);
        let slice = message.bytes.slice(..1);
        drop(message);
        assert_eq!(memory.bodies.used(), 12 << 10);
        drop(slice);
        assert_eq!((memory.bodies.used(), memory.heads.used()), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn messages_beyond_the_limit_the_budget_or_without_meaning_are_refused() {
        let (proxy, memory) = proxy();
        let of = |frames| messages(&proxy, frames, Duration::ZERO);
        let fault = of(vec![prefixed(101, &[])]).next(100, Wait::ForBegin).await;
        let too_large = Fault::TooLarge {
            found: 101,
            most: 100,
        };
        assert_eq!(
            format!("{:?}", fault.unwrap_err()),
            format!("{too_large:?}")
        );
        let fault = of(vec![vec![1, 0, 0, 0, 0]])
            .next(100, Wait::ForBegin)
            .await;
        assert!(matches!(fault, Err(Fault::Broken(_))), "{fault:?}");
        // More than half of the budget.
        let frames = message(&vec![1; MOST * 3 / 4]);
        let frames = frames.chunks(16 << 10).map(<[u8]>::to_vec).collect();
        let mut many = of(frames);
        let Err(Fault::Refused(problem)) = many.next(MOST, Wait::ForBegin).await else {
            panic!("expected a refusal");
        };
        assert_eq!((problem.status.as_u16(), problem.reason), (503, "bodies"));
        drop(many);
        assert_eq!(memory.bodies.used(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn the_least_rate_holds_within_a_message_and_between_paced_ones() {
        let (proxy, _memory) = proxy();
        let grace = proxy.bodies().pace().grace;
        let began = tokio::time::Instant::now();
        // One byte for each half of the grace.
        let drip = |bytes: &[u8]| bytes.iter().map(|&byte| vec![byte]).collect();
        let mut slow = messages(&proxy, drip(&message(&[1; 100])), grace / 2);
        let Err(Fault::Refused(problem)) = slow.next(MOST, Wait::ForBegin).await else {
            panic!("expected a refusal");
        };
        assert_eq!(problem.status.as_u16(), 408);
        assert!(began.elapsed() < grace * 3);

        let small = || vec![message(b"1"), message(b"2"), message(b"3"), message(b"4")];
        let mut at_rest = messages(&proxy, small(), grace * 2);
        for _ in 0..4 {
            at_rest.next(MOST, Wait::ForBegin).await.unwrap();
        }
        let mut paced = messages(&proxy, small(), grace * 2 / 3);
        paced.next(MOST, Wait::Paced).await.unwrap();
        let fault = paced.next(MOST, Wait::Paced).await;
        assert!(matches!(fault, Err(Fault::Refused(_))), "{fault:?}");
    }
}
