//! The rest of a stream, once its request has an instance: until the response has ended.

use std::sync::Arc;

use super::answer;
use super::head;
use super::inbound::{End, Message, Wire};
use super::metadata;
use super::wire::{
    Answer, BodyMode, CommonResponse, Part, ProtocolConfiguration, TrailersResponse,
};
use crate::function::Grant;
use crate::metrics::{Dispatched, Metrics, RequestOutcome};
use crate::proxy::is_gateway_fault;

/// Modes of bodies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Modes {
    pub(super) request: BodyMode,
    response: BodyMode,
}

impl Modes {
    /// Reads the modes of a first message. Data planes that do not tell them stream, as the endpoint
    /// picker protocol expects.
    pub(super) fn of(told: Option<&ProtocolConfiguration>) -> Self {
        told.map_or(
            Self {
                request: BodyMode::FullDuplexStreamed,
                response: BodyMode::FullDuplexStreamed,
            },
            |told| Self {
                request: told.request_body_mode(),
                response: told.response_body_mode(),
            },
        )
    }
}

/// A picked instance.
#[derive(Debug)]
struct Given {
    grant: Grant,
    counted: Dispatched,
    metrics: Arc<Metrics>,
}

/// State of the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Response {
    Awaited,
    /// Its head came. True if the status is that of a broken instance.
    Begun(bool),
    Ended,
}

/// A request and its response after the pick.
#[derive(Debug)]
pub(super) struct Exchange {
    modes: Modes,
    /// Gone once the response has ended.
    given: Option<Given>,
    /// True while more of the request can come.
    more: bool,
    response: Response,
}

impl Exchange {
    /// An exchange with an instance.
    pub(super) const fn new(
        modes: Modes,
        grant: Grant,
        counted: Dispatched,
        metrics: Arc<Metrics>,
        more: bool,
    ) -> Self {
        Self {
            modes,
            given: Some(Given {
                grant,
                counted,
                metrics,
            }),
            more,
            response: Response::Awaited,
        }
    }

    /// An exchange that the data plane answers itself.
    pub(super) const fn without(modes: Modes) -> Self {
        Self {
            modes,
            given: None,
            more: true,
            response: Response::Awaited,
        }
    }

    /// Lets all parts pass, and ends the grant with the response.
    pub(super) async fn run(mut self, wire: &mut Wire) -> Result<(), End> {
        loop {
            let message = match wire.next().await {
                Ok(message) => message,
                Err(end) => {
                    self.closed();
                    return Err(end);
                }
            };
            let answer = self.pass(message)?;
            wire.send(answer::plain(answer)).await?;
        }
    }

    fn pass(&mut self, message: Message) -> Result<Answer, End> {
        let streams = |mode| mode == BodyMode::FullDuplexStreamed;
        match message.part {
            Part::RequestHeaders(_) => Err(End::wrong("found a second head of a request")),
            Part::RequestBody(_) | Part::RequestTrailers(_) if !self.more => {
                Err(End::wrong("found a part of the request after its end"))
            }
            Part::RequestBody(part) => {
                self.more = !part.end_of_stream;
                let body = answer::body(part, streams(self.modes.request));
                Ok(Answer::RequestBody(body))
            }
            Part::RequestTrailers(_) => {
                self.more = false;
                Ok(Answer::RequestTrailers(TrailersResponse {}))
            }
            Part::ResponseHeaders(_) if self.response != Response::Awaited => {
                Err(End::wrong("found a second head of the response"))
            }
            Part::ResponseBody(_) | Part::ResponseTrailers(_)
                if self.response == Response::Ended =>
            {
                Err(End::wrong("found a part of the response after its end"))
            }
            Part::ResponseHeaders(head) => {
                self.served_by(message.metadata.as_ref());
                let failed = head::status(&head).is_some_and(is_gateway_fault);
                self.response = Response::Begun(failed);
                if head.end_of_stream {
                    self.end();
                }
                let changes = CommonResponse::default();
                Ok(Answer::ResponseHeaders(answer::headers(changes)))
            }
            Part::ResponseBody(part) => {
                if part.end_of_stream {
                    self.end();
                }
                let body = answer::body(part, streams(self.modes.response));
                Ok(Answer::ResponseBody(body))
            }
            Part::ResponseTrailers(_) => {
                self.end();
                Ok(Answer::ResponseTrailers(TrailersResponse {}))
            }
        }
    }

    /// Takes the grant from an instance that did not serve: nothing is known about it.
    fn served_by(&mut self, metadata: Option<&super::wire::Metadata>) {
        let served = metadata::served(metadata);
        let elsewhere = |given: &mut Given| {
            served.is_some_and(|served| served != given.grant.endpoint().address)
        };
        if let Some(given) = self.given.take_if(elsewhere) {
            given.metrics.picked_elsewhere(given.counted.function());
            given.counted.ended(RequestOutcome::Elsewhere);
        }
    }

    /// The response is whole.
    fn end(&mut self) {
        let failed = self.response == Response::Begun(true);
        self.response = Response::Ended;
        let Some(Given { grant, counted, .. }) = self.given.take() else {
            return;
        };
        counted.answered(failed, grant.answered(failed));
    }

    /// The stream ended. A data plane that shows no bodies closes it after the head.
    fn closed(&mut self) {
        if matches!(self.response, Response::Begun(_)) && self.modes.response == BodyMode::None {
            self.end();
        }
    }
}
