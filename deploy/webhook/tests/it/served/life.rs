//! Years of renewals: no replica is refused, even one that lags behind.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tetris_webhook::certificates::{Action, Contents, apply, create, plan};

use crate::served::replica::{DAY, SERVER, START};

/// Returns true if a client that trusts `authorities` accepts the served certificate.
fn accepts(
    authorities: &[CertificateDer<'static>],
    chain: &[CertificateDer<'static>],
    now: i64,
) -> bool {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(authorities.iter().cloned());
    let verifier =
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::new(default_provider()))
            .build()
            .unwrap();
    let now = UnixTime::since_unix_epoch(Duration::from_secs(now.try_into().unwrap()));
    let name = ServerName::try_from(SERVER).unwrap();
    verifier
        .verify_server_cert(&chain[0], &chain[1..], &name, &[], now)
        .is_ok()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Looks come after pauses of up to 25 days, for three years and more. At each, an API server that has not heard of the
    /// new authorities accepts the new certificate, and one that has accepts the old.
    #[test]
    fn no_replica_is_refused(pauses in prop::collection::vec(1..25 * DAY, 100)) {
        let mut data = create(START, SERVER).unwrap();
        let mut now = START;
        let mut authorities_made = 0;
        for pause in pauses {
            now += pause;
            let before = Contents::read(&data);
            let (known, served) = (before.authorities.as_ref().unwrap().certificates.clone(), before.leaf.as_ref().unwrap().certified.cert.clone());
            let action = plan(now, &before, SERVER).action;
            prop_assert_ne!(action, Action::Create);
            authorities_made += usize::from(action == Action::RenewCa);
            let Some(made) = apply(action, now, before, SERVER).unwrap() else { continue };
            data = made;
            let after = Contents::read(&data);
            prop_assert_eq!(plan(now, &after, SERVER).action, Action::Keep);
            let after_authorities = after.authorities.unwrap().certificates;
            prop_assert!(accepts(&known, &after.leaf.unwrap().certified.cert, now), "the new one is refused");
            prop_assert!(accepts(&after_authorities, &served, now), "the old one is refused");
            prop_assert!(after_authorities.len() <= 3);
        }
        prop_assert!(authorities_made >= 1);
    }
}
