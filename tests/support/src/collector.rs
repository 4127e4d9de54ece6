//! A collector of traces: the gRPC service of OTLP, which keeps the spans.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::{Identity, Server, ServerTlsConfig};
use tonic::{Request, Response, Status};

/// Longest wait for a span.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(20);

/// A span that arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectedSpan {
    /// Name of the service that it is of.
    pub service: String,
    /// Its name.
    pub name: String,
    /// Identifier of its trace, in hexadecimal digits.
    pub trace: String,
    /// Its identifier.
    pub id: String,
    /// Identifier of its parent; empty for a root.
    pub parent: String,
    /// Its attributes as texts.
    pub attributes: Vec<(String, String)>,
    /// Names and attributes of its events.
    pub events: Vec<(String, Vec<(String, String)>)>,
}

impl CollectedSpan {
    /// Value of an attribute.
    pub fn attribute(&self, name: &str) -> Option<&str> {
        value_of(&self.attributes, name)
    }

    /// Value of an attribute of the event `event`.
    pub fn event_attribute(&self, event: &str, name: &str) -> Option<&str> {
        let (_, attributes) = self.events.iter().find(|(found, _)| found == event)?;
        value_of(attributes, name)
    }
}

fn value_of<'a>(attributes: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let pair = attributes.iter().find(|(key, _)| key == name);
    pair.map(|(_, value)| value.as_str())
}

/// A collector on a port of the loopback address.
#[derive(Debug)]
pub struct Collector {
    address: SocketAddr,
    scheme: &'static str,
    spans: Spans,
    /// The collector stops when this is dropped.
    _stop: oneshot::Sender<()>,
}

#[derive(Clone, Debug, Default)]
struct Spans(Arc<Mutex<Vec<CollectedSpan>>>);

impl Collector {
    /// Starts one.
    ///
    /// # Panics
    ///
    /// If the machine has no port or thread for it.
    pub fn start() -> Self {
        Self::serve(Server::builder(), "http")
    }

    /// Starts one that speaks TLS with this certificate and key, both in PEM.
    ///
    /// # Panics
    ///
    /// As [`Self::start`], or if the certificate is none.
    pub fn start_tls(certificate: &str, key: &str) -> Self {
        let identity = Identity::from_pem(certificate, key);
        let tls = ServerTlsConfig::new().identity(identity);
        Self::serve(Server::builder().tls_config(tls).unwrap(), "https")
    }

    fn serve(mut server: Server, scheme: &'static str) -> Self {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let spans = Spans::default();
        let service = TraceServiceServer::new(spans.clone());
        // Also within a test's runtime, which has no other one inside.
        std::thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let incoming = TcpListenerStream::new(TcpListener::from_std(listener).unwrap());
                let serving = server.add_service(service);
                let served = serving.serve_with_incoming_shutdown(incoming, async {
                    let _dropped: Result<(), _> = stopped.await;
                });
                served.await.unwrap();
            });
        });
        Self {
            address,
            scheme,
            spans,
            _stop: stop,
        }
    }

    /// URL for exporters.
    pub fn endpoint(&self) -> String {
        format!("{}://{}", self.scheme, self.address)
    }

    /// Spans that have arrived.
    pub fn spans(&self) -> Vec<CollectedSpan> {
        self.spans.lock().clone()
    }

    /// Waits for a span that `is_wanted`.
    ///
    /// # Panics
    ///
    /// If none comes.
    pub fn wait(&self, is_wanted: impl Fn(&CollectedSpan) -> bool) -> CollectedSpan {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let spans = self.spans();
            if let Some(span) = spans.iter().find(|span| is_wanted(span)) {
                return span.clone();
            }
            assert!(Instant::now() <= deadline, "no such span among {spans:#?}");
            std::thread::sleep(LOOK);
        }
    }
}

impl Spans {
    fn lock(&self) -> MutexGuard<'_, Vec<CollectedSpan>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[tonic::async_trait]
impl TraceService for Spans {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        for of_resource in request.into_inner().resource_spans {
            let resource = of_resource.resource.unwrap_or_default();
            let resource = texts(resource.attributes);
            let service = value_of(&resource, "service.name").unwrap_or_default();
            let of_scopes = of_resource.scope_spans.into_iter();
            let collected = of_scopes
                .flat_map(|scope| scope.spans)
                .map(|span| CollectedSpan {
                    service: service.to_owned(),
                    name: span.name,
                    trace: hex(&span.trace_id),
                    id: hex(&span.span_id),
                    parent: hex(&span.parent_span_id),
                    attributes: texts(span.attributes),
                    events: span
                        .events
                        .into_iter()
                        .map(|event| (event.name, texts(event.attributes)))
                        .collect(),
                });
            self.lock().extend(collected);
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

fn texts(attributes: Vec<KeyValue>) -> Vec<(String, String)> {
    let text = |value: Option<AnyValue>| match value.and_then(|value| value.value) {
        Some(Value::StringValue(text)) => text,
        Some(Value::IntValue(number)) => number.to_string(),
        Some(Value::BoolValue(is)) => is.to_string(),
        other => format!("{other:?}"),
    };
    let attributes = attributes.into_iter();
    attributes
        .map(|attribute| (attribute.key, text(attribute.value)))
        .collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}
