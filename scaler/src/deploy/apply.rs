//! Writes of the resources.

use std::fmt::Debug;

use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::documents::Documents;
use super::error::DeployError;
use crate::resources::{InferenceFunction, Model};

/// Field manager of the command.
const MANAGER: &str = "tetris-deploy";

/// Applies the resources. `note` gets what is worth knowing.
pub(super) async fn apply(
    client: &Client,
    documents: &Documents,
    replace: bool,
    note: &mut dyn FnMut(String),
) -> Result<(), DeployError> {
    let namespace = documents.function.namespace().unwrap_or_default();
    let models = Api::<Model>::namespaced(client.clone(), &namespace);
    let functions = Api::<InferenceFunction>::namespaced(client.clone(), &namespace);
    let name = documents.name();
    let present = models.get_opt(&name).await;
    let model = present.map_err(|error| failed("Model", &namespace, &name, error))?;
    let present = functions.get_opt(&name).await;
    let function =
        present.map_err(|error| failed("InferenceFunction", &namespace, &name, error))?;
    if !replace {
        check(&documents.model, model.as_ref(), function.as_ref())?;
    }
    for binding in &documents.bindings {
        bind(client, &namespace, binding, note).await;
    }
    write(&models, "Model", &documents.model).await?;
    write(&functions, "InferenceFunction", &documents.function).await
}

/// Checks that no other deployment has the name.
fn check(
    wanted: &Model,
    model: Option<&Model>,
    function: Option<&InferenceFunction>,
) -> Result<(), DeployError> {
    let (namespace, name) = (wanted.namespace().unwrap_or_default(), wanted.name_any());
    if let Some(model) = model
        && model.spec.full_source() != wanted.spec.full_source()
    {
        return Err(DeployError::Taken {
            kind: "Model",
            namespace,
            name,
            found: model.spec.full_source(),
            expected: wanted.spec.full_source(),
        });
    }
    let is_ours = |function: &InferenceFunction| {
        let managers = function.managed_fields().iter();
        let mut names = managers.filter_map(|entry| entry.manager.as_deref());
        names.any(|manager| manager == MANAGER)
    };
    match function {
        Some(function) if !is_ours(function) => Err(DeployError::Foreign {
            kind: "InferenceFunction",
            namespace,
            name,
        }),
        _ => Ok(()),
    }
}

/// Gives the operator a role in the namespace. Without the right to, the operator's status has the command.
async fn bind(
    client: &Client,
    namespace: &str,
    binding: &RoleBinding,
    note: &mut dyn FnMut(String),
) {
    let bindings = Api::<RoleBinding>::namespaced(client.clone(), namespace);
    match bindings.create(&PostParams::default(), binding).await {
        Ok(_) => note(format!(
            "created RoleBinding {namespace}/{}",
            binding.name_any()
        )),
        Err(kube::Error::Api(status)) if status.code == 409 => {}
        Err(error) => {
            let role = &binding.role_ref.name;
            let accounts = binding.subjects.iter().flatten();
            let account = accounts.map(|subject| {
                let namespace = subject.namespace.as_deref().unwrap_or_default();
                format!("{namespace}:{}", subject.name)
            });
            note(format!(
                "warning: RoleBinding {namespace}/{0} is not created ({error}); let someone with the right do it: kubectl create rolebinding {0} --clusterrole={role} --serviceaccount={1} -n {namespace}",
                binding.name_any(),
                account.collect::<Vec<_>>().join(","),
            ));
        }
    }
}

async fn write<K>(api: &Api<K>, kind: &'static str, object: &K) -> Result<(), DeployError>
where
    K: Resource + Clone + Debug + Serialize + DeserializeOwned,
{
    let name = object.meta().name.clone().unwrap_or_default();
    let namespace = object.meta().namespace.clone().unwrap_or_default();
    // The user decides about this function: fields that others set are taken over.
    let parameters = PatchParams::apply(MANAGER).force();
    let written = api.patch(&name, &parameters, &Patch::Apply(object)).await;
    written
        .map(drop)
        .map_err(|error| failed(kind, &namespace, &name, error))
}

pub(super) fn failed(kind: &str, namespace: &str, name: &str, error: kube::Error) -> DeployError {
    let what = format!("{kind} {namespace}/{name}");
    match error {
        kube::Error::Api(status)
            if status.code == 404
                && status.reason == "NotFound"
                && status
                    .message
                    .contains("could not find the requested resource") =>
        {
            DeployError::NotInstalled { what }
        }
        kube::Error::Api(status)
            if status.code == 404 && status.message.starts_with("404 page") =>
        {
            DeployError::NotInstalled { what }
        }
        error => DeployError::Api {
            what,
            source: Box::new(error),
        },
    }
}
