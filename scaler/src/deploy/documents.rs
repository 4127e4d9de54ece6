//! Resources of a deployed model. Purely.

use k8s_openapi::api::rbac::v1::{RoleBinding, RoleRef, Subject};
use kube::ResourceExt as _;
use kube::core::ObjectMeta;
use serde_json::Value;

use super::args::DeployArgs;
use super::error::DeployError;
use crate::operator::models::check_model;
use crate::resources::{
    EngineSpec, GatewayLoad, InferenceFunction, InferenceFunctionSpec, LoadSpec, Model, ModelNodes,
    ModelSpec, ProfilingSpec, SloSpec,
};

/// Beginnings of sources that nodes can fetch.
const SCHEMES: [&str; 7] = [
    "hf://", "s3://", "gs://", "az://", "oci://", "https://", "http://",
];
/// Longest name of a Model.
const MAX_NAME: usize = 52;
/// Roles that the operator needs in the namespace, with the service accounts that get them.
const ROLES: [(&str, &str, &str); 3] = [
    ("tetris-scaler", "tetris-scaler-namespace", "tetris-scaler"),
    ("tetris-gates", "tetris-gates-namespace", "tetris-gates"),
    (
        "tetris-scaler-models",
        "tetris-scaler-models",
        "tetris-scaler",
    ),
];

/// Resources of a deployed model.
#[derive(Debug, Clone)]
pub(super) struct Documents {
    pub(super) bindings: Vec<RoleBinding>,
    pub(super) model: Model,
    pub(super) function: InferenceFunction,
}

impl Documents {
    /// Builds the resources for `namespace`.
    ///
    /// # Errors
    ///
    /// Fails if the arguments make no valid resource.
    pub(super) fn new(args: &DeployArgs, namespace: &str) -> Result<Self, DeployError> {
        let name = name(args)?;
        let documents = Self {
            bindings: bindings(namespace, &args.operator_namespace),
            model: model(args, &name, namespace)?,
            function: function(args, &name, namespace),
        };
        check_model(&documents.model.spec).map_err(DeployError::Field)?;
        documents.function.checked().map_err(DeployError::Field)?;
        Ok(documents)
    }

    /// Returns the resources as YAML documents.
    ///
    /// # Errors
    ///
    /// Fails if one cannot be written as YAML.
    pub(super) fn yaml(&self) -> anyhow::Result<String> {
        let bindings = self.bindings.iter().map(serde_json::to_value);
        let mut all: Vec<Value> = bindings.collect::<Result<_, _>>()?;
        all.push(serde_json::to_value(&self.model)?);
        all.push(serde_json::to_value(&self.function)?);
        let texts = all.iter().map(serde_saphyr::to_string);
        let texts: Vec<String> = texts.collect::<Result<_, _>>()?;
        Ok(texts.join("---\n"))
    }

    /// Name of the function.
    pub(super) fn name(&self) -> String {
        self.function.name_any()
    }
}

/// The given name, or one from the last part of the source.
fn name(args: &DeployArgs) -> Result<String, DeployError> {
    let derived = || {
        let path = args.source.split(['@', '?']).next().unwrap_or_default();
        let last = path.trim_end_matches('/').rsplit('/').next()?;
        let last = last.split(':').next()?;
        let last = last.strip_suffix(".safetensors").unwrap_or(last);
        tetris_scaler_profiler::resource_name(last)
    };
    let name = args.name.clone().or_else(derived).unwrap_or_default();
    let is_label = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let edges = name.starts_with('-') || name.ends_with('-');
    if name.is_empty() || name.len() > MAX_NAME || edges || !name.chars().all(is_label) {
        return Err(DeployError::Name(name));
    }
    Ok(name)
}

fn metadata(name: &str, namespace: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: Some(namespace.to_owned()),
        ..ObjectMeta::default()
    }
}

fn bindings(namespace: &str, operator: &str) -> Vec<RoleBinding> {
    let binding = |(name, role, account): (&str, &str, &str)| RoleBinding {
        metadata: metadata(name, namespace),
        role_ref: RoleRef {
            api_group: Some("rbac.authorization.k8s.io".to_owned()),
            kind: "ClusterRole".to_owned(),
            name: role.to_owned(),
        },
        subjects: Some(vec![Subject {
            kind: "ServiceAccount".to_owned(),
            name: account.to_owned(),
            namespace: Some(operator.to_owned()),
            ..Subject::default()
        }]),
    };
    ROLES.into_iter().map(binding).collect()
}

fn model(args: &DeployArgs, name: &str, namespace: &str) -> Result<Model, DeployError> {
    let source = &args.source;
    let has_scheme = SCHEMES.iter().any(|scheme| source.starts_with(scheme));
    let is_text = source.len() <= 1_024 && source.chars().all(|c| c.is_ascii_graphic());
    if !has_scheme || !is_text {
        return Err(DeployError::Source(source.clone()));
    }
    let (source, revision) = match source.strip_prefix("hf://").and(source.rsplit_once('@')) {
        Some((source, revision)) => (source.to_owned(), Some(revision.to_owned())),
        None => (source.clone(), None),
    };
    Ok(Model {
        metadata: metadata(name, namespace),
        spec: ModelSpec {
            source,
            revision,
            secret: args.secret.clone(),
            environment: args.environment.iter().cloned().collect(),
            service_account_name: "default".to_owned(),
            // One node before there is a plan, for the measurement.
            nodes: ModelNodes {
                count: Some(1),
                with_functions: true,
                ..ModelNodes::default()
            },
            ..ModelSpec::default()
        },
        status: None,
    })
}

fn function(args: &DeployArgs, name: &str, namespace: &str) -> InferenceFunction {
    let latency_millis = u64::try_from(args.slo.as_millis()).unwrap_or(u64::MAX);
    InferenceFunction {
        metadata: metadata(name, namespace),
        spec: InferenceFunctionSpec {
            profile: args.profile.clone(),
            profiling: ProfilingSpec {
                minutes: args.profiling_time,
                ..ProfilingSpec::default()
            },
            slo: SloSpec {
                latency_millis,
                percentile: args.percentile,
            },
            engine: Some(EngineSpec {
                name: args.engine.clone(),
                image: args.image.clone(),
                args: args.args.clone(),
            }),
            load: LoadSpec {
                gateway: Some(GatewayLoad::default()),
                ..LoadSpec::default()
            },
            min_instances: args.min_instances,
            model: Some(name.to_owned()),
            ..usual(args.max_instances)
        },
        status: None,
    }
}

/// A function with the defaults of its resource, which are not those of the type.
fn usual(max_instances: u32) -> InferenceFunctionSpec {
    InferenceFunctionSpec {
        max_instances,
        alpha_bytes_per_millicore: tetris_scaler_core::OperatorDefaults::ALL
            .alpha_bytes_per_millicore,
        ..InferenceFunctionSpec::default()
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Command {
        #[command(flatten)]
        args: DeployArgs,
    }

    fn documents(arguments: &[&str]) -> Result<Documents, DeployError> {
        let all = ["deploy", "--slo", "200ms"].iter().chain(arguments);
        let command = Command::try_parse_from(all).unwrap();
        Documents::new(&command.args, "search")
    }

    #[test]
    fn a_source_and_an_objective_are_enough() {
        let documents = documents(&["hf://sentence-transformers/all-MiniLM-L6-v2@main"]).unwrap();
        assert_eq!(documents.name(), "all-minilm-l6-v2");
        let model = &documents.model.spec;
        assert_eq!(model.source, "hf://sentence-transformers/all-MiniLM-L6-v2");
        assert_eq!(model.revision.as_deref(), Some("main"));
        let function = documents.function.checked().unwrap();
        assert_eq!(function.slo.us(), 200_000);
        assert_eq!(function.profile, "all-minilm-l6-v2");
        assert!(function.profiling.is_some());
        assert_eq!(function.model.as_deref(), Some("all-minilm-l6-v2"));
    }

    #[test]
    fn the_yaml_is_read_back_as_the_same_resources() {
        let documents = documents(&[
            "s3://models/bert",
            "--name=embed",
            "--env=AWS_REGION=eu-west-1",
            "--engine=instance",
            "--arg=--queue=8",
            "--secret=aws",
            "--max-instances=7",
        ])
        .unwrap();
        let yaml = documents.yaml().unwrap();
        let parts: Vec<&str> = yaml.split("---\n").collect();
        assert_eq!(parts.len(), 5);
        let model: Model = serde_saphyr::from_str(parts[3]).unwrap();
        let function: InferenceFunction = serde_saphyr::from_str(parts[4]).unwrap();
        assert_eq!(model.spec, documents.model.spec);
        assert_eq!(function.spec, documents.function.spec);
        assert_eq!(function.spec.max_instances, 7);
        assert_eq!(function.spec.engine.unwrap().args, ["--queue=8"]);
    }

    #[test]
    fn roles_are_for_the_accounts_of_the_scalers_namespace() {
        for (arguments, expected) in [
            (&["hf://a/b"][..], "tetris-system"),
            (&["hf://a/b", "--operator-namespace=models"], "models"),
        ] {
            let bindings = documents(arguments).unwrap().bindings;
            let subjects = bindings
                .iter()
                .flat_map(|binding| binding.subjects.iter().flatten());
            let namespaces: Vec<_> = subjects
                .map(|subject| subject.namespace.as_deref())
                .collect();
            assert_eq!(namespaces, [Some(expected); 3], "{arguments:?}");
        }
    }

    #[test]
    fn names_and_sources_are_checked() {
        for (source, expected) in [
            ("https://host/path/model.safetensors?x=1", "model"),
            ("oci://host/repo/llama:v1", "llama"),
            ("gs://bucket/folder/", "folder"),
        ] {
            assert_eq!(documents(&[source]).unwrap().name(), expected, "{source}");
        }
        for source in ["/models/bert", "bert", "ftp://host/x", "hf://a b/c"] {
            let error = documents(&[source, "--name=x"]).unwrap_err();
            assert!(matches!(error, DeployError::Source(_)), "{error}");
        }
        for name in ["Embed", "a.b", "-a", &"a".repeat(53)] {
            let error = documents(&["hf://a/b", &format!("--name={name}")]).unwrap_err();
            assert!(matches!(error, DeployError::Name(_)), "{error}");
        }
        let error = documents(&["hf://a/b", "--min-instances=3", "--max-instances=2"]);
        assert!(matches!(error.unwrap_err(), DeployError::Field(_)));
    }
}
