//! The command: writes, waits and reports.

use std::io::Write as _;
use std::time::Duration;

use anyhow::{Context as _, Result};
use kube::Client;
use kube::api::Api;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::apply::{apply, failed};
use super::args::{DeployArgs, DeployFormat, WaitFor};
use super::documents::Documents;
use super::error::DeployError;
use super::follow::{Progress, progress};
use crate::api_client::client;
use crate::resources::{InferenceFunction, Model, ModelProfile};

/// Interval between two looks at the status.
const LOOK: Duration = Duration::from_secs(1);

/// Runs `deploy`.
///
/// # Errors
///
/// Fails with invalid arguments, without a cluster, and if the function does not get to the state in time.
pub async fn run(args: &DeployArgs) -> Result<()> {
    if args.dry_run {
        let namespace = args.namespace.as_deref().unwrap_or("default");
        return print(&Documents::new(args, namespace)?.yaml()?);
    }
    let client = client().await?;
    run_with(args, client).await
}

/// Runs `deploy` with a client.
pub(super) async fn run_with(args: &DeployArgs, client: Client) -> Result<()> {
    let default = client.default_namespace().to_owned();
    let namespace = args.namespace.clone().unwrap_or(default);
    let documents = Documents::new(args, &namespace)?;
    let began = Instant::now();
    let mut note = |text: String| say(&text);
    apply(&client, &documents, args.replace, &mut note).await?;
    let name = documents.name();
    say(&format!(
        "applied Model and InferenceFunction {namespace}/{name}"
    ));
    if args.wait > WaitFor::Applied {
        wait(args, &client, &namespace, &name).await?;
    }
    let report = Report {
        namespace,
        name,
        seconds: began.elapsed().as_secs_f64(),
    };
    report.print(args, &client).await
}

/// Follows the status until the function is as asked.
async fn wait(
    args: &DeployArgs,
    client: &Client,
    namespace: &str,
    name: &str,
) -> Result<(), DeployError> {
    let began = Instant::now();
    let models = Api::<Model>::namespaced(client.clone(), namespace);
    let functions = Api::<InferenceFunction>::namespaced(client.clone(), namespace);
    let mut said = String::new();
    loop {
        let model = models.get_status(name).await;
        let model = model.map_err(|error| failed("Model", namespace, name, error))?;
        let function = functions.get_status(name).await;
        let function =
            function.map_err(|error| failed("InferenceFunction", namespace, name, error))?;
        let generation = function.metadata.generation.unwrap_or_default();
        let status = function.status.as_ref().map(|status| (status, generation));
        match progress(args.wait, model.status.as_ref(), status) {
            Progress::Done => return Ok(()),
            Progress::Stopped(reason, message) => {
                return Err(DeployError::Stopped { reason, message });
            }
            Progress::Going(text) => {
                if said != text {
                    say(&format!("[{:>4} s] {text}", began.elapsed().as_secs()));
                    said = text;
                }
            }
        }
        if began.elapsed() >= args.timeout {
            return Err(DeployError::Timeout {
                limit: args.timeout,
                state: said,
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            });
        }
        sleep(LOOK).await;
    }
}

/// Result of the command.
struct Report {
    namespace: String,
    name: String,
    seconds: f64,
}

impl Report {
    async fn print(&self, args: &DeployArgs, client: &Client) -> Result<()> {
        let Self {
            namespace,
            name,
            seconds,
        } = self;
        let profiles = Api::<ModelProfile>::namespaced(client.clone(), namespace);
        let profile = args.profile.as_ref().unwrap_or(name);
        let measured = profiles.get_opt(profile).await.ok().flatten();
        let configurations = measured.map_or(0, |profile| profile.spec.configurations.len());
        let operator = &args.operator_namespace;
        let url = format!("http://tetris-gateway.{operator}/functions/{namespace}/{name}");
        match args.format {
            DeployFormat::Json => print(&format!(
                "{}\n",
                json!({
                    "namespace": namespace, "name": name, "profile": profile,
                    "configurations": configurations, "seconds": seconds, "url": url,
                })
            )),
            DeployFormat::Text => print(&format!(
                "{namespace}/{name} after {seconds:.0} s, with {configurations} configurations: {url}\n"
            )),
        }
    }
}

fn say(text: &str) {
    // Standard error may be closed: the function matters more than the line.
    let _unread = writeln!(std::io::stderr().lock(), "{text}");
}

fn print(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())
        .context("cannot write to standard output")
}
