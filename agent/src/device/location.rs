//! Names of devices.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// Device memory requested for a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Target {
    /// A GPU that the mirror chooses: the one that has most of the model.
    AnyCuda,
    /// The GPU of this number, among those that this process sees.
    Cuda(u32),
    /// The host memory of a mirror that runs without a GPU.
    Simulated,
}

/// Location of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Location {
    /// In the memory of the GPU of this number, among those that this process sees.
    Cuda(u32),
    /// In the mirror's host memory.
    Simulated,
}

/// A name of no device.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("expected \"cuda\", \"cuda:N\" with a number such as 0, or \"simulated\", found {found:?}")]
pub struct TargetError {
    /// The name, or its first 64 characters.
    pub found: String,
}

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(name: &str) -> Result<Self, TargetError> {
        let number = |digits: &str| {
            let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
            let number = digits.parse().ok().filter(|_| plain)?;
            // Each device has one name.
            (digits == "0" || !digits.starts_with('0')).then_some(number)
        };
        let found = match name.split_once(':') {
            None if name == "cuda" => Some(Self::AnyCuda),
            None if name == "simulated" => Some(Self::Simulated),
            Some(("cuda", digits)) => number(digits).map(Self::Cuda),
            _ => None,
        };
        found.ok_or_else(|| TargetError {
            found: name.chars().take(64).collect(),
        })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AnyCuda => f.write_str("cuda"),
            Self::Cuda(number) => Location::Cuda(*number).fmt(f),
            Self::Simulated => Location::Simulated.fmt(f),
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cuda(number) => write!(f, "cuda:{number}"),
            Self::Simulated => f.write_str("simulated"),
        }
    }
}

impl Target {
    /// Returns true if `location` is the requested device.
    pub(super) fn is_met_by(self, location: Location) -> bool {
        match (self, location) {
            (Self::AnyCuda, Location::Cuda(_)) | (Self::Simulated, Location::Simulated) => true,
            (Self::Cuda(asked), Location::Cuda(found)) => asked == found,
            _ => false,
        }
    }
}

impl From<Location> for Target {
    fn from(location: Location) -> Self {
        match location {
            Location::Cuda(number) => Self::Cuda(number),
            Location::Simulated => Self::Simulated,
        }
    }
}
