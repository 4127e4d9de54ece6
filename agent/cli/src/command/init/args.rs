//! Arguments of `init`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;

use tetris_units::size::Bytes;
use tetris_units::size::SizeError;

use super::mount::Huge;
use crate::command::error::{Error, Result};
use crate::command::exit::Code;

/// Share of the RAM that a store may take by default, as for any tmpfs.
pub(super) const DEFAULT_PERCENT: u64 = 50;
/// Huge pages come in this size; a store smaller than one is a mistake.
const HUGE_PAGE: u64 = 2 << 20;

/// Arguments of `init`.
#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// Directory of the store [default: --store; else /run/tetris/store for root, /dev/shm/tetris for
    /// others]
    #[arg(value_name = "DIR")]
    pub(super) dir: Option<PathBuf>,
    /// Most memory that the store may take: 8GiB, 512M, or a share of the RAM [default: 50%]. Changes
    /// the size of a mounted store
    #[arg(long, value_name = "SIZE")]
    pub(super) size: Option<Size>,
    /// Pages of the mount [default: within-size]
    #[arg(long, value_name = "WHEN")]
    pub(super) huge: Option<Huge>,
    /// Permissions of the store's directory, octal [default: 0755]. 0700 keeps others out
    #[arg(long, value_name = "MODE", value_parser = parse_mode)]
    pub(super) mode: Option<u32>,
    /// Remove a store that is there, damaged or of another version, with all its objects, and create a
    /// new one in its place. Refused while processes or a node daemon use it
    #[arg(long)]
    pub(super) recreate: bool,
    /// With --recreate: even if processes or a node daemon use the store
    #[arg(long, requires = "recreate")]
    pub(super) force: bool,
    /// Use the directory as it is, even as root
    #[arg(long, conflicts_with_all = ["size", "huge"])]
    pub(super) no_mount: bool,
}

/// A size in bytes, or as a share of the RAM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Size {
    /// Bytes.
    Bytes(u64),
    /// Hundredths of the RAM.
    Percent(u64),
}

/// The reason that a text is no size of a store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum SizeOfStoreError {
    #[error(transparent)]
    Size(#[from] SizeError),
    #[error("expected 1% to 100%, found `{0}`")]
    Percent(String),
    #[error("expected at least 2MiB, found `{0}`")]
    TooSmall(String),
}

impl FromStr for Size {
    type Err = SizeOfStoreError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(percent) = text.trim().strip_suffix('%') {
            let percent = percent.trim().parse().ok();
            return percent
                .filter(|percent| (1..=100).contains(percent))
                .map(Self::Percent)
                .ok_or_else(|| SizeOfStoreError::Percent(text.to_owned()));
        }
        let Bytes(bytes) = text.parse()?;
        if bytes < HUGE_PAGE {
            return Err(SizeOfStoreError::TooSmall(text.to_owned()));
        }
        Ok(Self::Bytes(bytes))
    }
}

impl Size {
    /// In bytes.
    pub(super) fn bytes(self) -> Result<u64> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            Self::Percent(percent) => {
                let ram = ram()? / 100 * percent;
                Ok((ram - ram % HUGE_PAGE).max(HUGE_PAGE))
            }
        }
    }
}

/// A text that is no mode.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected an octal mode from 0700 to 0777, found `{0}`")]
struct ModeError(String);

fn parse_mode(text: &str) -> Result<u32, ModeError> {
    let mode = u32::from_str_radix(text, 8).ok();
    mode.filter(|mode| mode & !0o777 == 0 && mode & 0o700 == 0o700)
        .ok_or_else(|| ModeError(text.to_owned()))
}

/// Size of the machine's memory in bytes.
pub(super) fn ram() -> Result<u64> {
    let info = nix::sys::sysinfo::sysinfo().map_err(|error| Error::new(Code::Failed, error))?;
    Ok(info.ram_total())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_bytes_or_a_share() {
        assert_eq!("50%".parse(), Ok(Size::Percent(50)));
        assert_eq!("8GiB".parse(), Ok(Size::Bytes(8 << 30)));
        for text in ["0%", "101%", "0", "1M", "%", "x", "-5%"] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_owner_can_always_publish() {
        assert_eq!(parse_mode("0755"), Ok(0o755));
        assert_eq!(parse_mode("700"), Ok(0o700));
        for text in ["0", "555", "1777", "8", "abc", ""] {
            assert!(parse_mode(text).is_err(), "{text}");
        }
    }
}
