//! Messages of a data plane for one request, and answers to it.

use std::sync::Arc;
use std::time::Duration;

use hyper::StatusCode;
use hyper::body::Incoming;
use tokio::sync::mpsc::Sender;
use tokio::time::timeout;
use tonic::{Code, Status};

use super::decoding::{Counted, HEAD_BYTES, MessageLimits, NotDecoded, too_large_message};
use super::messages::{Fault, Messages, Raw, Wait};
use super::wire::{Metadata, Part, ProcessingResponse, ProtocolConfiguration};
use crate::config::{Limits, Timeouts};
use crate::problem::Problem;
use crate::proxy::answer::grpc_status;
use crate::proxy::{Payer, Proxy};
use crate::server::{Held, Ledger, too_much_memory};

/// The end of a stream before its time.
#[derive(Debug)]
pub(super) enum End {
    /// The data plane closed or broke it, or reads no answers.
    Left,
    /// A message is larger than it may be.
    TooLarge {
        /// Its size in bytes.
        found: usize,
        /// The largest size.
        most: usize,
    },
    /// The client gets this answer, as long as it can.
    Refused(Problem),
    /// The data plane does not keep to the protocol, and gets this status.
    Broken(Box<Status>),
}

impl End {
    /// A message that does not fit the ones before it.
    pub(super) fn wrong(problem: &str) -> Self {
        Self::Broken(Box::new(Status::invalid_argument(problem)))
    }

    /// A setting of the data plane that the picker cannot work with.
    pub(super) fn unsupported(problem: &str) -> Self {
        Self::Broken(Box::new(Status::failed_precondition(problem)))
    }

    /// A stream that took too long.
    pub(super) fn late(problem: &str) -> Self {
        Self::Broken(Box::new(Status::deadline_exceeded(problem)))
    }

    /// Status for the data plane, if it is still there.
    pub(super) fn status(self) -> Option<Status> {
        match self {
            Self::Left => None,
            Self::TooLarge { found, most } => Some(Status::out_of_range(format!(
                "the message has {found} bytes, expected {most} at most (limits.body)"
            ))),
            Self::Refused(problem) => {
                let code = match problem.status {
                    StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => Code::InvalidArgument,
                    status => grpc_status(status)
                        .parse()
                        .map_or(Code::Unknown, Code::from_i32),
                };
                Some(Status::new(code, problem.message))
            }
            Self::Broken(status) => Some(*status),
        }
    }
}

impl From<Fault> for End {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Left => Self::Left,
            Fault::TooLarge { found, most } => Self::TooLarge { found, most },
            Fault::Refused(problem) => Self::Refused(problem),
            Fault::Broken(status) => Self::Broken(status),
        }
    }
}

/// A message.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) part: Part,
    pub(super) metadata: Option<Metadata>,
    pub(super) modes: Option<ProtocolConfiguration>,
    /// Number of its bytes that no budget counts: those of a small message.
    pub(super) uncharged: usize,
    /// Memory of its head, trailers and metadata.
    pub(super) memory: Held,
}

/// A stream of messages and answers.
#[derive(Debug)]
pub(super) struct Wire {
    messages: Messages<Incoming>,
    answers: Sender<Result<ProcessingResponse, Status>>,
    /// A message that came before its time.
    early: Option<Message>,
    ledger: Arc<Ledger>,
    limits: MessageLimits,
    /// Largest size of a body in one message.
    body_bytes: usize,
    /// Longest time for which the data plane may read no answer.
    reading: Duration,
    /// True once the head of the request has come.
    has_begun: bool,
}

impl Wire {
    pub(super) fn new(
        body: Incoming,
        answers: Sender<Result<ProcessingResponse, Status>>,
        proxy: Proxy,
        ledger: Arc<Ledger>,
        limits: &Limits,
        timeouts: &Timeouts,
    ) -> Self {
        Self {
            messages: Messages::new(body, proxy, Arc::clone(&ledger)),
            answers,
            early: None,
            ledger,
            limits: MessageLimits::of(limits),
            body_bytes: limits.body_bytes,
            reading: timeouts.read(),
            has_begun: false,
        }
    }

    /// Charges messages to `payer` from now on.
    pub(super) const fn set_payer(&mut self, payer: Payer) {
        self.messages.set_payer(payer);
    }

    /// Returns the first message, which has a head. Later ones may have bodies.
    pub(super) async fn first(&mut self) -> Result<Message, End> {
        let first = self.receive(HEAD_BYTES, Wait::ForBegin).await;
        self.has_begun = true;
        // Heads of responses, and trailers, have the limit of messages.
        self.limits.head_bytes = HEAD_BYTES;
        match first {
            Err(End::TooLarge { found, most }) => Err(End::Refused(too_large_message(found, most))),
            first => first,
        }
    }

    /// Returns the next message.
    pub(super) async fn next(&mut self) -> Result<Message, End> {
        self.next_after(Wait::ForBegin).await
    }

    /// Returns the next message of a data plane that must keep to the least rate meanwhile.
    pub(super) async fn next_paced(&mut self) -> Result<Message, End> {
        self.next_after(Wait::Paced).await
    }

    async fn next_after(&mut self, wait: Wait) -> Result<Message, End> {
        if let Some(early) = self.early.take() {
            return Ok(early);
        }
        self.receive(self.body_bytes.saturating_add(HEAD_BYTES), wait)
            .await
    }

    /// Makes a message the next one again.
    pub(super) fn put_back(&mut self, message: Message) {
        self.early = Some(message);
    }

    async fn receive(&mut self, most: usize, wait: Wait) -> Result<Message, End> {
        let raw = tokio::select! {
            biased;
            raw = self.messages.next(most, wait) => raw?,
            // The call was reset, or the data plane reads no answers.
            () = self.answers.closed() => return Err(End::Left),
        };
        self.decode(raw)
    }

    /// Decodes a message once its memory is charged.
    fn decode(&self, raw: Raw) -> Result<Message, End> {
        let uncharged = if raw.is_free { raw.bytes.len() } else { 0 };
        let counted = Counted::of(raw.bytes, self.limits).map_err(|error| match error {
            NotDecoded::Head(problem) => End::Refused(problem),
            NotDecoded::Message(status) => End::Broken(status),
        })?;
        let memory = self.ledger.hold(counted.memory());
        let memory = memory.map_err(|exceeded| End::Refused(too_much_memory(exceeded)))?;
        let message = counted.decode().map_err(End::Broken)?;
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
            uncharged,
            memory,
        })
    }

    /// Completes with the output of `work`, or with `None` if the data plane answers the client
    /// itself meanwhile. Fails if it leaves.
    pub(super) async fn beside<T>(
        &mut self,
        work: impl Future<Output = T>,
    ) -> Result<Option<T>, End> {
        tokio::pin!(work);
        let most = self.body_bytes.saturating_add(HEAD_BYTES);
        loop {
            let answers = self.answers.clone();
            let message = tokio::select! {
                output = &mut work => return Ok(Some(output)),
                message = self.receive(most, Wait::ForBegin), if self.early.is_none() => message?,
                () = answers.closed() => return Err(End::Left),
            };
            let answered = message.part.is_of_response();
            self.early = Some(message);
            if answered {
                return Ok(None);
            }
        }
    }

    /// Sends an answer, which the data plane must read in time.
    pub(super) async fn send(&self, answer: ProcessingResponse) -> Result<(), End> {
        let sent = timeout(self.reading, self.answers.send(Ok(answer))).await;
        sent.map_err(|_| End::Left)?.map_err(|_| End::Left)
    }

    /// Breaks the stream off with an error.
    pub(super) async fn break_off(&self, status: Status) {
        // A data plane that has left, or does not read, need not know.
        drop(timeout(self.reading, self.answers.send(Err(status))).await);
    }
}
