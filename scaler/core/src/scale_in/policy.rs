//! Policy of scaling in.

use serde::{Deserialize, Serialize};

use super::ScaleInError;
use crate::error::FieldError;
use crate::rate::Rate;

/// Maximum headroom in percent: nine times the load.
const MAX_PERCENT: u32 = 900;

/// Fields of a policy, before they are checked. Missing fields have their defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ScaleInConfig {
    /// Headroom that remaining instances must have after a release, in percent of the load.
    pub keep_percent: u32,
    /// Headroom below which instances are started, in percent of the load; less than
    /// `keep_percent`.
    pub scale_out_percent: u32,
    /// Minimum number of instances.
    pub min_instances: u32,
    /// Maximum number of instances released at once; at least 1.
    pub max_releases: u32,
}

impl ScaleInConfig {
    /// The defaults, as a constant.
    pub const DEFAULT: Self = Self {
        keep_percent: 20,
        scale_out_percent: 5,
        min_instances: 0,
        max_releases: 100,
    };
}

impl Default for ScaleInConfig {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// A validated policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScaleInPolicy(ScaleInConfig);

impl ScaleInPolicy {
    /// Checks every field and the hysteresis.
    ///
    /// # Errors
    ///
    /// Fails if a field is out of range, or if `keep_percent` does not exceed
    /// `scale_out_percent`.
    pub fn try_new(config: ScaleInConfig) -> Result<Self, ScaleInError> {
        let (keep, out) = (config.keep_percent, config.scale_out_percent);
        let most = MAX_PERCENT.into();
        FieldError::check("keep_percent", keep.into(), 0, most)?;
        FieldError::check("scale_out_percent", out.into(), 0, most)?;
        FieldError::check(
            "max_releases",
            config.max_releases.into(),
            1,
            u32::MAX.into(),
        )?;
        if keep <= out {
            return Err(ScaleInError::NoHysteresis {
                keep_percent: keep,
                scale_out_percent: out,
            });
        }
        Ok(Self(config))
    }

    /// Fields of the policy.
    pub const fn config(&self) -> &ScaleInConfig {
        &self.0
    }

    /// Returns the rate that must remain after a release for `load`.
    pub fn needed(&self, load: Rate) -> Rate {
        load.with_headroom(self.0.keep_percent)
    }

    /// Returns the rate to start so that `capacity` carries `load` with the headroom of scaling
    /// out; zero if it does already.
    pub fn residual(&self, load: Rate, capacity: Rate) -> Rate {
        load.with_headroom(self.0.scale_out_percent).minus(capacity)
    }
}
