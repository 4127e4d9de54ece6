//! The body of a request, held until an instance is picked: a slow client occupies none.

use super::inbound::{End, Wire};
use super::wire::{HttpBody, Part};
use crate::problem::Problem;
use crate::proxy::{Bodies, BodyCharge, Payer};

/// Memory of a part besides the bytes of its message: its place in a list that grows by doubling, and their owner.
const PART: usize = 256;

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

impl NotHeld {
    /// The end of a stream during a body.
    pub(super) fn of(end: End, bodies: &Bodies) -> Self {
        match end {
            End::TooLarge { found, .. } => Self::Refused(bodies.too_large(found as u64)),
            End::Refused(problem) => Self::Refused(problem),
            End::Left | End::Broken(_) => Self::Ended(end),
        }
    }
}

/// Reads a body whose parts the data plane gets back.
pub(super) async fn read(wire: &mut Wire, bodies: &Bodies, payer: Payer) -> Result<Held, NotHeld> {
    let mut parts = Held::default();
    let (mut length, mut memory) = (0_usize, 0_usize);
    loop {
        let message = wire.next_paced().await;
        let message = message.map_err(|end| NotHeld::of(end, bodies))?;
        if message.part.is_of_response() {
            wire.put_back(message);
            return Err(NotHeld::Answered);
        }
        match message.part {
            Part::RequestBody(part) => {
                // An empty part costs memory as well.
                length = length.saturating_add(part.body.len().max(size_of::<HttpBody>()));
                if length > bodies.most() {
                    return Err(NotHeld::Refused(bodies.too_large(length as u64)));
                }
                memory = memory
                    .saturating_add(PART)
                    .saturating_add(message.uncharged);
                let paid = bodies.pay(&mut parts.budget, payer, memory);
                paid.map_err(NotHeld::Refused)?;
                let ended = part.end_of_stream;
                parts.parts.push(part);
                if ended {
                    return Ok(parts);
                }
            }
            Part::RequestTrailers(_) => {
                parts.trailers = true;
                return Ok(parts);
            }
            _ => {
                let end = End::wrong("expected a part of the body, found another head");
                return Err(NotHeld::Ended(end));
            }
        }
    }
}
