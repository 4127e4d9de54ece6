//! Messages of a data plane for one request, and answers to it.

use std::time::Duration;

use tokio::sync::mpsc::Sender;
use tonic::{Status, Streaming};

use super::wire::{Metadata, Part, ProcessingRequest, ProcessingResponse, ProtocolConfiguration};

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
    /// A message that came before its time.
    early: Option<Message>,
}

impl Wire {
    pub(super) const fn new(
        messages: Streaming<ProcessingRequest>,
        answers: Sender<Result<ProcessingResponse, Status>>,
    ) -> Self {
        Self {
            messages,
            answers,
            early: None,
        }
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
        self.answers.send(Ok(answer)).await.map_err(|_| End::Left)
    }

    /// Breaks the stream off with an error.
    pub(super) async fn break_off(&self, status: Status) {
        // A data plane that has left need not know.
        drop(self.answers.send(Err(status)).await);
    }
}
