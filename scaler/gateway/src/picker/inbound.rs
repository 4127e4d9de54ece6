//! Messages of a data plane for one request, and answers to it.

use std::time::Duration;

use hyper::StatusCode;
use tokio::sync::mpsc::Sender;
use tonic::{Status, Streaming};

use super::head;
use super::wire::{
    HttpHeaders, Metadata, Part, ProcessingRequest, ProcessingResponse, ProtocolConfiguration,
};
use crate::config::{Limits, Timeouts};
use crate::problem::Problem;
use crate::server::check_fields;

/// The end of a stream before its time.
#[derive(Debug)]
pub(super) enum End {
    /// The data plane closed or broke it.
    Left,
    /// The data plane does not keep to the protocol, and gets this status.
    Broken(Box<Status>),
}

impl End {
    /// A message that does not fit the ones before it.
    pub(super) fn wrong(problem: &str) -> Self {
        Self::Broken(Box::new(Status::invalid_argument(problem)))
    }

    /// A data plane that holds up its own request.
    pub(super) fn slow(problem: &str) -> Self {
        Self::Broken(Box::new(Status::deadline_exceeded(problem)))
    }

    /// A setting of the data plane that the picker cannot work with.
    pub(super) fn unsupported(problem: &str) -> Self {
        Self::Broken(Box::new(Status::failed_precondition(problem)))
    }
}

/// A message.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) part: Part,
    pub(super) metadata: Option<Metadata>,
    pub(super) modes: Option<ProtocolConfiguration>,
}

/// A stream of messages and answers.
#[derive(Debug)]
pub(super) struct Wire {
    messages: Streaming<ProcessingRequest>,
    answers: Sender<Result<ProcessingResponse, Status>>,
    limits: StreamLimits,
    /// A message that came before its time.
    early: Option<Message>,
}

/// Limits of a data plane: sizes, and longest times.
#[derive(Clone, Copy, Debug)]
pub(super) struct StreamLimits {
    /// Largest number of fields of a request's head, and its largest size in bytes.
    header_fields: usize,
    head_bytes: usize,
    /// To the first message.
    first: Duration,
    /// For a body that it gathers itself, at the least rate of its client.
    body: Duration,
    /// Until it takes an answer.
    answer: Duration,
    /// From the pick to the end of the response.
    pub(super) request: Duration,
}

impl StreamLimits {
    /// Refuses a head of a request beyond the limits.
    pub(super) fn check_head(&self, head: &HttpHeaders) -> Result<(), Problem> {
        check_fields(head::fields(head), self.header_fields)?;
        let found = head::size(head);
        if found <= self.head_bytes {
            return Ok(());
        }
        let problem = format!(
            "the head has {found} bytes, expected {} at most (limits.head)",
            self.head_bytes
        );
        let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
        Err(Problem::new(status, "head-size", problem))
    }

    pub(super) fn of(limits: &Limits, timeouts: &Timeouts) -> Self {
        let at_rate = (limits.body_bytes as u64) / limits.bytes_per_second.max(1);
        Self {
            header_fields: limits.header_fields,
            head_bytes: limits.head_bytes,
            first: timeouts.head(),
            body: timeouts.body().saturating_add(Duration::from_secs(at_rate)),
            answer: timeouts.read(),
            request: timeouts.request(),
        }
    }
}

impl Wire {
    pub(super) const fn new(
        messages: Streaming<ProcessingRequest>,
        answers: Sender<Result<ProcessingResponse, Status>>,
        limits: StreamLimits,
    ) -> Self {
        Self {
            messages,
            answers,
            limits,
            early: None,
        }
    }

    /// Limits of the data plane.
    pub(super) const fn limits(&self) -> &StreamLimits {
        &self.limits
    }

    /// Returns the first message.
    pub(super) async fn first(&mut self) -> Result<Message, End> {
        let first = self.next_within(self.limits.first).await?;
        first.ok_or_else(|| End::slow("no message came within timeouts.head"))
    }

    /// Returns the body of a request, which the data plane gathers before it shows it.
    pub(super) async fn gathered(&mut self) -> Result<Message, End> {
        let message = self.next_within(self.limits.body).await?;
        message.ok_or_else(|| End::slow("no body came within its time at limits.rate"))
    }

    /// Returns the next message.
    pub(super) async fn next(&mut self) -> Result<Message, End> {
        if let Some(early) = self.early.take() {
            return Ok(early);
        }
        self.receive().await
    }

    /// Makes a message the next one again.
    pub(super) fn put_back(&mut self, message: Message) {
        self.early = Some(message);
    }

    /// Returns the next message, or `None` if there is none for so long.
    pub(super) async fn next_within(&mut self, pause: Duration) -> Result<Option<Message>, End> {
        match tokio::time::timeout(pause, self.next()).await {
            Ok(message) => message.map(Some),
            Err(_) => Ok(None),
        }
    }

    async fn receive(&mut self) -> Result<Message, End> {
        let message = self.messages.message().await;
        // A message that is too large or cannot be read, or a reset.
        let message = message.map_err(|status| End::Broken(Box::new(status)))?;
        let message = message.ok_or(End::Left)?;
        if message.observability_mode {
            return Err(End::unsupported(
                "the filter is in observability mode and ignores picks; turn it off",
            ));
        }
        let part = message.request;
        let nothing = || End::wrong("expected a part of a request or response, found neither");
        Ok(Message {
            part: part.ok_or_else(nothing)?,
            metadata: message.metadata_context,
            modes: message.protocol_config,
        })
    }

    /// Completes with the output of `work`, or with `None` if the data plane answers the client
    /// itself meanwhile. Fails if it leaves.
    pub(super) async fn beside<T>(
        &mut self,
        work: impl Future<Output = T>,
    ) -> Result<Option<T>, End> {
        tokio::pin!(work);
        loop {
            let answers = self.answers.clone();
            let message = tokio::select! {
                output = &mut work => return Ok(Some(output)),
                message = self.receive(), if self.early.is_none() => message?,
                () = answers.closed() => return Err(End::Left),
            };
            let answered = message.part.is_of_response();
            self.early = Some(message);
            if answered {
                return Ok(None);
            }
        }
    }

    /// Sends an answer.
    pub(super) async fn send(&self, answer: ProcessingResponse) -> Result<(), End> {
        let sent = tokio::time::timeout(self.limits.answer, self.answers.send(Ok(answer))).await;
        let sent = sent.map_err(|_| End::slow("an answer was not taken within timeouts.read"))?;
        sent.map_err(|_| End::Left)
    }

    /// Breaks the stream off with an error.
    pub(super) async fn break_off(&self, status: Status) {
        // A data plane that has left need not know.
        drop(tokio::time::timeout(self.limits.answer, self.answers.send(Err(status))).await);
    }
}
