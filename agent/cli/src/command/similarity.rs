//! `tetris similarity`: the share of one model that is in another.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use tetris_agent::TensorSet;
use tetris_units::size::Bytes;

use super::error::Result;
use super::lookup::manifests;
use super::output::Output;
use tetris_agent::store_location::StoreLocation;

/// Arguments of `similarity`.
#[derive(Debug, Args)]
pub(crate) struct SimilarityArgs {
    /// A model's path, or the first digits of a manifest's id, at least 4
    a: PathBuf,
    /// The other model, in the same way
    b: PathBuf,
}

/// Runs `similarity`.
pub(crate) fn run(args: &SimilarityArgs, location: &StoreLocation, out: &mut Output) -> Result {
    let set = |text: &Path| -> Result<TensorSet> {
        let manifests = manifests(text, location)?;
        Ok(TensorSet::of(
            manifests.iter().map(|(_, manifest)| manifest),
        ))
    };
    let (a, b) = (set(&args.a)?, set(&args.b)?);
    let common = a.similarity(&b);
    if out.is_json() {
        return out.json(&json!({
            "theta_ab": common.theta(),
            "theta_ba": common.theta_reverse(),
            "a_bytes": common.a_bytes,
            "b_bytes": common.b_bytes,
            "common_bytes": common.common_bytes,
            "common_tensors": common.common_tensors,
        }));
    }
    let (a, b) = (args.a.display(), args.b.display());
    out.fields(&[
        (
            "A",
            format!("{a}, {} in distinct tensors", Bytes(common.a_bytes)),
        ),
        (
            "B",
            format!("{b}, {} in distinct tensors", Bytes(common.b_bytes)),
        ),
        (
            "in both",
            format!(
                "{} in {} tensors",
                Bytes(common.common_bytes),
                common.common_tensors
            ),
        ),
        (
            "theta(A, B)",
            format!("{:.4}  of A is in B", common.theta()),
        ),
        (
            "theta(B, A)",
            format!("{:.4}  of B is in A", common.theta_reverse()),
        ),
    ])
}
