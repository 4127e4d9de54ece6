//! TLS without an authority, and tokens that are good for one server alone.
//!
//! The server makes its certificate itself at its start, and keeps the key in memory. No authority
//! vouches for it. Therefore the client sends no token that another server would accept: it has one
//! made for the [`audience`] of the certificate that it sees, and the server accepts tokens of its
//! own audience alone.
//!
//! Guarantees:
//! - A process between the two, or one that has got the address of a server that is gone, gets a
//!   token that no other server accepts, and that the API server refuses.
//! - A connection's peer has the key of the certificate whose audience the client knows.
//!
//! Caveats: the client does not know who the server is. It must take the answer as a hint, or
//! check it by other means.

mod client;
mod server;

use std::fmt::Write as _;

pub use client::{BoundClient, BoundStream};
pub use server::{BoundTls, BoundTlsError};

/// Returns the audience of tokens for the server of `service` with this certificate, in DER.
pub fn audience(service: &str, certificate: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, certificate);
    let mut audience = format!("{service}/sha256:");
    for byte in digest.as_ref() {
        // Writing to a string cannot fail.
        let _always = write!(audience, "{byte:02x}");
    }
    audience
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_audience_names_the_service_and_the_certificates_digest() {
        // SHA-256 of nothing, as FIPS 180-4 gives it.
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(audience("kit", b""), format!("kit/sha256:{empty}"));
        assert_ne!(audience("kit", b"a"), audience("kit", b"b"));
    }
}
