//! The stream of one request, until it has an instance.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use hyper::Request;
use hyper::header::AUTHORIZATION;
use tetris_service_kit::budget::Charge;

use super::answer::{self, Pick};
use super::exchange::{Exchange, Modes};
use super::head;
use super::held::{self, Held, NotHeld};
use super::inbound::{End, Wire};
use super::metadata::Subset;
use super::parts::Picker;
use super::wire::{Answer, BodyMode, HttpHeaders, Part, TrailersResponse};
use crate::client_address::ClientAddress;
use crate::function::{Function, Grant};
use crate::memory::client;
use crate::metrics::Dispatch;
use crate::normal_path::normalise;
use crate::problem::Problem;
use crate::proxy::answer::{Dialect, refused};
use crate::proxy::{Payer, wait_of};
use crate::refusal::Refusal;
use crate::server::{memory_of_head, too_many_heads};

/// Follows a stream to its end.
pub(super) async fn run(picker: Picker, data_plane: ClientAddress, mut wire: Wire) {
    if let Err(End::Broken(status)) = talk(&picker, data_plane, &mut wire).await {
        tracing::debug!("stream of a data plane broken off: {status}");
        wire.break_off(*status).await;
    }
}

async fn talk(picker: &Picker, data_plane: ClientAddress, wire: &mut Wire) -> Result<(), End> {
    let first = wire.first().await?;
    let modes = Modes::of(first.modes.as_ref());
    let Part::RequestHeaders(head) = first.part else {
        if !first.part.is_of_response() {
            return Err(End::wrong("expected the head of a request first"));
        }
        // A filter before this one has answered the client.
        wire.put_back(first);
        return Exchange::without(modes).run(wire).await;
    };
    let subset = Subset::of(first.metadata.as_ref());
    drop(first.metadata);
    let mut opening = Opening {
        picker,
        data_plane,
        wire,
        modes,
        dialect: Dialect::OpenInference,
    };
    let picked = opening.pick(&head, subset).await;
    // Its charge has ended.
    drop(head);
    match picked {
        Ok(exchange) => exchange.run(wire).await,
        Err(NotHeld::Answered) => Exchange::without(modes).run(wire).await,
        Err(NotHeld::Ended(end)) => Err(end),
        Err(NotHeld::Refused(problem)) => {
            picker.metrics.pick_refused(&problem);
            let answer = answer::immediate(opening.dialect, &problem);
            wire.send(answer).await
        }
    }
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
    async fn pick(
        &mut self,
        head: &HttpHeaders,
        subset: Option<Subset>,
    ) -> Result<Exchange, NotHeld> {
        let arrived_at = Instant::now();
        let (request, _held) = self.admitted(head).map_err(NotHeld::Refused)?;
        self.dialect = Dialect::of(&request);
        let (mut parts, ()) = request.into_parts();
        let is_changed = normalise(&mut parts.uri).map_err(NotHeld::Refused)?;
        let target = self.picker.proxy.target(&parts).map_err(NotHeld::Refused)?;
        let function = &target.function;
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
            let shown = self.body(head, function).await?;
            arrival.admitted();
            let granted = self.wire.beside(acquire(function, wait, subset)).await?;
            let granted = granted.ok_or(NotHeld::Answered)?;
            let refused = |refusal| NotHeld::Refused(refused(function.name(), &refusal));
            Ok((shown, granted.map_err(refused)?))
        };
        let acquired = acquired.await;
        if let Err(NotHeld::Refused(problem)) = &acquired {
            arrival.refused(problem);
        }
        let (shown, grant) = acquired?;
        arrival.waited(grant.waited());
        metrics.picked(function.name());
        let endpoint = Arc::clone(grant.endpoint());
        let counted = arrival.dispatched(Dispatch {
            configuration: &endpoint.configuration,
            arrived_at,
            sent_at: Instant::now(),
            slo: function.slo(),
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
            Shown::Nothing => !head.end_of_stream,
            Shown::Whole(more) => more,
            Shown::Trailers | Shown::Held(_) => false,
        };
        let metrics = Arc::clone(metrics);
        let exchange = Exchange::new(self.modes, grant, counted, metrics, more);
        self.send(shown, &pick).await?;
        Ok(exchange)
    }

    /// Reads a head within the limits of the proxy's, and charges its memory to the data plane, both as it came and as
    /// it was read.
    fn admitted(&self, head: &HttpHeaders) -> Result<(Request<()>, Charge<IpAddr>), Problem> {
        let proxy = &self.picker.proxy;
        self.wire.limits().check_head(head)?;
        let request = head::request(head)?;
        let bytes = head::memory_of(head).saturating_add(memory_of_head(&request));
        let payer = client(self.data_plane.0.ip());
        let charge = proxy.memory().heads.charge(payer, bytes);
        Ok((request, charge.map_err(too_many_heads)?))
    }

    /// Waits for the body, as far as the data plane shows it before the pick.
    async fn body(&mut self, head: &HttpHeaders, function: &Function) -> Result<Shown, NotHeld> {
        if head.end_of_stream {
            return Ok(Shown::Nothing);
        }
        match self.modes.request {
            BodyMode::FullDuplexStreamed => {
                let held = held::read(
                    self.wire,
                    self.picker.proxy.bodies(),
                    Payer::data_planes().and(function),
                )
                .await?;
                Ok(Shown::Held(held))
            }
            BodyMode::Buffered => {
                // The data plane reads no body before the head has an answer.
                self.wire.send(answer::request_headers(None)).await?;
                let message = self.wire.gathered().await?;
                match message.part {
                    Part::RequestBody(body) => Ok(Shown::Whole(!body.end_of_stream)),
                    Part::RequestTrailers(_) => Ok(Shown::Trailers),
                    Part::RequestHeaders(_) => {
                        Err(End::wrong("expected the body, found another head").into())
                    }
                    _ => {
                        self.wire.put_back(message);
                        Err(NotHeld::Answered)
                    }
                }
            }
            BodyMode::Grpc => Err(End::unsupported(
                "request_body_mode is GRPC; use FULL_DUPLEX_STREAMED, BUFFERED or NONE",
            )
            .into()),
            BodyMode::None | BodyMode::Streamed | BodyMode::BufferedPartial => Ok(Shown::Nothing),
        }
    }

    async fn send(&self, shown: Shown, pick: &Pick) -> Result<(), End> {
        let first = match &shown {
            Shown::Nothing | Shown::Held(_) => answer::request_headers(Some(pick)),
            Shown::Whole(_) => answer::request_body(pick),
            Shown::Trailers => answer::request_trailers(pick),
        };
        self.wire.send(first).await?;
        let Shown::Held(held) = shown else {
            return Ok(());
        };
        for part in held.parts {
            let answer = Answer::RequestBody(answer::body(part, true));
            self.wire.send(answer::plain(answer)).await?;
        }
        if held.trailers {
            let answer = Answer::RequestTrailers(TrailersResponse {});
            self.wire.send(answer::plain(answer)).await?;
        }
        Ok(())
    }
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
