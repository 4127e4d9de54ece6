//! Metrics for Prometheus. Labels have values known in advance, so the number of series is bounded.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use tetris_service_kit::metrics::{ByLabel, encode, register_build_info};

use crate::certificates::Action;
use crate::inject::InjectionOutcome;

/// Upper bounds of answers' durations, in seconds. A pod of 100 KiB takes about a millisecond.
const SECONDS: [f64; 8] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1.0];

/// Class of an error while the objects in the cluster are kept true.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SyncErrorClass {
    /// The API server cannot be reached, or refuses.
    Api,
    /// Another replica was faster.
    Conflict,
    /// An administrator must correct an object.
    Configuration,
    /// Certificates cannot be made.
    Certificate,
}

impl SyncErrorClass {
    /// All classes.
    pub const ALL: [Self; 4] = [
        Self::Api,
        Self::Conflict,
        Self::Configuration,
        Self::Certificate,
    ];

    /// Value of the label `class`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Api => "api",
            Self::Conflict => "conflict",
            Self::Configuration => "configuration",
            Self::Certificate => "certificate",
        }
    }
}

/// The webhook's metrics.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    reviews: ByLabel,
    malformed: Counter,
    warnings: Counter,
    seconds: Histogram,
    handshakes: ByLabel,
    certificates: ByLabel,
    errors: ByLabel,
    serving_expires: Gauge,
    ca_expires: Gauge,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("tetris_webhook"),
            reviews: ByLabel::default(),
            malformed: Counter::default(),
            warnings: Counter::default(),
            seconds: Histogram::new(SECONDS),
            handshakes: ByLabel::default(),
            certificates: ByLabel::default(),
            errors: ByLabel::default(),
            serving_expires: Gauge::default(),
            ca_expires: Gauge::default(),
        };
        metrics.register();
        metrics.start_at_zero();
        metrics
    }
}

impl Metrics {
    #[rustfmt::skip]
    fn register(&mut self) {
        let registry = &mut self.registry;
        register_build_info(registry, "The webhook's version; always 1", env!("CARGO_PKG_VERSION"));
        registry.register("reviews", "Pods reviewed, by outcome", self.reviews.clone());
        registry.register("malformed_requests", "Requests that could not be read", self.malformed.clone());
        registry.register("warnings", "Warnings given to pods' authors", self.warnings.clone());
        registry.register_with_unit("review", "Time to answer a request that was received", Unit::Seconds, self.seconds.clone());
        registry.register("connections", "Connections over HTTPS, by result of the handshake", self.handshakes.clone());
        registry.register("certificates_issued", "Certificates made by this replica, by kind", self.certificates.clone());
        registry.register("sync_errors", "Failed attempts to keep the certificates in the cluster true, by class", self.errors.clone());
        registry.register_with_unit("certificate_expiry_timestamp", "When the certificate that is served expires; 0 before there is one", Unit::Seconds, self.serving_expires.clone());
        registry.register_with_unit("ca_expiry_timestamp", "When the certificate authority that signs expires; 0 before there is one", Unit::Seconds, self.ca_expires.clone());
    }

    fn start_at_zero(&self) {
        for outcome in InjectionOutcome::ALL {
            drop(self.reviews.get_or_create(&[("outcome", outcome.name())]));
        }
        for result in ["ok", "failed"] {
            drop(self.handshakes.get_or_create(&[("handshake", result)]));
        }
        for action in Action::ISSUING {
            drop(self.certificates.get_or_create(&[("kind", action.name())]));
        }
        for class in SyncErrorClass::ALL {
            drop(self.errors.get_or_create(&[("class", class.name())]));
        }
    }

    /// A request was answered, after this time and with so many warnings.
    pub fn reviewed(&self, outcome: InjectionOutcome, warnings: usize, seconds: f64) {
        self.reviews
            .get_or_create(&[("outcome", outcome.name())])
            .inc();
        self.warnings.inc_by(warnings as u64);
        self.seconds.observe(seconds);
    }

    /// A request could not be read.
    pub fn malformed(&self) {
        self.malformed.inc();
    }

    /// A client came. Handshakes fail when it does not trust the certificate.
    pub fn handshake(&self, ok: bool) {
        let result = if ok { "ok" } else { "failed" };
        self.handshakes
            .get_or_create(&[("handshake", result)])
            .inc();
    }

    /// This replica made certificates.
    pub fn issued(&self, action: Action) {
        self.certificates
            .get_or_create(&[("kind", action.name())])
            .inc();
    }

    /// The objects in the cluster could not be kept true.
    pub fn failed(&self, class: SyncErrorClass) {
        self.errors.get_or_create(&[("class", class.name())]).inc();
    }

    /// Sets the times at which certificates expire, in seconds since 1970.
    pub fn expires(&self, serving: i64, ca: i64) {
        self.serving_expires.set(serving);
        self.ca_expires.set(ca);
    }

    /// All of it as OpenMetrics text.
    pub fn encode(&self) -> Result<String, std::fmt::Error> {
        encode([&self.registry])
    }
}
