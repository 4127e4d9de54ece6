//! Address of a client.

use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};

/// Address of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientAddress(pub SocketAddr);

impl ClientAddress {
    /// Appends the IP address to `text`. Each request has it, and an IPv4 address is written without
    /// [`std::fmt`]: at a low rate a request's time is that of code which the caches do not hold.
    pub(crate) fn write_ip(self, text: &mut Vec<u8>) {
        let IpAddr::V4(ip) = self.0.ip() else {
            // Writing to memory cannot fail.
            let _written = write!(text, "{}", self.0.ip());
            return;
        };
        let mut dot = None;
        for octet in ip.octets() {
            text.extend(dot);
            let digits = [octet / 100, octet / 10 % 10, octet % 10];
            let zeros = match octet {
                0..10 => 2,
                10..100 => 1,
                100.. => 0,
            };
            text.extend(digits.iter().skip(zeros).map(|digit| b'0' + digit));
            dot = Some(b'.');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_written_as_the_standard_library_writes_them() {
        for octet in 0..=255_u8 {
            let ip = IpAddr::from([octet, 0, 255 - octet, 10]);
            let mut text = b"1.2.3.4, ".to_vec();
            ClientAddress((ip, 80).into()).write_ip(&mut text);
            assert_eq!(text, format!("1.2.3.4, {ip}").into_bytes());
        }
        let mut text = Vec::new();
        ClientAddress("[2001:db8::1]:80".parse().unwrap()).write_ip(&mut text);
        assert_eq!(text, b"2001:db8::1");
    }
}
