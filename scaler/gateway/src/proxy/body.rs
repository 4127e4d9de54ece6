//! Bodies of requests: read whole before an instance is asked for, within limits.

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use futures::FutureExt as _;
use http_body_util::BodyExt as _;
use hyper::StatusCode;
use hyper::body::{Body as _, Frame, Incoming};
use hyper::http::request::Parts;
use tetris_service_kit::budget::{Budget, Charge, Exceeded};
use tetris_service_kit::pace::{Pace, Progress};

use crate::client_address::ClientAddress;
use crate::function::Function;
use crate::memory::{self, Memory};
use crate::problem::{Problem, shortened};

/// Bytes by which a charge grows.
const UNIT: usize = 4 << 10;
/// Largest body that is part of its head's charge.
const SMALL: usize = 1 << 10;

/// Largest space made for a body before it comes.
const AT_ONCE: usize = 64 << 10;

/// Part of the budget up to which a client has little: one of so many.
const LITTLE: usize = 64;

/// Owners of a body: its client, and its function once that is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Payer {
    client: IpAddr,
    function: Option<u64>,
}

impl Payer {
    /// The client, without a function.
    pub(crate) fn client(client: ClientAddress) -> Self {
        Self {
            client: memory::client(client.0.ip()),
            function: None,
        }
    }

    /// Data planes, together: they do not say for which client.
    pub(crate) const fn data_planes() -> Self {
        Self {
            client: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            function: None,
        }
    }

    /// The client, and `function`.
    pub(crate) fn and(self, function: &Function) -> Self {
        Self {
            function: Some(function.number()),
            ..self
        }
    }
}

/// Memory of a body in the budgets of its owners.
#[derive(Debug)]
pub(crate) struct BodyCharge {
    client: Charge<IpAddr>,
    function: Option<Charge<u64>>,
}

/// A read body, with its part of the budgets.
#[derive(Debug)]
pub(super) struct WholeBody {
    pub(super) bytes: Bytes,
    charge: Option<BodyCharge>,
}

impl WholeBody {
    /// Returns the bytes, which are charged until the last copy of them is dropped.
    pub(super) fn into_bytes(self) -> Bytes {
        if self.charge.is_none() {
            return self.bytes;
        }
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for WholeBody {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Limits of bodies.
#[derive(Debug)]
pub(crate) struct Bodies {
    most: usize,
    pace: Pace,
    by_client: Budget<IpAddr>,
    by_function: Budget<u64>,
}

impl Bodies {
    /// Limits each body to `most` bytes and its client to `pace`, and all that are in memory to the budgets of
    /// `memory`.
    pub(super) fn new(most: usize, pace: Pace, memory: &Memory) -> Self {
        Self {
            most,
            pace,
            by_client: memory.bodies.clone(),
            by_function: memory.by_function.clone(),
        }
    }

    /// Largest size of a body, in bytes.
    pub(crate) const fn most(&self) -> usize {
        self.most
    }

    /// Reads a body.
    pub(super) async fn read(
        &self,
        parts: &Parts,
        mut body: Incoming,
        payer: Payer,
    ) -> Result<WholeBody, Problem> {
        let declared = body.size_hint().lower();
        if declared > self.most as u64 {
            return Err(self.too_large(declared));
        }
        let mut charge = None;
        let mut progress = None;
        let mut more = BytesMut::new();
        while let Some(frame) = self.frame(&mut body, &mut progress).await? {
            let frame = frame.map_err(|error| {
                let problem = format!(
                    "the body of {} {} ended early: {error}",
                    parts.method,
                    shortened(parts.uri.path())
                );
                Problem::new(StatusCode::BAD_REQUEST, "body-ended", problem)
            })?;
            // Trailers of a request mean nothing to servers of models.
            let Ok(data) = frame.into_data() else {
                continue;
            };
            let length = more.len().saturating_add(data.len());
            if length > self.most {
                return Err(self.too_large(length as u64));
            }
            // Most bodies are one frame, which need not be copied. A small one would keep a whole buffer of its
            // connection, and one with more to come would keep it for as long as that takes.
            if more.is_empty() && data.len() > SMALL && body.is_end_stream() {
                self.pay(&mut charge, payer, length)?;
                let bytes = data;
                return Ok(WholeBody { bytes, charge });
            }
            self.pay(&mut charge, payer, length)?;
            if more.is_empty() {
                let expected = usize::try_from(declared).unwrap_or(usize::MAX);
                more.reserve(expected.min(AT_ONCE));
            }
            more.extend_from_slice(&data);
            self.pay(&mut charge, payer, more.capacity())?;
        }
        let bytes = more.freeze();
        Ok(WholeBody { bytes, charge })
    }

    /// Reads the next frame, if the client keeps to the least rate.
    async fn frame(
        &self,
        body: &mut Incoming,
        progress: &mut Option<Progress>,
    ) -> Result<Option<hyper::Result<Frame<Bytes>>>, Problem> {
        let frame = if let Some(frame) = body.frame().now_or_never() {
            frame
        } else {
            let progress = progress.get_or_insert_with(|| Progress::new(self.pace));
            let until = progress.waits(now());
            let frame = tokio::time::timeout_at(until.into(), body.frame()).await;
            frame.map_err(|_| self.slow())?
        };
        if let (Some(progress), Some(Ok(frame))) = (progress, &frame) {
            progress.moved(now(), frame.data_ref().map_or(0, Bytes::len));
        }
        Ok(frame)
    }

    /// Rule of progress of a client that sends a body.
    pub(crate) const fn pace(&self) -> Pace {
        self.pace
    }

    /// Longest time that a client who keeps to the rule needs for a body.
    pub(crate) fn longest(&self) -> Duration {
        self.pace.longest(self.most)
    }

    /// Takes the part of the budgets that a body of `length` bytes needs.
    pub(crate) fn pay(
        &self,
        paid: &mut Option<BodyCharge>,
        payer: Payer,
        length: usize,
    ) -> Result<(), Problem> {
        if length <= SMALL {
            return Ok(());
        }
        let bytes = length.checked_next_multiple_of(UNIT).unwrap_or(length);
        self.grow(paid, payer, bytes).map_err(too_many)
    }

    fn grow(
        &self,
        paid: &mut Option<BodyCharge>,
        payer: Payer,
        bytes: usize,
    ) -> Result<(), Exceeded> {
        if let Some(charge) = paid {
            charge.client.grow_to(bytes)?;
            return match &mut charge.function {
                Some(function) => function
                    .grow_to(bytes)
                    .or_else(|exceeded| self.excuse(payer, exceeded)),
                None => Ok(()),
            };
        }
        let client = self.by_client.charge(payer.client, bytes)?;
        // The client pays whatever its function does.
        let charge = paid.insert(BodyCharge {
            client,
            function: None,
        });
        if let Some(function) = payer.function {
            charge.function = self.charge_of_function(payer, function, bytes)?;
        }
        Ok(())
    }

    fn charge_of_function(
        &self,
        payer: Payer,
        function: u64,
        bytes: usize,
    ) -> Result<Option<Charge<u64>>, Exceeded> {
        match self.by_function.charge(function, bytes) {
            Ok(charge) => Ok(Some(charge)),
            Err(exceeded) => self.excuse(payer, exceeded).map(|()| None),
        }
    }

    /// Lets a client with little go on although its function has its part: others, who hold that, must not keep it out.
    fn excuse(&self, payer: Payer, exceeded: Exceeded) -> Result<(), Exceeded> {
        if self.by_client.held(payer.client) <= self.by_client.total() / LITTLE {
            return Ok(());
        }
        Err(exceeded)
    }

    /// Charges a body to its function, which was not known before the body.
    pub(super) fn charge_function(
        &self,
        mut body: WholeBody,
        payer: Payer,
    ) -> Result<WholeBody, Problem> {
        if let (Some(charge), Some(function)) = (&mut body.charge, payer.function) {
            let bytes = charge.client.bytes();
            let charged = self.charge_of_function(payer, function, bytes);
            charge.function = charged.map_err(too_many)?;
        }
        Ok(body)
    }

    pub(crate) fn too_large(&self, found: u64) -> Problem {
        let problem = format!(
            "the body has at least {found} bytes, expected {} at most (limits.body)",
            self.most
        );
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "body-size", problem)
    }

    pub(crate) fn slow(&self) -> Problem {
        let Pace {
            grace,
            bytes_per_second,
        } = self.pace;
        let problem = format!(
            "the body was more than {grace:?} behind {bytes_per_second} bytes per second (timeouts.body, limits.rate)"
        );
        Problem::new(StatusCode::REQUEST_TIMEOUT, "body-timeout", problem)
    }
}

fn too_many(exceeded: Exceeded) -> Problem {
    let problem = format!(
        "the gateway holds too many bodies of requests: {exceeded}; try again, or raise limits.bodies"
    );
    Problem::unavailable("bodies", problem, Duration::from_secs(1))
}

/// The time, as tests may set it.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
