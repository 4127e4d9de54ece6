//! Calls under way, within limits: each keeps the head of its request until it is answered.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr};
use std::pin::Pin;
use std::task::{Context, Poll};

use tetris_service_kit::clients::Clients;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::{Service, http};
use tonic::server::NamedService;
use tonic::transport::server::TcpConnectInfo;

/// A service that refuses calls of an address which has too many under way. A stream is not under way once its first
/// message has come.
#[derive(Clone, Debug)]
pub(super) struct LimitedCalls<S> {
    service: S,
    clients: Clients,
}

impl<S> LimitedCalls<S> {
    pub(super) const fn new(service: S, clients: Clients) -> Self {
        Self { service, clients }
    }
}

impl<S: NamedService> NamedService for LimitedCalls<S> {
    const NAME: &'static str = S::NAME;
}

impl<S, B> Service<http::Request<B>> for LimitedCalls<S>
where
    S: Service<http::Request<B>, Response = http::Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.service.poll_ready(cx)
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let Some(place) = self.clients.enter(address(&request)) else {
            let refused = Status::resource_exhausted("too many calls are under way; retry");
            return Box::pin(std::future::ready(Ok(refused.into_http())));
        };
        let answer = self.service.call(request);
        Box::pin(async move {
            let answer = answer.await;
            drop(place);
            answer
        })
    }
}

/// The client's address. One without is not on the network.
fn address<B>(request: &http::Request<B>) -> IpAddr {
    let info = request.extensions().get::<TcpConnectInfo>();
    let address = info.and_then(TcpConnectInfo::remote_addr);
    address.map_or(Ipv4Addr::LOCALHOST.into(), |address| address.ip())
}
