//! Tests of the common parts of the daemons.

mod http;
mod logs;
#[cfg(feature = "unix-http")]
mod unix_http;
