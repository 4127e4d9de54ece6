//! Times from a start to a loaded model (figures 9b and 11b).
//!
//! The time is that of the runtime and the graph, and that of the weights at the speed of the disk or
//! the page cache; mapped weights take none. **From the paper:** both speeds and the 2.8 s of Bit-M
//! (5.2). **Fitted:** the time of the others from the 17.3 % of SSD, and that of Textcnn69 from its
//! 32.8 %. So all other values of the two figures are predictions.

use serde::Serialize;

use super::claim::{Basis, Compared, PERCENT, Relation, TetrisClaim, less};
use crate::catalog::{MB, TABLE_4, TableModel};
use crate::platform::Platform;

/// Time of an instance of Bit-M with all tensors shared (5.2), in microseconds.
const BIT_M_BASE_US: u64 = 2_800_000;
/// Reduction of the startup of SSD and Textcnn69 (5.2), in thousandths.
const SSD_PERMILLE: u64 = 173;
const TEXTCNN69_PERMILLE: u64 = 328;
const SSD_MB: u64 = 29;

/// Startup of a model in each way of loading, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Startup {
    /// Name of the model.
    pub model: &'static str,
    /// Time with weights from the disk.
    pub disk_us: u64,
    /// Time with weights from the page cache.
    pub cache_us: u64,
    /// Time with tensors of another instance of the function.
    pub shared_us: u64,
    /// Time with tensors of an instance of a variant, the others from the page cache (figure 11b).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variant_us: Option<u64>,
}

impl Startup {
    fn of(model: &TableModel, platform: &Platform) -> Self {
        let cached_us = |mb: u64| load_us(mb, platform.cache_bytes_per_s);
        let shared_us = base_us(model, platform);
        Self {
            model: model.name,
            disk_us: shared_us + load_us(model.tensor_mb, platform.disk_bytes_per_s),
            cache_us: shared_us + cached_us(model.tensor_mb),
            shared_us,
            variant_us: model
                .shared_mb
                .map(|shared_mb| shared_us + cached_us(model.tensor_mb - shared_mb)),
        }
    }

    /// Reduction of the time from the page cache by shared tensors, in hundredths of a percent.
    pub fn saved(&self) -> Option<i64> {
        less(self.cache_us, self.shared_us)
    }

    /// The same with tensors of a variant.
    pub fn saved_by_variant(&self) -> Option<i64> {
        less(self.cache_us, self.variant_us?)
    }
}

/// Time to load megabytes of weights, in microseconds.
pub(super) const fn load_us(mb: u64, bytes_per_s: u64) -> u64 {
    let us = mb as u128 * MB as u128 * 1_000_000 / bytes_per_s as u128;
    us as u64
}

/// Time of a start without weights.
fn base_us(model: &TableModel, platform: &Platform) -> u64 {
    // Loading takes `permille` of the whole: the base is the rest.
    let rest =
        |mb, permille: u64| load_us(mb, platform.cache_bytes_per_s) * (1_000 - permille) / permille;
    match model.name {
        "Bit-M" => BIT_M_BASE_US,
        "Textcnn69" => rest(model.tensor_mb, TEXTCNN69_PERMILLE),
        _ => rest(SSD_MB, SSD_PERMILLE),
    }
}

/// Returns the startup of all models of table 4.
pub fn startups() -> Vec<Startup> {
    let platform = Platform::default();
    TABLE_4
        .iter()
        .map(|model| Startup::of(model, &platform))
        .collect()
}

const FIT: &str = "the speeds of loading are no longer those of Bit-M";
const BASE: &str = "all models but Bit-M and Textcnn69 have the same time without weights, SSD's";

/// Returns the text's statements on figures 9(b) and 11(b).
pub(super) fn claims(startups: &[Startup]) -> Vec<TetrisClaim> {
    let claim = |figure, name: &str, unit, paper, here, basis| Compared {
        figure,
        name: name.to_owned(),
        unit,
        paper,
        here,
        basis,
    };
    let named = |name: &str| startups.iter().find(|startup| startup.model == name);
    let bit_m = |value: fn(&Startup) -> u64| {
        let us = named("Bit-M").map(value);
        us.and_then(|us| i64::try_from(us / 10_000).ok())
    };
    let saved = |name: &str| named(name).and_then(Startup::saved);
    let variants: Vec<i64> = startups
        .iter()
        .filter_map(Startup::saved_by_variant)
        .collect();
    let count = i64::try_from(variants.len()).unwrap_or(i64::MAX);
    let mean = variants.iter().sum::<i64>().checked_div(count);
    let vgg19 = named("Vgg19").and_then(Startup::saved_by_variant);
    let most = startups.iter().filter_map(Startup::saved).max();
    vec![
        claim(
            "9b",
            "start of Bit-M, disk",
            "s",
            1_500,
            bit_m(|entry| entry.disk_us),
            Basis::Fitted,
        )
        .is(Relation::AtLeast, FIT),
        claim(
            "9b",
            "start of Bit-M, page cache",
            "s",
            790,
            bit_m(|entry| entry.cache_us),
            Basis::Fitted,
        )
        .is(Relation::Near, FIT),
        claim(
            "9b",
            "start of Bit-M, shared",
            "s",
            280,
            bit_m(|entry| entry.shared_us),
            Basis::Fitted,
        )
        .is(Relation::Near, FIT),
        claim(
            "9b",
            "startup saved: most of all models",
            PERCENT,
            9_156,
            most,
            Basis::Computed,
        )
        .is(Relation::Near, BASE),
        claim(
            "9b",
            "startup saved: SSD",
            PERCENT,
            1_730,
            saved("SSD"),
            Basis::Fitted,
        )
        .is(Relation::Near, FIT),
        claim(
            "9b",
            "startup saved: Textcnn69",
            PERCENT,
            3_280,
            saved("Textcnn69"),
            Basis::Fitted,
        )
        .is(Relation::Near, FIT),
        claim(
            "11b",
            "startup saved by a variant's tensors: mean of six models",
            PERCENT,
            4_690,
            mean,
            Basis::Computed,
        )
        .is(Relation::Near, BASE),
        claim(
            "11b",
            "startup saved by a variant's tensors: Vgg19",
            PERCENT,
            1_230,
            vgg19,
            Basis::Computed,
        )
        .is(Relation::Near, BASE),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_tensors_are_never_slower() {
        for startup in startups() {
            assert!(startup.shared_us < startup.cache_us && startup.cache_us < startup.disk_us);
            let variant = startup.variant_us.unwrap_or(startup.cache_us);
            assert!((startup.shared_us..=startup.cache_us).contains(&variant));
        }
    }
}
