//! The groups of a run, their settings, and the estimated cost of each step.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::args::{Args, Budget};
use crate::error::{Error, Result};
use crate::measure::Settings;
use crate::methods::Method;
use crate::workload::{Group, Kind, names};

/// Default sizes of a group of replicas.
const COUNTS: [usize; 5] = [1, 2, 4, 8, 16];
/// Default sizes of the other groups, which would only take longer.
const OTHER_COUNTS: [usize; 4] = [1, 2, 4, 8];
/// Default sizes with the 21 models of the preset: each once, then twice.
const TABLE4_COUNTS: [usize; 6] = [1, 4, 7, 14, 21, 42];
/// Sizes of a smoke run.
const QUICK_COUNTS: [usize; 2] = [1, 2];

/// Lists the groups to measure, in order.
///
/// # Errors
///
/// [`Error::Usage`] if the options contradict each other.
pub fn groups(args: &Args) -> Result<Vec<Group>> {
    if let Some(base) = &args.base {
        let mut models = vec![base.clone()];
        models.extend(args.variants.iter().cloned());
        require_different(&models)?;
        return Ok(vec![Group::new(Kind::Family, &models)]);
    }
    if args.preset.is_some() {
        return Ok(vec![Group {
            kind: Kind::Unrelated,
            name: "table4".to_owned(),
            models: Vec::new(),
        }]);
    }
    if args.model.is_empty() {
        let kinds = if args.workload.is_empty() {
            &Kind::SYNTHETIC[..]
        } else {
            &args.workload[..]
        };
        return Ok(kinds.iter().map(|&kind| Group::new(kind, &[])).collect());
    }
    require_different(&args.model)?;
    let several = args.model.len() > 1;
    let kinds = match &args.workload[..] {
        [] if several => vec![Kind::Mixed],
        [] => vec![Kind::Replicas],
        kinds => kinds.to_vec(),
    };
    let mut groups = Vec::new();
    for kind in kinds {
        match kind {
            Kind::Replicas if several => groups.extend(replicas_of_each(&args.model)),
            Kind::Replicas | Kind::Mixed => groups.push(Group::new(kind, &args.model)),
            Kind::Heads | Kind::Lora | Kind::Unrelated | Kind::Family => {
                return Err(Error::Usage(format!(
                    "--workload {} has synthetic models; with --model the groups are replicas (of \
                     each model) and mixed (all by turns), and --base with --variants measures a \
                     family",
                    kind.name()
                )));
            }
        }
    }
    Ok(groups)
}

fn replicas_of_each(models: &[PathBuf]) -> Vec<Group> {
    let groups = models.iter().zip(names(models)).map(|(model, name)| Group {
        kind: Kind::Replicas,
        name: format!("replicas of {name}"),
        models: vec![model.clone()],
    });
    groups.collect()
}

/// Refuses a model that is named twice: its files would be taken for those of two models.
fn require_different(models: &[PathBuf]) -> Result<()> {
    let place = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    let mut seen = BTreeSet::new();
    match models.iter().find(|path| !seen.insert(place(path))) {
        Some(twice) => Err(Error::Usage(format!(
            "`{}` is named twice; name each model once, --instances sets the number of processes",
            twice.display()
        ))),
        None => Ok(()),
    }
}

/// Settings of the measurements of a group.
///
/// # Errors
///
/// [`Error::Usage`] if a number is out of range.
pub fn settings(args: &Args, kind: Kind) -> Result<Settings> {
    let mut counts = args.instances.clone();
    if counts.is_empty() {
        counts = match kind {
            _ if args.quick => QUICK_COUNTS.to_vec(),
            _ if args.preset.is_some() => TABLE4_COUNTS.to_vec(),
            Kind::Replicas => COUNTS.to_vec(),
            Kind::Heads | Kind::Lora | Kind::Unrelated | Kind::Mixed | Kind::Family => {
                OTHER_COUNTS.to_vec()
            }
        };
    }
    if !counts.is_sorted() || counts[0] == 0 || args.budget_cap == 0 || args.passes == 0 {
        return Err(Error::Usage(
            "--instances must ascend from at least 1; --budget-cap and --passes must be at least 1"
                .into(),
        ));
    }
    Ok(Settings {
        methods: args.methods(),
        counts,
        passes: args.passes,
        ksm_instances: args.ksm_instances,
        ksm_limit: Duration::from_secs(args.ksm_limit),
        budget: args.budget,
        budget_cap: if args.quick {
            args.budget_cap.min(4)
        } else {
            args.budget_cap
        },
    })
}

/// Estimated cost of each step of a run, in starts of an instance, in the order of the steps.
///
/// Only the ratios matter: they divide the progress, and give the time left.
///
/// # Errors
///
/// [`Error::Usage`] like [`groups`] and [`settings`].
pub fn costs(args: &Args) -> Result<Vec<f64>> {
    let mut costs = Vec::new();
    for group in groups(args)? {
        let settings = settings(args, group.kind)?;
        let methods = || settings.methods.iter().copied();
        costs.push(MODELS);
        costs.extend(methods().map(|method| group_cost(method, &settings)));
        costs.push(f64::from(settings.passes));
        if args.budget != Budget::Off {
            costs.extend(methods().map(|method| limit_cost(method, &settings)));
        }
    }
    Ok(costs)
}

/// Cost of the models of a group.
const MODELS: f64 = 4.0;
/// Cost of merging one instance.
const MERGING: f64 = 8.0;
/// Cost of the start of an interpreter with PyTorch, beside that of its load.
const INTERPRETER: f64 = 3.0;
/// Cost of the passes that show if a group of mapped files still fits, for each instance.
const CHECKS: f64 = 3.0;

fn group_cost(method: Method, settings: &Settings) -> f64 {
    let most = settings.most();
    if method == Method::Ksm {
        return MERGING * most.min(settings.ksm_instances) as f64;
    }
    most as f64 * start_cost(method)
}

/// Cost of a count under the limit.
fn limit_cost(method: Method, settings: &Settings) -> f64 {
    // Private copies fill the limit with about four instances.
    let instances = if method.is_private() {
        settings.budget_cap.min(5)
    } else if method.copies_files() {
        settings.budget_cap.min(settings.most())
    } else {
        settings.budget_cap
    };
    let checks = if method.is_reclaimable() { CHECKS } else { 0.0 };
    instances as f64 * (start_cost(method) + checks)
}

fn start_cost(method: Method) -> f64 {
    let copy = if method.copies_files() { 1.0 } else { 0.0 };
    let interpreter = if method.needs_python() {
        INTERPRETER
    } else {
        0.0
    };
    1.0 + copy + interpreter
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn names_of(line: &str) -> Result<Vec<String>> {
        let args = Args::parse_from(line.split_whitespace());
        Ok(groups(&args)?.into_iter().map(|group| group.name).collect())
    }

    #[test]
    fn several_models_give_a_group_of_replicas_each() {
        let line =
            "density --workload replicas,mixed --model a/model.safetensors b/model.safetensors";
        let expected = [
            "replicas of a/model.safetensors",
            "replicas of b/model.safetensors",
            "mixed",
        ];
        assert_eq!(names_of(line).unwrap(), expected);
        assert_eq!(names_of("density --model a").unwrap(), ["replicas"]);
        assert_eq!(names_of("density --model a b").unwrap(), ["mixed"]);
    }

    #[test]
    fn a_family_has_the_base_first() {
        let args = Args::parse_from(["density", "--base", "a", "--variants", "b", "c"]);
        let groups = groups(&args).unwrap();
        assert_eq!(groups.len(), 1);
        assert_eq!(groups[0].models, ["a", "b", "c"].map(PathBuf::from));
    }

    #[test]
    fn a_model_named_twice_is_refused() {
        for line in ["density --model a a", "density --base a --variants b a"] {
            let error = names_of(line).unwrap_err().to_string();
            assert!(error.starts_with("`a` is named twice"), "{error}");
        }
    }

    #[test]
    fn every_step_has_a_cost() {
        let args = Args::parse_from(["density", "--workload", "replicas,heads"]);
        let (methods, groups) = (args.methods().len(), 2);
        let costs = costs(&args).unwrap();
        assert_eq!(costs.len(), groups * (2 * methods + 2));
        assert!(costs.iter().all(|cost| *cost > 0.0), "{costs:?}");
    }
}
