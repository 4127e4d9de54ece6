//! The process with the cluster's token and the network put together.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result};
use tetris_service_kit::command::runtime;
use tetris_service_kit::freed_pages;
use tetris_service_kit::http::ConnectionLimits;
use tetris_service_kit::shutdown::{signals, until};
use tetris_service_kit::traces::{Uri, collector, while_exporting};
use tetris_service_kit::unix_http::{self, UnixClient};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::{PageServers, watch_pods};
use crate::config::{Config, ConfigFlags};
use crate::keep_warm::WarmSet;
use crate::process::Process;
use crate::processes::cluster::own_report::OwnReport;
use crate::processes::cluster::trace_relay::TraceRelay;
use crate::processes::cluster::{
    FetchedPages, PageLimits, Reports, declarations, namespaces, reload, router,
};
use crate::processes::reporter::send_reports;
use crate::processes::{sandbox, traces};
use crate::report::process_report::SandboxReport;

/// Longest time for the broker to take a message.
const MESSAGE: Duration = Duration::from_secs(5);
/// Limits of the Unix socket. An answer about a pod takes the API server up to 20 s.
const SOCKET: ConnectionLimits = ConnectionLimits {
    connections: 64,
    per_address: 48,
    head: Duration::from_secs(5),
    pace: ConnectionLimits::PACE,
    stop: Duration::from_secs(2),
};

/// Runs until SIGTERM or SIGINT.
///
/// # Errors
/// When the configuration is wrong, or an address or the Unix socket cannot be listened on.
pub fn cluster(flags: &ConfigFlags) -> Result<()> {
    let config = flags.load()?;
    let directory = config.file.processes.directory_of(Process::Cluster);
    // Where neither a user nor a container made it.
    std::fs::create_dir_all(&directory)
        .with_context(|| format!("cannot make `{}`", directory.display()))?;
    sandbox::enter(Process::Cluster, &config, flags.config.as_deref())?;
    let sandbox = SandboxReport::of_this_process();
    let via = traces::via(Process::Cluster, &config.file.processes)?;
    let collector = collector();
    let serving = serve(flags, config, sandbox, collector);
    runtime()?.block_on(while_exporting(via, serving))
}

async fn serve(
    flags: &ConfigFlags,
    config: Config,
    sandbox: SandboxReport,
    collector: Option<Uri>,
) -> Result<()> {
    tokio::spawn(freed_pages::follow());
    let mut signaled = pin!(signals()?);
    let mut hang_up = signal(SignalKind::hangup())?;
    let (stop, stopped) = watch::channel(false);
    let file = &config.file;
    let report = Arc::new(OwnReport::new(sandbox));
    let reports = Arc::new(Reports::new(file.csi.is_some(), file.gpu_mirror.is_some()));
    let broker = file.processes.socket_of(Process::Broker);
    let listener = unix_http::listen(&file.processes.socket_of(Process::Cluster))?;
    let pages = FetchedPages::new(&broker, Arc::clone(&reports), PageLimits::default());
    let no_api_server = || report.count(1);
    let servers = PageServers::start(&config, pages, no_api_server, stopped.clone()).await?;
    let mut tasks = JoinSet::new();
    let namespaces = namespaces::namespaces(file, &report, &stopped, &mut tasks).await;
    let questions = router(namespaces, reports);
    let served = unix_http::serve(listener, questions, SOCKET, until(stopped.clone()));
    tasks.spawn(served);
    if let Some(collector) = collector {
        let relay = TraceRelay::listen(&traces::socket(&file.processes), &collector)?;
        tasks.spawn(relay.run(stopped.clone()));
    }
    if file.kubernetes.enabled {
        follow_pods(&config, &report, &broker, &stopped, &mut tasks);
    }
    let (changes, reported) = (report.changes(), move || report.report());
    let receivers = vec![(Process::Broker, broker)];
    let reporting = send_reports(Process::Cluster, receivers, reported, changes, stopped);
    tasks.spawn(reporting);
    loop {
        tokio::select! {
            () = &mut signaled => break,
            _ = hang_up.recv() => reload::compare(flags, &config),
        }
    }
    tracing::info!("stopping");
    let _nobody_listens = stop.send(true);
    servers.end().await?;
    while let Some(ended) = tasks.join_next().await {
        ended.context("a part of the process failed")?;
    }
    Ok(())
}

/// Watches this node's pods, and sends their declarations to the broker.
fn follow_pods(
    config: &Config,
    own: &Arc<OwnReport>,
    broker: &std::path::Path,
    stopped: &watch::Receiver<bool>,
    tasks: &mut JoinSet<()>,
) {
    let known = WarmSet::before_first_sync(None, SystemTime::now());
    let (warm, changes) = watch::channel(known);
    let report = Arc::clone(own);
    let on_errors = move |errors| report.count(errors);
    let stop = until(stopped.clone());
    tasks.spawn(watch_pods(config.file.clone(), warm, on_errors, stop));
    // Ends with the watch, whose end closes the channel.
    tasks.spawn(declarations::send(
        UnixClient::new(broker, MESSAGE),
        changes,
    ));
}
