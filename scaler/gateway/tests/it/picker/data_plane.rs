//! A data plane: one stream for each request.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::{BufMut as _, Bytes};
use hyper::http::uri::PathAndQuery;
use tetris_gateway::picker::wire::{
    Answer, AppendAction, BodyMode, BodyResponse, CommonResponse, HeaderMap, HeaderValue, HttpBody,
    HttpHeaders, HttpTrailers, ImmediateResponse, Kind, ListValue, Metadata, Part,
    ProcessingRequest, ProcessingResponse, ProtocolConfiguration, Struct, Value,
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::codec::{Codec, EncodeBuf, Encoder};
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status, Streaming};
use tonic_prost::{ProstCodec, ProstDecoder};

/// Time after which a test has failed, and does not wait any longer.
const DEADLINE: Duration = Duration::from_mins(1);
const DESTINATION: &str = "x-gateway-destination-endpoint";

pub async fn client(address: SocketAddr) -> tonic::client::Grpc<Channel> {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    let mut client = tonic::client::Grpc::new(endpoint.connect().await.unwrap());
    client.ready().await.unwrap();
    client
}

const PROCESS: PathAndQuery =
    PathAndQuery::from_static("/envoy.service.ext_proc.v3.ExternalProcessor/Process");

/// Sends one message as it is, and ends the messages.
pub async fn send_raw(address: SocketAddr, message: Bytes) -> Streaming<ProcessingResponse> {
    let request = Request::new(tokio_stream::iter([message]));
    let answers = client(address)
        .await
        .streaming(request, PROCESS, RawCodec)
        .await;
    answers.unwrap().into_inner()
}

/// Writes messages as they are.
struct RawCodec;

impl Codec for RawCodec {
    type Encode = Bytes;
    type Decode = ProcessingResponse;
    type Encoder = Self;
    type Decoder = ProstDecoder<ProcessingResponse>;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self::Decoder {
        ProstDecoder::default()
    }
}

impl Encoder for RawCodec {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put(message);
        Ok(())
    }
}

/// A stream of one request.
pub struct Stream {
    sender: Option<mpsc::Sender<ProcessingRequest>>,
    answers: Streaming<ProcessingResponse>,
    modes: Option<ProtocolConfiguration>,
}

impl Stream {
    /// Opens a stream with modes of the request's and the response's body.
    pub async fn open(address: SocketAddr, request: BodyMode, response: BodyMode) -> Self {
        let mut stream = Self::try_open(address).await.unwrap();
        stream.modes = Some(ProtocolConfiguration {
            request_body_mode: request.into(),
            response_body_mode: response.into(),
        });
        stream
    }

    /// Opens a stream whose first message has no modes.
    pub async fn try_open(address: SocketAddr) -> Result<Self, Status> {
        Self::open_on(client(address).await).await
    }

    /// Opens streams whose first message has no modes, on one connection.
    pub async fn try_open_many(address: SocketAddr, count: usize) -> Result<Vec<Self>, Status> {
        let client = client(address).await;
        let opened = (0..count).map(|_| Self::open_on(client.clone()));
        futures::future::try_join_all(opened).await
    }

    async fn open_on(mut client: tonic::client::Grpc<Channel>) -> Result<Self, Status> {
        let (sender, receiver) = mpsc::channel(4);
        let request = Request::new(ReceiverStream::new(receiver));
        let codec = ProstCodec::default();
        client.ready().await.unwrap();
        let answers = client.streaming(request, PROCESS, codec).await?;
        Ok(Self {
            sender: Some(sender),
            answers: answers.into_inner(),
            modes: None,
        })
    }

    pub async fn send(&mut self, part: Part) {
        self.send_with(part, None).await;
    }

    pub async fn send_with(&mut self, part: Part, metadata: Option<Metadata>) {
        let message = ProcessingRequest {
            request: Some(part),
            metadata_context: metadata,
            ..ProcessingRequest::default()
        };
        self.send_message(message).await;
    }

    pub async fn send_message(&mut self, mut message: ProcessingRequest) {
        message.protocol_config = self.modes.take();
        // It fails once the picker has broken the stream off.
        drop(self.sender.as_ref().unwrap().send(message).await);
    }

    /// Ends the messages, and keeps listening.
    pub fn half_close(&mut self) {
        self.sender = None;
    }

    /// Returns the next answer, or `None` at the end.
    pub async fn next(&mut self) -> Result<Option<ProcessingResponse>, Status> {
        let next = tokio::time::timeout(DEADLINE, self.answers.message()).await;
        next.expect("an answer comes")
    }

    pub async fn answer(&mut self) -> ProcessingResponse {
        self.next().await.unwrap().expect("the stream goes on")
    }

    /// Sends a part, and returns the answer.
    pub async fn ask(&mut self, part: Part) -> ProcessingResponse {
        self.send(part).await;
        self.answer().await
    }

    /// Returns the instance of a request without a body.
    pub async fn picked(&mut self, path: &str) -> SocketAddr {
        picked(&self.ask(head(path, true)).await).expect("an instance")
    }

    /// Returns the refusal of a request without a body, and reads the stream's end.
    pub async fn refused(&mut self, part: Part, metadata: Option<Metadata>) -> ImmediateResponse {
        self.send_with(part, metadata).await;
        let Some(Answer::Immediate(response)) = self.answer().await.response else {
            panic!("expected a refusal");
        };
        assert_eq!(self.next().await.unwrap(), None, "the stream ends");
        response
    }
}

pub fn headers(all: &[(&str, &str)]) -> HeaderMap {
    let headers = all.iter().map(|&(key, value)| HeaderValue {
        key: key.to_owned(),
        value: String::new(),
        raw_value: Bytes::from(value.to_owned()),
    });
    HeaderMap {
        headers: headers.collect(),
    }
}

/// Head of a request.
pub fn head(path: &str, end_of_stream: bool) -> Part {
    head_with(path, end_of_stream, &[])
}

pub fn head_with(path: &str, end_of_stream: bool, more: &[(&str, &str)]) -> Part {
    let usual = [
        (":method", "POST"),
        (":path", path),
        (":authority", "gateway"),
    ];
    let all: Vec<_> = usual.iter().chain(more).copied().collect();
    Part::RequestHeaders(HttpHeaders {
        headers: Some(headers(&all)),
        end_of_stream,
    })
}

/// Part of a request's body.
pub fn body(text: &str, end_of_stream: bool) -> Part {
    Part::RequestBody(part(text, end_of_stream))
}

pub fn part(text: &str, end_of_stream: bool) -> HttpBody {
    HttpBody {
        body: Bytes::from(text.to_owned()),
        end_of_stream,
    }
}

/// Head of a response.
pub fn response(status: &str, end_of_stream: bool) -> Part {
    Part::ResponseHeaders(HttpHeaders {
        headers: Some(headers(&[(":status", status)])),
        end_of_stream,
    })
}

/// Part of a response's body.
pub fn response_body(text: &str, end_of_stream: bool) -> Part {
    Part::ResponseBody(part(text, end_of_stream))
}

pub fn response_trailers() -> Part {
    Part::ResponseTrailers(HttpTrailers {
        trailers: Some(headers(&[("grpc-status", "0")])),
    })
}

fn metadata(namespace: &str, key: &str, value: Value) -> Metadata {
    let fields = HashMap::from([(key.to_owned(), value)]);
    Metadata {
        filter_metadata: HashMap::from([(namespace.to_owned(), Struct { fields })]),
    }
}

/// Metadata with a subset of instances.
pub fn subset(addresses: &[SocketAddr]) -> Metadata {
    let values = addresses
        .iter()
        .map(|address| Value::text(address.to_string()));
    let list = Kind::List(ListValue {
        values: values.collect(),
    });
    let key = "x-gateway-destination-endpoint-subset";
    metadata("envoy.lb.subset_hint", key, Value { kind: Some(list) })
}

/// Metadata with the instance that served.
pub fn served(address: SocketAddr) -> Metadata {
    let key = "x-gateway-destination-endpoint-served";
    metadata("envoy.lb", key, Value::text(address.to_string()))
}

/// Changes of a head or body.
pub fn changes(answer: &ProcessingResponse) -> Option<&CommonResponse> {
    match answer.response.as_ref()? {
        Answer::RequestHeaders(head) | Answer::ResponseHeaders(head) => head.response.as_ref(),
        Answer::RequestBody(body) | Answer::ResponseBody(body) => body.response.as_ref(),
        _ => None,
    }
}

/// Value that a header is set to, over one that is there.
pub fn set(answer: &ProcessingResponse, name: &str) -> Option<String> {
    let mutation = changes(answer)?.header_mutation.as_ref()?;
    let named = |one: &&_| key(one) == name;
    let option = mutation.set_headers.iter().find(named)?;
    assert_eq!(option.append_action(), AppendAction::OverwriteIfExistsOrAdd);
    let value = option.header.as_ref()?.raw_value.to_vec();
    Some(String::from_utf8(value).unwrap())
}

/// Names of headers that are taken out of a head.
pub fn removed(answer: &ProcessingResponse) -> Vec<String> {
    let mutation = changes(answer).and_then(|changes| changes.header_mutation.as_ref());
    mutation.map_or_else(Vec::new, |mutation| mutation.remove_headers.clone())
}

fn key(option: &tetris_gateway::picker::wire::HeaderValueOption) -> &str {
    &option.header.as_ref().unwrap().key
}

/// The picked instance, which header and metadata name alike.
pub fn picked(answer: &ProcessingResponse) -> Option<SocketAddr> {
    let header = set(answer, DESTINATION);
    let outer = answer.dynamic_metadata.as_ref();
    let inner = outer.and_then(|outer| match &outer.fields["envoy.lb"].kind {
        Some(Kind::Object(inner)) => inner.fields.get(DESTINATION),
        _ => None,
    });
    let metadata = inner.map(|value| match &value.kind {
        Some(Kind::Text(text)) => text.clone(),
        other => panic!("{other:?}"),
    });
    if !matches!(answer.response, Some(Answer::RequestTrailers(_))) {
        assert_eq!(header, metadata);
    }
    metadata.map(|address| address.parse().unwrap())
}

/// The part of a body that an answer carries back.
pub fn carried(answer: &ProcessingResponse) -> Option<HttpBody> {
    let Some(
        Answer::RequestBody(BodyResponse { response })
        | Answer::ResponseBody(BodyResponse { response }),
    ) = &answer.response
    else {
        panic!("expected an answer to a body, found {answer:?}");
    };
    response
        .as_ref()?
        .body_mutation
        .as_ref()?
        .streamed_response
        .clone()
}
