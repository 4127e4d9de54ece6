//! Numbers of a unit in configuration files: an integer, or a text that names its own unit.

use std::fmt;

use serde::de::{Deserializer, Error, Unexpected, Visitor};

/// Reads a number written as an integer, or as a text for `parse`.
pub(crate) fn deserialize<'de, D, P>(
    deserializer: D,
    expecting: &'static str,
    parse: fn(&str) -> Result<u64, P>,
) -> Result<u64, D::Error>
where
    D: Deserializer<'de>,
    P: fmt::Display,
{
    deserializer.deserialize_any(Number { expecting, parse })
}

struct Number<P> {
    expecting: &'static str,
    parse: fn(&str) -> Result<u64, P>,
}

impl<P: fmt::Display> Visitor<'_> for Number<P> {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expecting)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<u64, E> {
        Ok(value)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<u64, E> {
        u64::try_from(value).map_err(|_| E::invalid_value(Unexpected::Signed(value), &self))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<u64, E> {
        (self.parse)(text).map_err(E::custom)
    }
}
