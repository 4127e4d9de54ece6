//! The stream of one request, until it has an instance.

use std::sync::Arc;
use std::time::Instant;

use hyper::header::AUTHORIZATION;
use tokio::time::timeout;
use tracing::Instrument as _;

use super::answer::{self, Pick};
use super::exchange::{Exchange, Modes};
use super::head;
use super::held::{self, Held, NotHeld};
use super::inbound::{End, Message, Wire};
use super::metadata::Subset;
use super::parts::Picker;
use super::wire::{Answer, BodyMode, HttpHeaders, Part, TrailersResponse};
use crate::client_address::ClientAddress;
use crate::config::Timeouts;
use crate::function::{Function, Grant};
use crate::metrics::Dispatch;
use crate::normal_path::normalise;
use crate::problem::Problem;
use crate::proxy::answer::{Dialect, refused};
use crate::proxy::{Bodies, Payer, wait_of};
use crate::refusal::Refusal;
use crate::traces;

/// Follows a stream to its end.
pub(super) async fn run(
    picker: Picker,
    data_plane: ClientAddress,
    timeouts: Timeouts,
    mut wire: Wire,
) {
    let ended = talk(&picker, data_plane, &timeouts, &mut wire).await;
    if let Err(end) = ended
        && let Some(status) = end.status()
    {
        tracing::debug!("stream of a data plane broken off: {status}");
        wire.break_off(status).await;
    }
}

async fn talk(
    picker: &Picker,
    data_plane: ClientAddress,
    timeouts: &Timeouts,
    wire: &mut Wire,
) -> Result<(), End> {
    let mut dialect = Dialect::OpenInference;
    let first = match timeout(timeouts.head(), wire.first()).await {
        Ok(Ok(first)) => first,
        Ok(Err(End::Refused(problem))) => return refuse(picker, wire, dialect, &problem).await,
        Ok(Err(end)) => return Err(end),
        Err(_) => return Err(End::late("no head of a request in time (timeouts.head)")),
    };
    let Message {
        part,
        metadata,
        modes,
        uncharged,
        memory,
    } = first;
    let modes = Modes::of(modes.as_ref());
    let Part::RequestHeaders(head) = part else {
        if !part.is_of_response() {
            return Err(End::wrong("expected the head of a request first"));
        }
        // A filter before this one has answered the client.
        wire.put_back(Message {
            part,
            metadata,
            modes: None,
            uncharged,
            memory,
        });
        return follow(Exchange::without(modes), timeouts, wire).await;
    };
    let subset = match Subset::of(metadata.as_ref()) {
        Ok(subset) => subset,
        Err(problem) => return refuse(picker, wire, dialect, &problem).await,
    };
    drop(metadata);
    let mut opening = Opening {
        picker,
        data_plane,
        wire,
        modes,
        dialect,
    };
    let picked = opening.pick(head, subset).await;
    dialect = opening.dialect;
    // The head is in no memory any more, for as long as the response takes.
    drop(memory);
    match picked {
        Ok(picked) => {
            let served = async {
                send(wire, picked.shown, &picked.pick).await?;
                picked.exchange.run(wire).await
            };
            in_time(timeouts, served).await
        }
        Err(NotHeld::Answered) => follow(Exchange::without(modes), timeouts, wire).await,
        Err(NotHeld::Ended(end)) => Err(end),
        Err(NotHeld::Refused(problem)) => refuse(picker, wire, dialect, &problem).await,
    }
}

/// Answers the client in place of an instance.
async fn refuse(
    picker: &Picker,
    wire: &Wire,
    dialect: Dialect,
    problem: &Problem,
) -> Result<(), End> {
    picker.metrics.pick_refused(problem);
    wire.send(answer::immediate(dialect, problem)).await
}

async fn follow(exchange: Exchange, timeouts: &Timeouts, wire: &mut Wire) -> Result<(), End> {
    in_time(timeouts, exchange.run(wire)).await
}

/// Runs the rest of an exchange. Dropping it at the limit frees the instance.
async fn in_time(
    timeouts: &Timeouts,
    rest: impl Future<Output = Result<(), End>>,
) -> Result<(), End> {
    let late = || {
        Err(End::late(
            "the response did not end in time (timeouts.request)",
        ))
    };
    timeout(timeouts.request(), rest)
        .await
        .unwrap_or_else(|_| late())
}

/// A request with an instance.
struct Picked {
    exchange: Exchange,
    shown: Shown,
    pick: Pick,
}

/// The body of a request when its instance is asked for.
enum Shown {
    /// There is none, or it is not shown before the pick.
    Nothing,
    /// Shown whole, and kept by the data plane. True if trailers can follow.
    Whole(bool),
    /// Trailers alone.
    Trailers,
    /// Held here.
    Held(Held),
}

struct Opening<'a> {
    picker: &'a Picker,
    data_plane: ClientAddress,
    wire: &'a mut Wire,
    modes: Modes,
    dialect: Dialect,
}

impl Opening<'_> {
    async fn pick(&mut self, head: HttpHeaders, subset: Option<Subset>) -> Result<Picked, NotHeld> {
        let arrived_at = Instant::now();
        let request = head::request(&head).map_err(NotHeld::Refused)?;
        let end_of_stream = head.end_of_stream;
        drop(head);
        self.dialect = Dialect::of(&request);
        let span = traces::span(&request);
        let (mut parts, ()) = request.into_parts();
        let is_changed = normalise(&mut parts.uri).map_err(NotHeld::Refused)?;
        let target = self.picker.proxy.target(&parts).map_err(NotHeld::Refused)?;
        let function = &target.function;
        span.record("function", tracing::field::display(function.name()));
        let metrics = &self.picker.metrics;
        let arrival = metrics.arrived(function.name());
        let had_token = parts.headers.contains_key(AUTHORIZATION);
        let acquired = async {
            let admitted = self
                .picker
                .proxy
                .admit(&target, &mut parts, self.data_plane);
            admitted.await.map_err(NotHeld::Refused)?;
            let wait = wait_of(&parts).map_err(NotHeld::Refused)?;
            let shown = self.body(end_of_stream, function).await?;
            arrival.admitted();
            let granted = self.wire.beside(acquire(function, wait, subset)).await;
            let granted = granted.map_err(|end| NotHeld::of(end, self.picker.proxy.bodies()))?;
            let granted = granted.ok_or(NotHeld::Answered)?;
            let refused = |refusal| NotHeld::Refused(refused(function.name(), &refusal));
            Ok((shown, granted.map_err(refused)?))
        };
        let acquired = acquired.instrument(span.clone()).await;
        if let Err(NotHeld::Refused(problem)) = &acquired {
            arrival.refused(problem);
            span.record("error.type", problem.reason);
        }
        let (shown, grant) = acquired?;
        arrival.waited(grant.waited());
        metrics.picked(function.name());
        let endpoint = Arc::clone(grant.endpoint());
        traces::granted(&span, &endpoint.name, grant.waited());
        let counted = arrival.dispatched(Dispatch {
            configuration: &endpoint.configuration,
            arrived_at,
            sent_at: Instant::now(),
            slo: function.slo(),
            span: &span,
        });
        let pick = Pick {
            address: endpoint.address,
            path: target.path.or_else(|| {
                let normal = parts.uri.path_and_query();
                normal.filter(|_| is_changed).cloned()
            }),
            hides_token: had_token && !parts.headers.contains_key(AUTHORIZATION),
        };
        let more = match shown {
            Shown::Nothing => !end_of_stream,
            Shown::Whole(more) => more,
            Shown::Trailers | Shown::Held(_) => false,
        };
        let metrics = Arc::clone(metrics);
        let exchange = Exchange::new(self.modes, grant, counted, metrics, more);
        Ok(Picked {
            exchange,
            shown,
            pick,
        })
    }

    /// Waits for the body, as far as the data plane shows it before the pick.
    async fn body(&mut self, end_of_stream: bool, function: &Function) -> Result<Shown, NotHeld> {
        if end_of_stream {
            return Ok(Shown::Nothing);
        }
        let bodies = self.picker.proxy.bodies();
        let payer = Payer::data_planes().and(function);
        self.wire.set_payer(payer);
        match self.modes.request {
            BodyMode::FullDuplexStreamed => {
                let parts = held::read(self.wire, bodies, payer).await?;
                Ok(Shown::Held(parts))
            }
            BodyMode::Buffered => self.buffered(bodies).await,
            BodyMode::Grpc => Err(NotHeld::Ended(End::unsupported(
                "request_body_mode is GRPC; use FULL_DUPLEX_STREAMED, BUFFERED or NONE",
            ))),
            BodyMode::None | BodyMode::Streamed | BodyMode::BufferedPartial => Ok(Shown::Nothing),
        }
    }

    /// Waits for a body that the data plane reads whole: as long as the largest one takes at the least rate.
    async fn buffered(&mut self, bodies: &Bodies) -> Result<Shown, NotHeld> {
        let ended = |end| NotHeld::of(end, bodies);
        // The data plane reads no body before the head has an answer.
        let answered = self.wire.send(answer::request_headers(None)).await;
        answered.map_err(ended)?;
        let message = timeout(bodies.longest(), self.wire.next()).await;
        let message = message.map_err(|_| NotHeld::Refused(bodies.slow()))?;
        let message = message.map_err(ended)?;
        match message.part {
            Part::RequestBody(body) if body.body.len() > bodies.most() => {
                Err(NotHeld::Refused(bodies.too_large(body.body.len() as u64)))
            }
            Part::RequestBody(body) => Ok(Shown::Whole(!body.end_of_stream)),
            Part::RequestTrailers(_) => Ok(Shown::Trailers),
            Part::RequestHeaders(_) => {
                let end = End::wrong("expected the body, found another head");
                Err(NotHeld::Ended(end))
            }
            _ => {
                self.wire.put_back(message);
                Err(NotHeld::Answered)
            }
        }
    }
}

/// Answers the parts of a request that the data plane has shown.
async fn send(wire: &Wire, shown: Shown, pick: &Pick) -> Result<(), End> {
    let first = match &shown {
        Shown::Nothing | Shown::Held(_) => answer::request_headers(Some(pick)),
        Shown::Whole(_) => answer::request_body(pick),
        Shown::Trailers => answer::request_trailers(pick),
    };
    wire.send(first).await?;
    let Shown::Held(held) = shown else {
        return Ok(());
    };
    for part in held.parts {
        let answer = Answer::RequestBody(answer::body(part, true));
        wire.send(answer::plain(answer)).await?;
    }
    if held.trailers {
        let answer = Answer::RequestTrailers(TrailersResponse {});
        wire.send(answer::plain(answer)).await?;
    }
    Ok(())
}

async fn acquire(
    function: &Arc<Function>,
    wait: Option<std::time::Duration>,
    subset: Option<Subset>,
) -> Result<Grant, Refusal> {
    // The data plane sends requests as they are, and cannot carry out loads.
    if !function.has_instances() {
        return Err(Refusal::ProxyOnly);
    }
    match subset {
        Some(subset) => {
            let eligible = |address| subset.contains(address);
            function.acquire_among(wait, eligible).await
        }
        None => function.acquire(wait).await,
    }
}
