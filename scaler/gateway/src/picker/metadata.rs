//! Metadata of a message: the subset of instances, and the one that served.

use std::net::{IpAddr, SocketAddr};

use hyper::StatusCode;

use super::decoding::VALUES;
use super::wire::{Kind, Metadata, Value};
use crate::problem::Problem;

/// Header and metadata of the picked instance.
pub(super) const DESTINATION: &str = "x-gateway-destination-endpoint";
/// Namespace of that metadata.
pub(super) const LOAD_BALANCING: &str = "envoy.lb";
const SERVED: &str = "x-gateway-destination-endpoint-served";
const SUBSET_HINT: &str = "envoy.lb.subset_hint";
const SUBSET: &str = "x-gateway-destination-endpoint-subset";

/// Instances that a request may go to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Subset {
    addresses: Vec<SocketAddr>,
    hosts: Vec<IpAddr>,
}

impl Subset {
    /// Reads the hint of a message. Data planes write it as a list, or as one text with commas. A
    /// hint of another form allows no instance.
    ///
    /// # Errors
    ///
    /// The answer to the client of a request with more than [`VALUES`] addresses.
    pub(super) fn of(metadata: Option<&Metadata>) -> Result<Option<Self>, Problem> {
        let Some(hint) = entry(metadata, SUBSET_HINT, SUBSET) else {
            return Ok(None);
        };
        let mut subset = Self::default();
        match &hint.kind {
            Some(Kind::Text(text)) => subset.add(text)?,
            Some(Kind::List(list)) => {
                for value in &list.values {
                    if let Some(Kind::Text(text)) = &value.kind {
                        subset.add(text)?;
                    }
                }
            }
            Some(Kind::Object(_)) | None => {}
        }
        Ok(Some(subset))
    }

    fn add(&mut self, text: &str) -> Result<(), Problem> {
        for entry in text.split(',').map(str::trim) {
            if let Ok(address) = entry.parse::<SocketAddr>() {
                self.addresses.push(address);
            } else if let Ok(host) = entry.parse::<IpAddr>() {
                self.hosts.push(host);
            }
            if self.addresses.len().saturating_add(self.hosts.len()) > VALUES {
                let problem = format!("the subset of instances has more than {VALUES} addresses");
                return Err(Problem::new(
                    StatusCode::BAD_REQUEST,
                    "bad-request",
                    problem,
                ));
            }
        }
        Ok(())
    }

    pub(super) fn contains(&self, address: SocketAddr) -> bool {
        self.addresses.contains(&address) || self.hosts.contains(&address.ip())
    }
}

/// Address of the instance that served, if the data plane reports it.
pub(super) fn served(metadata: Option<&Metadata>) -> Option<SocketAddr> {
    match &entry(metadata, LOAD_BALANCING, SERVED)?.kind {
        Some(Kind::Text(text)) => text.trim().parse().ok(),
        _ => None,
    }
}

fn entry<'a>(metadata: Option<&'a Metadata>, namespace: &str, key: &str) -> Option<&'a Value> {
    metadata?.filter_metadata.get(namespace)?.fields.get(key)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::picker::wire::{ListValue, Struct};

    fn metadata(namespace: &str, key: &str, value: Value) -> Metadata {
        let fields = HashMap::from([(key.to_owned(), value)]);
        Metadata {
            filter_metadata: HashMap::from([(namespace.to_owned(), Struct { fields })]),
        }
    }

    fn allows(kind: Option<Kind>, address: &str) -> bool {
        let metadata = metadata(SUBSET_HINT, SUBSET, Value { kind });
        let subset = Subset::of(Some(&metadata)).unwrap().unwrap();
        subset.contains(address.parse().unwrap())
    }

    #[test]
    fn a_subset_is_a_list_or_a_text_of_addresses_and_hosts() {
        let list = |texts: &[&str]| {
            let values = texts.iter().map(|&text| Value::text(text)).collect();
            Some(Kind::List(ListValue { values }))
        };
        let text = |text: &str| Some(Kind::Text(text.to_owned()));
        assert!(allows(list(&["10.0.0.1:80", "10.0.0.2:80"]), "10.0.0.2:80"));
        assert!(allows(text("10.0.0.1:80, [::1]:80"), "[::1]:80"));
        assert!(allows(text("10.0.0.1"), "10.0.0.1:8001"));
        assert!(!allows(text("10.0.0.1:80"), "10.0.0.1:81"));
        for nothing in [None, list(&[]), text(""), text("somewhere:80")] {
            assert!(!allows(nothing.clone(), "10.0.0.1:80"), "{nothing:?}");
        }
        assert_eq!(Subset::of(None), Ok(None));
        assert_eq!(
            Subset::of(Some(&metadata("other", SUBSET, Value::text("")))),
            Ok(None)
        );
    }

    #[test]
    fn a_subset_has_no_more_addresses_than_messages_have_values() {
        let of = |count| {
            let text = Value::text("::1,".repeat(count));
            Subset::of(Some(&metadata(SUBSET_HINT, SUBSET, text)))
        };
        assert!(of(VALUES).is_ok());
        assert_eq!(of(VALUES + 1).unwrap_err().status, StatusCode::BAD_REQUEST);
    }

    #[test]
    fn the_served_instance_is_read_where_it_is_an_address() {
        let of = |text| served(Some(&metadata(LOAD_BALANCING, SERVED, Value::text(text))));
        assert_eq!(of("10.0.0.1:80"), Some("10.0.0.1:80".parse().unwrap()));
        assert_eq!(of("fail"), None);
    }
}
