//! The body of a request, held until an instance is picked: a slow client occupies none.

use std::time::Instant;

use tetris_service_kit::pace::Progress;

use super::inbound::{End, Wire};
use super::wire::{HttpBody, Part};
use crate::problem::Problem;
use crate::proxy::{Bodies, BodyCharge, Payer};

/// A body as it came.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// Its parts.
    pub(super) parts: Vec<HttpBody>,
    /// True if trailers follow it.
    pub(super) trailers: bool,
    budget: Option<BodyCharge>,
}

/// The reason there is no body.
#[derive(Debug)]
pub(super) enum NotHeld {
    /// The client gets an error.
    Refused(Problem),
    /// The data plane has answered the client itself; the next message is of that answer.
    Answered,
    /// The stream ended.
    Ended(End),
}

impl From<End> for NotHeld {
    fn from(end: End) -> Self {
        Self::Ended(end)
    }
}

/// Reads a body whose parts the data plane gets back.
pub(super) async fn read(wire: &mut Wire, bodies: &Bodies, payer: Payer) -> Result<Held, NotHeld> {
    let mut held = Held::default();
    let mut length = 0_usize;
    let mut progress = Progress::new(bodies.pace());
    loop {
        let left = progress.waits(now()).saturating_duration_since(now());
        let Some(message) = wire.next_within(left).await? else {
            return Err(NotHeld::Refused(bodies.slow()));
        };
        if message.part.is_of_response() {
            wire.put_back(message);
            return Err(NotHeld::Answered);
        }
        match message.part {
            Part::RequestBody(part) => {
                progress.moved(now(), part.body.len());
                // An empty part costs memory as well.
                length = length.saturating_add(part.body.len().max(size_of::<HttpBody>()));
                if length > bodies.most() {
                    return Err(NotHeld::Refused(bodies.too_large(length as u64)));
                }
                let paid = bodies.pay(&mut held.budget, payer, length);
                paid.map_err(NotHeld::Refused)?;
                let ended = part.end_of_stream;
                held.parts.push(part);
                if ended {
                    return Ok(held);
                }
            }
            Part::RequestTrailers(_) => {
                held.trailers = true;
                return Ok(held);
            }
            _ => return Err(End::wrong("expected a part of the body, found another head").into()),
        }
    }
}

/// The time, as tests may set it.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
