//! Body of the picker's response to a call: messages of gRPC, and the call's status.

use std::mem::{replace, take};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{BufMut as _, Bytes, BytesMut};
use hyper::HeaderMap;
use hyper::body::{Body, Frame};
use prost::Message as _;
use tokio::sync::mpsc::Receiver;
use tonic::Status;

use super::answer;
use super::messages::PREFIX;
use super::places::Place;
use super::wire::{Answer, HttpBody, ProcessingResponse};
use crate::proxy::BrokenOff;

/// Largest part of a body in one message: each is copied before it is written.
const PIECE: usize = 64 << 10;

/// Answers of one call.
#[derive(Debug)]
pub(super) struct Answers {
    receiver: Receiver<Result<ProcessingResponse, Status>>,
    /// The rest of a long answer.
    rest: Option<ProcessingResponse>,
    has_ended: bool,
    _place: Place,
}

impl Answers {
    /// Answers that come from `receiver`, for a call that has a place as long as this exists.
    pub(super) const fn new(
        receiver: Receiver<Result<ProcessingResponse, Status>>,
        place: Place,
    ) -> Self {
        Self {
            receiver,
            rest: None,
            has_ended: false,
            _place: place,
        }
    }

    fn end(&mut self, status: &Status) -> Frame<Bytes> {
        self.has_ended = true;
        self.receiver.close();
        let mut trailers = HeaderMap::new();
        // A status without metadata is always valid.
        let _always = status.add_header(&mut trailers);
        Frame::trailers(trailers)
    }
}

impl Body for Answers {
    type Data = Bytes;
    type Error = BrokenOff;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        if self.has_ended {
            return Poll::Ready(None);
        }
        let answer = match self.rest.take() {
            Some(rest) => Some(Ok(rest)),
            None => ready!(self.receiver.poll_recv(cx)),
        };
        let frame = match answer {
            None => self.end(&Status::ok("")),
            Some(Err(status)) => self.end(&status),
            Some(Ok(mut answer)) => match first_piece(&mut answer) {
                Some(piece) => {
                    self.rest = Some(answer);
                    Frame::data(encoded(&piece))
                }
                None => Frame::data(encoded(&answer)),
            },
        };
        Poll::Ready(Some(Ok(frame)))
    }
}

fn encoded(answer: &ProcessingResponse) -> Bytes {
    let length = answer.encoded_len();
    let mut bytes = BytesMut::with_capacity(PREFIX.saturating_add(length));
    bytes.put_u8(0);
    bytes.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    // The space grows as needed.
    let _always = answer.encode(&mut bytes);
    bytes.freeze()
}

/// Cuts a piece off an answer with a long part of a body. The data plane gets the same bytes.
fn first_piece(answer: &mut ProcessingResponse) -> Option<ProcessingResponse> {
    let (is_request, body) = match &mut answer.response {
        Some(Answer::RequestBody(body)) => (true, body),
        Some(Answer::ResponseBody(body)) => (false, body),
        _ => return None,
    };
    let changes = body.response.as_mut()?.body_mutation.as_mut()?;
    let part = changes.streamed_response.as_mut()?;
    if part.body.len() <= PIECE {
        return None;
    }
    let rest = part.body.split_off(PIECE);
    let piece = HttpBody {
        body: replace(&mut part.body, rest),
        end_of_stream: false,
    };
    let piece = answer::body(piece, true);
    let mut first = answer::plain(if is_request {
        Answer::RequestBody(piece)
    } else {
        Answer::ResponseBody(piece)
    });
    first.dynamic_metadata = take(&mut answer.dynamic_metadata);
    Some(first)
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;
    use tokio::sync::mpsc;

    use super::*;
    use crate::picker::places::Places;

    async fn frames(answers: Vec<Result<ProcessingResponse, Status>>) -> Vec<Frame<Bytes>> {
        let (sender, receiver) = mpsc::channel(8);
        for answer in answers {
            sender.send(answer).await.unwrap();
        }
        drop(sender);
        let place = Places::new(2).enter([10, 0, 0, 1].into()).unwrap();
        let mut body = Answers::new(receiver, place);
        let mut frames = Vec::new();
        while let Some(frame) = body.frame().await {
            frames.push(frame.unwrap());
        }
        frames
    }

    fn decoded(frame: &Frame<Bytes>) -> ProcessingResponse {
        let bytes = frame.data_ref().unwrap();
        ProcessingResponse::decode(&bytes[PREFIX..]).unwrap()
    }

    #[tokio::test]
    async fn answers_and_the_status_of_the_end_are_written() {
        let answer = answer::request_headers(None);
        let frames_written = frames(vec![Ok(answer.clone())]).await;
        assert_eq!(frames_written.len(), 2);
        let bytes = frames_written[0].data_ref().unwrap();
        assert_eq!((bytes[0], bytes[4] as usize), (0, bytes.len() - PREFIX));
        assert_eq!(decoded(&frames_written[0]), answer);
        assert_eq!(
            frames_written[1].trailers_ref().unwrap()["grpc-status"],
            "0"
        );

        let written = frames(vec![Err(Status::invalid_argument("a")), Ok(answer)]).await;
        assert_eq!(written.len(), 1, "nothing follows the status");
        assert_eq!(written[0].trailers_ref().unwrap()["grpc-status"], "3");
    }

    #[tokio::test]
    async fn long_parts_of_bodies_are_cut_and_whole_together() {
        let body: Vec<u8> = (0..=PIECE * 2).map(|number| number as u8).collect();
        for wrap in [Answer::RequestBody, Answer::ResponseBody] {
            let part = HttpBody {
                body: Bytes::from(body.clone()),
                end_of_stream: true,
            };
            let written = frames(vec![Ok(answer::plain(wrap(answer::body(part, true))))]).await;
            assert_eq!(written.len(), 4);
            let mut whole = Vec::new();
            for (number, frame) in written.iter().take(3).enumerate() {
                let Some(Answer::RequestBody(body) | Answer::ResponseBody(body)) =
                    decoded(frame).response
                else {
                    panic!("expected a part of a body");
                };
                let changes = body.response.unwrap().body_mutation.unwrap();
                let part = changes.streamed_response.unwrap();
                assert_eq!(part.end_of_stream, number == 2);
                whole.extend_from_slice(&part.body);
            }
            assert_eq!(whole, body);
        }
    }
}
