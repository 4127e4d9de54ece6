//! Certificates: what is in the secret, what to do about it, and new ones.
//!
//! | | lives | renewed after |
//! |---|---|---|
//! | certificate authority (CA) | [`CA_DAYS`] | two thirds of it |
//! | serving certificate | [`SERVING_DAYS`] | two thirds of it |
//!
//! Guarantees:
//! - A new CA signs nothing served before the next renewal of the serving certificate: until then it only stands
//!   in the bundle, so every API server knows it for weeks when it is first needed.
//! - The old CA stays in the bundle until it expires, so a replica that still serves what it signed is not refused.
//!
//! Assumption: clocks of replicas and API servers differ by less than [`BACKDATED`].

use std::time::Duration;

use rustls::pki_types::CertificateDer;

mod contents;
mod error;
mod issue;
mod plan;
mod serving;
mod validity;

pub use contents::{Authorities, Contents, Leaf, fields};
pub use error::{Flaw, IssueError};
pub use issue::{apply, create};
pub use plan::{Action, Plan, plan};
pub use serving::{Served, Serving};
pub use validity::Validity;

/// Validity of a certificate authority, in days.
pub const CA_DAYS: u64 = 365;
/// Validity of a serving certificate, in days.
pub const SERVING_DAYS: u64 = 90;
/// Time before their creation at which certificates become valid, for clocks that are behind.
pub const BACKDATED: Duration = Duration::from_hours(1);

/// Source of the time, in seconds since 1970.
pub type Clock = std::sync::Arc<dyn Fn() -> i64 + Send + Sync>;

/// The authorities' certificates in PEM, as given to the API server.
pub fn bundle(authorities: &Authorities) -> String {
    authorities.certificates.iter().map(pem).collect()
}

fn pem(certificate: &CertificateDer<'_>) -> String {
    pem::encode_config(
        &pem::Pem::new("CERTIFICATE", certificate.as_ref()),
        pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF),
    )
}

/// The clock of this machine.
pub fn system_clock() -> Clock {
    std::sync::Arc::new(|| {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        since.map_or(0, |since| {
            i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
        })
    })
}
