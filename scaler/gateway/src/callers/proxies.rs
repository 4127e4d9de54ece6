//! Proxies between callers and the gateway, whose forwarded addresses are believed.

use std::net::{IpAddr, SocketAddr};

use hyper::HeaderMap;
use hyper::header::HeaderName;
use ipnet::IpNet;

use super::addresses::Addresses;
use crate::config::CallersConfig;

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
/// Largest number of proxies between a caller and the gateway.
const MOST: usize = 16;

/// Proxies trusted to say for whom they send a request.
#[derive(Clone, Debug)]
pub(super) struct Proxies {
    networks: Vec<IpNet>,
    namespaces: Vec<String>,
}

impl Proxies {
    pub(super) fn new(config: &CallersConfig) -> Self {
        Self {
            networks: config.proxies.clone(),
            namespaces: config.proxy_namespaces.clone(),
        }
    }

    /// Returns the address of the caller of a request from `peer`: of the addresses that trusted proxies added, the last
    /// one that is not a proxy's. `None` if they do not say.
    pub(super) fn caller(
        &self,
        peer: IpAddr,
        headers: &HeaderMap,
        addresses: &Addresses,
    ) -> Option<IpAddr> {
        let mut caller = peer.to_canonical();
        if !self.trust(caller, addresses) {
            return Some(caller);
        }
        // Each proxy adds the address that it got the request from at the end.
        let fields = headers.get_all(FORWARDED_FOR).iter();
        let fields: Vec<_> = fields.map(|value| value.to_str().ok()).collect();
        let hops = fields
            .into_iter()
            .rev()
            .flat_map(|field| field.unwrap_or("?").rsplit(','));
        for hop in hops.take(MOST) {
            caller = address(hop.trim())?;
            if !self.trust(caller, addresses) {
                return Some(caller);
            }
        }
        // The request began in a proxy, or there are too many.
        None
    }

    fn trust(&self, address: IpAddr, addresses: &Addresses) -> bool {
        if self
            .networks
            .iter()
            .any(|network| network.contains(&address))
        {
            return true;
        }
        !self.namespaces.is_empty()
            && addresses.namespace(address).is_some_and(|namespace| {
                self.namespaces
                    .iter()
                    .any(|trusted| **trusted == *namespace)
            })
    }
}

/// Reads an address, which some proxies give with its port.
fn address(text: &str) -> Option<IpAddr> {
    let with_port = || text.parse().ok().map(|address: SocketAddr| address.ip());
    let bare = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'));
    let address = bare.unwrap_or(text).parse().ok().or_else(with_port)?;
    Some(address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROXY: &str = "10.9.0.1";

    fn caller(peer: &str, fields: &[&str]) -> Option<String> {
        let proxies = Proxies {
            networks: vec!["10.9.0.0/24".parse().unwrap()],
            namespaces: Vec::new(),
        };
        let mut headers = HeaderMap::new();
        for field in fields {
            headers.append(FORWARDED_FOR, field.parse().unwrap());
        }
        let caller = proxies.caller(peer.parse().unwrap(), &headers, &Addresses::default());
        caller.map(|address| address.to_string())
    }

    #[test]
    fn what_others_say_of_themselves_is_not_believed() {
        let forged = &["10.0.0.1"][..];
        assert_eq!(caller("10.0.0.9", forged).as_deref(), Some("10.0.0.9"));
        for (fields, expected) in [
            (&["10.0.0.1"][..], Some("10.0.0.1")),
            (&["10.0.0.1, 10.0.0.2"], Some("10.0.0.2")),
            (&["10.0.0.1, 10.0.0.2, 10.9.0.7"], Some("10.0.0.2")),
            (&["10.0.0.1", "10.0.0.3,10.9.0.7"], Some("10.0.0.3")),
            (&["[fd00::1]:80"], Some("fd00::1")),
            (&["[fd00::1]"], Some("fd00::1")),
            (&["10.0.0.4:999"], Some("10.0.0.4")),
            (&["::ffff:10.0.0.5"], Some("10.0.0.5")),
            (&["10.0.0.1, nonsense"], None),
            (&["10.0.0.1, "], None),
            (&["10.0.0.1", "\u{fc}"], None),
            (&[], None),
            (&["10.9.0.2"], None),
        ] {
            assert_eq!(caller(PROXY, fields).as_deref(), expected, "{fields:?}");
        }
    }

    #[test]
    fn no_number_of_proxies_hides_a_caller() {
        let many = vec!["10.9.0.2"; MOST].join(",");
        let field = format!("10.0.0.1,{many}");
        assert_eq!(caller(PROXY, &[&field]), None);
    }
}
