//! How careful releases are.

use serde::{Deserialize, Serialize};

use super::ScaleInError;
use crate::error::FieldError;
use crate::rate::Rate;

/// The most headroom: ten times the load.
const MAX_PERMILLE: u32 = 9_000;

/// A policy as it is written down. Fields that are left out have their defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ScaleInConfig {
    /// What those that stay must carry beyond the load, in thousandths of it.
    pub keep_permille: u32,
    /// Below which headroom instances are started, in thousandths of the load; less than `keep_permille`.
    pub scale_out_permille: u32,
    /// So many instances stay, whatever the load.
    pub min_instances: u32,
    /// So many instances go at once, at most; at least 1.
    pub max_releases: u32,
}

impl Default for ScaleInConfig {
    fn default() -> Self {
        Self {
            keep_permille: 200,
            scale_out_permille: 50,
            min_instances: 0,
            max_releases: 100,
        }
    }
}

/// A policy that has been checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScaleInPolicy(ScaleInConfig);

impl ScaleInPolicy {
    /// Checks every field, and that there is hysteresis.
    pub fn try_new(config: ScaleInConfig) -> Result<Self, ScaleInError> {
        let (keep, out) = (config.keep_permille, config.scale_out_permille);
        let most = MAX_PERMILLE.into();
        FieldError::check("keep_permille", keep.into(), 0, most)?;
        FieldError::check("scale_out_permille", out.into(), 0, most)?;
        FieldError::check(
            "max_releases",
            config.max_releases.into(),
            1,
            u32::MAX.into(),
        )?;
        if keep <= out {
            return Err(ScaleInError::NoHysteresis {
                keep_permille: keep,
                scale_out_permille: out,
            });
        }
        Ok(Self(config))
    }

    /// What it was made of.
    pub const fn config(&self) -> &ScaleInConfig {
        &self.0
    }

    /// What must remain after a release for `load`.
    pub fn needed(&self, load: Rate) -> Rate {
        load.with_headroom(self.0.keep_permille)
    }

    /// What must be started so that `capacity` carries `load` with the headroom of scaling out; zero if it
    /// does.
    pub fn residual(&self, load: Rate, capacity: Rate) -> Rate {
        load.with_headroom(self.0.scale_out_permille)
            .minus(capacity)
    }
}
