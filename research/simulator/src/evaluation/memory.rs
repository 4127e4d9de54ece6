//! Memory of instances of each model (figures 9a and 11a), and the density of functions (figure 10).

use serde::Serialize;

use super::claim::{Basis, Compared, PERCENT, Relation, TetrisClaim, hundredths, less};
use crate::catalog::{TABLE_4, TableModel};

/// Numbers of instances of figure 9(a), and of variants of figure 11(a).
pub const INSTANCES: [u64; 5] = [2, 4, 8, 16, 32];
/// Memory of a server in figure 10, in megabytes.
pub const SERVERS_MB: [u64; 3] = [64_000, 128_000, 256_000];

/// Instances that fit into a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Density {
    /// Memory of the server, in megabytes.
    pub server_mb: u64,
    /// Number of instances with copies of the tensors.
    pub copied: u64,
    /// Number of instances that share the tensors.
    pub shared: u64,
}

/// Memory of a model's instances.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ModelMemory {
    /// Model.
    #[serde(flatten)]
    pub model: TableModel,
    /// Reduction by shared tensors with each of [`INSTANCES`], in hundredths of a percent.
    pub reduction: Vec<i64>,
    /// Density on each of [`SERVERS_MB`].
    pub density: Vec<Density>,
    /// Reduction with as many variants of the model in place of instances (figure 11a).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variants: Option<Vec<i64>>,
}

impl Density {
    fn of(model: &TableModel, server_mb: u64) -> Self {
        let copied = server_mb / (model.tensor_mb + model.own_mb).max(1);
        let shared = server_mb.saturating_sub(model.tensor_mb) / model.own_mb.max(1);
        Self {
            server_mb,
            copied,
            shared,
        }
    }

    /// Ratio of the numbers of instances, in hundredths.
    pub fn factor(&self) -> Option<i64> {
        i64::try_from((self.shared * 100).checked_div(self.copied)?).ok()
    }
}

/// Returns the memory of all models of table 4.
pub fn models() -> Vec<ModelMemory> {
    TABLE_4.iter().map(of).collect()
}

fn of(model: &TableModel) -> ModelMemory {
    let instances = INSTANCES
        .map(|count| less(model.copied_mb(count), model.shared_with_mb(count)).unwrap_or(0));
    let variants = model.shared_mb.map(|shared_mb| {
        let reduced = INSTANCES.map(|count| {
            let copied = model.copied_mb(count);
            less(copied, copied - shared_mb * (count - 1)).unwrap_or(0)
        });
        reduced.to_vec()
    });
    ModelMemory {
        model: *model,
        reduction: instances.to_vec(),
        density: SERVERS_MB.map(|server| Density::of(model, server)).to_vec(),
        variants,
    }
}

/// Views of the models for claims.
struct Models<'a>(&'a [ModelMemory]);

impl Models<'_> {
    fn named(&self, name: &str) -> Option<&ModelMemory> {
        self.0.iter().find(|entry| entry.model.name == name)
    }

    /// Reduction of a model with a number of instances.
    fn reduction(&self, name: &str, instances: u64) -> Option<i64> {
        at(&self.named(name)?.reduction, instances)
    }

    fn density(&self, name: &str, server_mb: u64) -> Option<&Density> {
        let mut all = self.named(name)?.density.iter();
        all.find(|density| density.server_mb == server_mb)
    }

    /// Greatest density factor of a model over all servers.
    fn factor(&self, name: &str) -> Option<i64> {
        let all = self.named(name)?.density.iter();
        all.filter_map(Density::factor).max()
    }

    /// Reductions of all models with variants.
    fn variants(&self, variants: u64) -> Vec<i64> {
        let lists = self.0.iter().filter_map(|entry| entry.variants.as_ref());
        lists.filter_map(|list| at(list, variants)).collect()
    }
}

/// Value of a list over [`INSTANCES`].
fn at(values: &[i64], instances: u64) -> Option<i64> {
    let mut pairs = INSTANCES.iter().zip(values);
    pairs
        .find(|(count, _)| **count == instances)
        .map(|(_, value)| *value)
}

fn mean(values: &[i64]) -> Option<i64> {
    let sum: i64 = values.iter().sum();
    sum.checked_div(i64::try_from(values.len()).ok()?)
}

/// Returns the text's statements on figures 9(a), 10 and 11(a).
pub(super) fn claims(models: &[ModelMemory]) -> Vec<TetrisClaim> {
    let models = Models(models);
    let mut claims = reductions(&models);
    claims.extend(densities(&models));
    claims.extend(variants(&models));
    claims
}

const FIT: &str = "the private memory in the catalog is no longer the fitted one";
const USE_OWN: &str = "69 MB of private memory are fitted to the 93 % of figure 9a, where 57 MB would give \
     30 times (and 93.7 %)";
const LABSE_INTRODUCTION: &str = "the paper has two accounts of LaBSE: 911 of 64 instances (1) are 14 \
     times as many, section 5.2 has 20 times, which needs less private memory";

fn reductions(models: &Models<'_>) -> Vec<TetrisClaim> {
    let claim = |name: &str, paper, here, basis| Compared {
        figure: "9a",
        name: name.to_owned(),
        unit: PERCENT,
        paper,
        here,
        basis,
    };
    let largest = models
        .0
        .iter()
        .filter_map(|entry| at(&entry.reduction, 32))
        .max();
    let two: Vec<i64> = models
        .0
        .iter()
        .filter_map(|entry| at(&entry.reduction, 2))
        .collect();
    let saved_mb = models
        .named("Bit-M")
        .map(|entry| entry.model.copied_mb(32) - entry.model.shared_with_mb(32));
    vec![
        claim("memory saved with 32 instances: most of all models", 9_300, largest, Basis::Fitted)
            .is(Relation::Near, FIT),
        claim("memory saved with 32 instances: Use", 9_300, models.reduction("Use", 32), Basis::Fitted)
            .is(Relation::AtLeast, FIT),
        claim("memory saved with 32 instances: LaBSE", 9_100, models.reduction("LaBSE", 32), Basis::Computed)
            .is(Relation::AtLeast, "its private memory is Vgg19's, for want of a number"),
        claim("memory saved with 32 instances: Vgg19", 8_200, models.reduction("Vgg19", 32), Basis::Computed)
            .is(Relation::Near, "the paper's 549 and 95.4 MB are rounded"),
        claim("memory saved with 2 instances: Lstm", 440, models.reduction("Lstm", 2), Basis::Fitted)
            .is(Relation::Near, FIT),
        claim("memory saved with 2 instances: mean of the 21 models", 2_800, mean(&two), Basis::Computed).is(
            Relation::Near,
            "models without a figure in the paper have the 95 MB of private memory of Vgg19; those of the \
             paper's engine keep converted weights besides (2.2), and thus more",
        ),
        Compared {
            unit: "GB",
            ..claim(
                "memory saved with 32 instances: Bit-M",
                10_850,
                saved_mb.map(|mb| hundredths(mb) / 1_000),
                Basis::Computed,
            )
        }
        .is(Relation::Near, "its size in table 4 is rounded"),
    ]
}

fn densities(models: &Models<'_>) -> Vec<TetrisClaim> {
    let claim = |name: &str, unit, paper, here, basis| Compared {
        figure: "10",
        name: name.to_owned(),
        unit,
        paper,
        here,
        basis,
    };
    let count = |name: &str, server_mb, value: fn(&Density) -> u64| {
        models.density(name, server_mb).map(value).map(hundredths)
    };
    let more: fn(&Density) -> u64 = |density| density.shared - density.copied;
    let largest = models
        .0
        .iter()
        .filter_map(|entry| models.factor(entry.model.name))
        .max();
    vec![
        claim(
            "density: most of all models",
            "times",
            3_000,
            largest,
            Basis::Computed,
        )
        .is(Relation::Near, USE_OWN),
        claim(
            "density: Use",
            "times",
            3_000,
            models.factor("Use"),
            Basis::Computed,
        )
        .is(Relation::Near, USE_OWN),
        claim(
            "density: LaBSE",
            "times",
            2_000,
            models.factor("LaBSE"),
            Basis::Computed,
        )
        .is(Relation::Near, LABSE_INTRODUCTION),
        claim(
            "LaBSE on 128 GB, copies",
            "inst.",
            6_400,
            count("LaBSE", 128_000, |entry| entry.copied),
            Basis::Computed,
        )
        .is(Relation::Near, LABSE_INTRODUCTION),
        claim(
            "LaBSE on 128 GB, shared",
            "inst.",
            91_100,
            count("LaBSE", 128_000, |entry| entry.shared),
            Basis::Computed,
        )
        .is(Relation::Near, LABSE_INTRODUCTION),
        claim(
            "Bit-M on 64 GB, copies",
            "inst.",
            1_400,
            count("Bit-M", 64_000, |entry| entry.copied),
            Basis::Fitted,
        )
        .is(Relation::Near, FIT),
        claim(
            "Bit-M on 64 GB, shared",
            "inst.",
            7_400,
            count("Bit-M", 64_000, |entry| entry.shared),
            Basis::Fitted,
        )
        .is(Relation::Near, FIT),
        claim(
            "Dssm on 256 GB, more by sharing",
            "inst.",
            116_100,
            count("Dssm", 256_000, more),
            Basis::Fitted,
        )
        .is(Relation::Near, FIT),
        claim(
            "Textcnn69 on 256 GB, more by sharing",
            "inst.",
            172_000,
            count("Textcnn69", 256_000, more),
            Basis::Fitted,
        )
        .is(Relation::Near, FIT),
    ]
}

fn variants(models: &Models<'_>) -> Vec<TetrisClaim> {
    let claim = |name: &str, paper, here, basis| Compared {
        figure: "11a",
        name: name.to_owned(),
        unit: PERCENT,
        paper,
        here,
        basis,
    };
    let others = "Resnet152 keeps the 95 MB of the applications' catalog; 36.3 % needs 363 MB of private \
                  memory, near what the fit gives the other models";
    let vgg19 = models
        .named("Vgg19")
        .and_then(|entry| at(entry.variants.as_ref()?, 32));
    vec![
        claim("memory saved by 32 variants: most of six models", 3_630, models.variants(32).into_iter().max(), Basis::Computed)
            .is(Relation::Near, others),
        claim("memory saved by 32 variants: median of six models", 3_630, median(models.variants(32)), Basis::Fitted)
            .is(Relation::Near, FIT),
        claim("memory saved by 2 variants: median of six models", 1_880, median(models.variants(2)), Basis::Fitted)
            .is(Relation::Near, FIT),
        claim("memory saved by 32 variants: Vgg19", 1_380, vgg19, Basis::Computed).is(
            Relation::Near,
            "77 of 644 MB are 11.6 % with 32 variants; 13.6 % are the part of the 549 MB of tensors",
        ),
    ]
}

/// Median; the upper one of an even number.
fn median(mut values: Vec<i64>) -> Option<i64> {
    values.sort_unstable();
    values.get(values.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{Function, MB, MODELS, ModelAssumptions};
    use crate::cluster::{Cluster, Sharing, WeightRules};

    /// Memory of `count` instances on one node of the simulator, in megabytes.
    fn on_a_node(function: &Function, sharing: Sharing, count: u64) -> u64 {
        let rules = WeightRules {
            sharing,
            copied_permille: 0,
            keep_alive_us: 0,
        };
        let mut cluster = Cluster::try_new(1, rules).unwrap();
        let smallest = |entry: &&tetris_scaler_core::Configuration| {
            (entry.batch(), entry.concurrency(), entry.cpu_millis()) == (1, 1, 1_000)
        };
        let all = function.profile.configurations();
        let one_core = all.iter().find(smallest).unwrap();
        for _ in 0..count {
            assert!(cluster.start(0, function, one_core).unwrap().is_some());
        }
        cluster.used().memory_bytes / MB
    }

    #[test]
    fn the_formulas_are_what_a_simulated_node_takes() {
        for model in MODELS {
            let function = Function::try_new(model, "", &ModelAssumptions::default()).unwrap();
            let mut same = TABLE_4.iter().filter(|entry| entry.name == model.name);
            let entry = same.next().unwrap();
            for count in INSTANCES {
                let shared = on_a_node(&function, Sharing::Store, count);
                assert_eq!(shared, entry.shared_with_mb(count), "{}", model.name);
                let copied = on_a_node(&function, Sharing::Private, count);
                assert_eq!(copied, entry.copied_mb(count), "{}", model.name);
            }
        }
    }

    #[test]
    fn more_instances_save_a_larger_part() {
        for entry in models() {
            assert!(entry.reduction.is_sorted() && entry.reduction[0] > 0);
            assert!(entry.variants.is_none_or(|list| list.is_sorted()));
            assert!(
                entry
                    .density
                    .iter()
                    .all(|density| density.shared > density.copied)
            );
        }
    }
}
