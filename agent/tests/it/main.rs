//! The library as programs use it.

mod examples;
mod fresh;
mod layout;
mod load;
