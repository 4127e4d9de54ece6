//! The webhook configuration: which authorities the API server trusts.

use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhook, MutatingWebhookConfiguration};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::Names;
use super::error::{SyncError, code};

/// The configuration, which must have a webhook for our service.
pub(super) async fn read(
    configurations: &Api<MutatingWebhookConfiguration>,
    names: &Names,
) -> Result<MutatingWebhookConfiguration, SyncError> {
    let name = names.configuration.clone();
    let read = configurations
        .get_opt(&name)
        .await
        .map_err(|source| SyncError::api(format!("get {}", called(names)), source))?;
    let Some(configuration) = read else {
        return Err(SyncError::NoConfiguration { name });
    };
    if webhooks(&configuration, names).next().is_none() {
        let service = format!("{}/{}", names.namespace, names.service);
        return Err(SyncError::NoWebhook { name, service });
    }
    Ok(configuration)
}

/// Puts the authorities `bundle` into our webhooks of `configuration`, unless they are there or someone wrote since.
pub(super) async fn write(
    configurations: &Api<MutatingWebhookConfiguration>,
    names: &Names,
    configuration: &MutatingWebhookConfiguration,
    bundle: &str,
) -> Result<(), SyncError> {
    let bundle = ByteString(bundle.as_bytes().to_owned());
    let behind: Vec<_> = webhooks(configuration, names)
        .filter(|webhook| webhook.client_config.ca_bundle.as_ref() != Some(&bundle))
        .map(|webhook| json!({"name": webhook.name, "clientConfig": {"caBundle": bundle}}))
        .collect();
    if behind.is_empty() {
        return Ok(());
    }
    // Webhooks are merged by name; with the version, the write holds for what was read alone.
    let version = &configuration.metadata.resource_version;
    let patch = json!({"metadata": {"resourceVersion": version}, "webhooks": behind});
    let params = PatchParams {
        field_manager: Some("tetris-webhook".to_owned()),
        ..PatchParams::default()
    };
    let patched = configurations
        .patch(&names.configuration, &params, &Patch::Strategic(patch))
        .await;
    let object = called(names);
    match patched {
        Ok(_) => {
            tracing::info!(configuration = %names.configuration, "the API server was told the certificate authorities");
            Ok(())
        }
        Err(error) if code(&error) == Some(409) => Err(SyncError::Raced { object }),
        Err(source) => Err(SyncError::api(format!("patch {object}"), source)),
    }
}

/// The webhooks for our service. Others in the configuration are left alone.
fn webhooks<'a>(
    configuration: &'a MutatingWebhookConfiguration,
    names: &'a Names,
) -> impl Iterator<Item = &'a MutatingWebhook> {
    let all = configuration.webhooks.iter().flatten();
    all.filter(|webhook| {
        let service = webhook.client_config.service.as_ref();
        service.is_some_and(|service| {
            service.name == names.service && service.namespace == names.namespace
        })
    })
}

fn called(names: &Names) -> String {
    format!("MutatingWebhookConfiguration `{}`", names.configuration)
}
