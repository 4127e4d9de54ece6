//! Tests of the common parts of the daemons.

mod http;
mod logs;
