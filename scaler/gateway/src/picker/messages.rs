//! Bytes of messages on their way: limited and charged before tonic has gathered a message.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes};
use hyper::Request;
use hyper::body::{Body, Frame, SizeHint};
use tonic::Status;
use tonic::body::Body as GrpcBody;
use tonic::codegen::Service;
use tonic::server::NamedService;

use super::shape::HEAD_BYTES;
use crate::proxy::{BodyCharge, Payer, Proxy};

/// Flag and length before a message.
const PREFIX: usize = 5;

/// A service whose requests have [limited bodies](LimitedBody).
#[derive(Clone, Debug)]
pub(super) struct LimitedMessages<S> {
    service: S,
    proxy: Proxy,
}

impl<S> LimitedMessages<S> {
    pub(super) const fn new(service: S, proxy: Proxy) -> Self {
        Self { service, proxy }
    }
}

impl<S: NamedService> NamedService for LimitedMessages<S> {
    const NAME: &'static str = S::NAME;
}

impl<S: Service<Request<GrpcBody>>> Service<Request<GrpcBody>> for LimitedMessages<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(cx)
    }

    fn call(&mut self, request: Request<GrpcBody>) -> S::Future {
        let request = request.map(|body| GrpcBody::new(limited(body, self.proxy.clone())));
        self.service.call(request)
    }
}

fn limited(body: GrpcBody, proxy: Proxy) -> LimitedBody {
    LimitedBody {
        body,
        proxy,
        most: HEAD_BYTES,
        prefix: Vec::with_capacity(PREFIX),
        message: 0,
        received: 0,
        charge: None,
    }
}

/// A body of messages, each of which is limited by its prefix, and charged while it comes.
struct LimitedBody {
    body: GrpcBody,
    proxy: Proxy,
    /// Largest size of the next message: the first one has no body.
    most: usize,
    /// The part of the next message's prefix that has come.
    prefix: Vec<u8>,
    /// Length of the message that comes, and the part of it that has come.
    message: usize,
    received: usize,
    /// Memory of that message until it is whole: then it is that of its reader.
    charge: Option<BodyCharge>,
}

impl LimitedBody {
    fn take(&mut self, mut data: &[u8]) -> Result<(), Status> {
        while !data.is_empty() {
            let missing = self.message.saturating_sub(self.received);
            if missing > 0 {
                let (part, rest) = data.split_at(missing.min(data.len()));
                self.received = self.received.saturating_add(part.len());
                data = rest;
                continue;
            }
            let (part, rest) = data.split_at((PREFIX - self.prefix.len()).min(data.len()));
            self.prefix.extend_from_slice(part);
            data = rest;
            if let [_flag, length @ ..] = &*self.prefix
                && self.prefix.len() == PREFIX
            {
                let length = { length }.get_u32();
                self.prefix.clear();
                self.begin(length as usize)?;
            }
        }
        if self.received == self.message {
            self.charge = None;
            return Ok(());
        }
        let bodies = self.proxy.bodies();
        let charged = bodies.pay(&mut self.charge, Payer::data_planes(), self.received);
        charged.map_err(|problem| Status::resource_exhausted(problem.message))
    }

    fn begin(&mut self, length: usize) -> Result<(), Status> {
        if length > self.most {
            let most = self.most;
            let problem = format!("found a message of {length} bytes, expected {most} at most");
            return Err(Status::out_of_range(problem));
        }
        self.most = HEAD_BYTES.saturating_add(self.proxy.bodies().most());
        (self.message, self.received) = (length, 0);
        Ok(())
    }
}

impl Body for LimitedBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let Some(frame) = ready!(Pin::new(&mut self.body).poll_frame(cx)) else {
            return Poll::Ready(None);
        };
        let frame = frame?;
        if let Some(data) = frame.data_ref() {
            self.take(data)?;
        }
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use bytes::BufMut as _;
    use tonic::Code;

    use super::*;
    use crate::config::{Limits, Timeouts};
    use crate::memory::{Memory, Sizes};
    use crate::metrics::Metrics;

    const BODY: usize = 256 << 10;

    fn body() -> LimitedBody {
        let limits = Limits {
            body_bytes: BODY,
            bodies_bytes: Some(BODY * 2),
            ..Limits::default()
        };
        let memory = Memory::new(Sizes::of(&limits, None));
        let proxy = Proxy::new(&limits, Timeouts::default(), Metrics::new(), memory);
        limited(GrpcBody::empty(), proxy)
    }

    fn prefix(length: usize) -> Vec<u8> {
        let mut prefix = vec![0];
        prefix.put_u32(u32::try_from(length).unwrap());
        prefix
    }

    fn whole(length: usize) -> Vec<u8> {
        [prefix(length), vec![0; length]].concat()
    }

    #[test]
    fn only_the_first_message_has_no_body() {
        let mut messages = body();
        assert!(messages.take(&whole(HEAD_BYTES)).is_ok());
        assert!(messages.take(&whole(BODY / 2)).is_ok());
        let code = |taken: Result<(), Status>| taken.unwrap_err().code();
        let most = HEAD_BYTES + BODY;
        assert_eq!(code(messages.take(&prefix(most + 1))), Code::OutOfRange);
        assert_eq!(code(body().take(&prefix(HEAD_BYTES + 1))), Code::OutOfRange);
    }

    #[test]
    fn a_message_is_charged_while_it_comes() {
        let mut messages = body();
        let used = |messages: &LimitedBody| messages.proxy.memory().bodies.used();
        messages.take(&whole(10)).unwrap();
        // In any pieces, and those of the prefix as well.
        let second = whole(BODY / 2);
        for piece in second[..100 << 10].chunks(3) {
            messages.take(piece).unwrap();
        }
        assert!(used(&messages) >= 100 << 10, "{}", used(&messages));
        messages.take(&second[100 << 10..]).unwrap();
        assert_eq!(used(&messages), 0);
        // Data planes have half of the budget at most.
        messages.take(&prefix(BODY + HEAD_BYTES)).unwrap();
        messages.take(&vec![0; BODY - 1]).unwrap();
        let taken = messages.take(&vec![0; HEAD_BYTES]);
        assert_eq!(taken.unwrap_err().code(), Code::ResourceExhausted);
    }
}
