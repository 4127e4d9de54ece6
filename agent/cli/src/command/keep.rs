//! `tetris keep`: a model on this node for the pods that mount it.

use std::net::{IpAddr, Ipv6Addr, TcpListener};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::json;
use tetris_agent::daemon::{DaemonClient, DaemonError, KeeperNews, ModelKeeper, PassedMount};
use tetris_agent::store_location::StoreLocation;
use tetris_agent::{Agent, ProgressFn};
use tetris_delivery::{PullError, PullOptions, PullReport, SourceName};
use tetris_folder::ShownFolder;
use tetris_units::size::Bytes;
use tetris_wire::daemon::{ModelReport, ModelStage, is_model_name};

use super::description::Description;
use super::error::{Error, Result};
use super::exit::Code;
use super::interruption::{Interruption, end_by, end_well};
use super::loading::lossy;
use super::mount::{open_object, threads};
use super::output::{self, Output};
use super::pull::{FetchArgs, Fetching};
use super::size::counted;

/// Pauses between attempts to reach the daemon.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// Mounts answered for at once. Pods of a node share one; a new one comes when that has ended.
const MAX_MOUNTS: usize = 8;
/// Time between two looks at mounts, after a signal.
const LOOK: Duration = Duration::from_millis(100);
/// Shortest time over which a rate is measured.
const RATE: Duration = Duration::from_secs(1);
/// Attempts in a full store that bring nothing more, and the time between two, for another model to give way.
const ATTEMPTS: u32 = 5;
const TURN: Duration = Duration::from_secs(3);
/// Longest wait for the daemon to hear of a failure.
const LAST_WORDS: Duration = Duration::from_secs(3);

/// Arguments of `keep`.
#[derive(Debug, Args)]
pub(crate) struct KeepArgs {
    /// Source of the model, as of `tetris pull`
    source: String,
    /// Name by which pods mount it
    #[arg(long, value_name = "NAME", value_parser = parse_name)]
    name: String,
    /// Priority in a full store: models of lower ones that no pod has mounted give way to it
    #[arg(long, value_name = "N", default_value_t = 0)]
    priority: u32,
    /// Port that accepts connections once the model is there, for a readiness probe and for other nodes that pull with
    /// --peers
    #[arg(long, value_name = "PORT")]
    ready_port: Option<u16>,
    #[command(flatten)]
    fetch: FetchArgs,
}

fn parse_name(text: &str) -> Result<String, String> {
    if is_model_name(text) {
        Ok(text.to_owned())
    } else {
        Err("expected lowercase letters, digits, hyphens and dots, at most 253".to_owned())
    }
}

/// Runs `keep`.
pub(crate) fn run(args: &KeepArgs, location: &StoreLocation, out: &mut Output) -> Result {
    let source: SourceName = args.source.parse()?;
    let options = args.fetch.options()?;
    let agent = Agent::open_at(location)?;
    if agent.store().is_none() {
        let message = "there is no store; make one with `tetris init`, or give the pod its volume";
        return Err(Error::message(Code::NoStore, message));
    }
    let interruption = Interruption::watch(&agent)?;
    let state = Arc::new(KeeperState::default());
    let reporter = Reporter {
        agent: agent.clone(),
        name: args.name.clone(),
        priority: args.priority,
        state: Arc::clone(&state),
    };
    let reporting = std::thread::Builder::new()
        .name("reports".to_owned())
        .spawn(move || reporter.run())
        .map_err(|error| Error::new(Code::Failed, error))?;
    let bring = || bring(&agent, &interruption, &source, &options, &state);
    let brought = bring_in_turn(args.priority, &state, bring);
    let (report, folder) = match brought {
        Ok(brought) => brought,
        Err(error) => {
            state.fail(&error);
            // Pods that wait get the reason, if the daemon is there to hear it.
            let until = Instant::now() + LAST_WORDS;
            while !reporting.is_finished() && Instant::now() < until {
                std::thread::sleep(LOOK);
            }
            return Err(error);
        }
    };
    let (files, bytes) = (folder.model().file_count(), folder.model().bytes());
    interruption.set_holding();
    let description = Description::of(folder.model());
    state.set_present(bytes, folder);
    if let Some(port) = args.ready_port {
        accept(port, &agent, &description)?;
    }
    if out.is_json() {
        out.json(&json!({
            "store": lossy(&location.dir),
            "source": source.to_string(),
            "name": args.name,
            "revision": report.revision,
            "files": files,
            "bytes": bytes,
            "bytes_fetched": report.fetched,
            "bytes_restored": report.restored,
        }))?;
        out.flush()?;
    } else {
        output::note(format_args!(
            "`{source}` is kept as `{}`: {}, {}, of which {} were fetched; end it with Ctrl-C",
            args.name,
            counted(files as u64, "file"),
            Bytes(bytes),
            Bytes(report.fetched)
        ));
    }
    end_with_mounts(&interruption, &state)
}

/// Waits for a signal, and then for the end of the mounts, or another signal.
fn end_with_mounts(interruption: &Interruption, state: &KeeperState) -> Result {
    interruption.hold();
    if state.mounts() > 0 {
        output::note(
            "pods have the model mounted; the command ends when none has, or with another signal",
        );
    }
    while state.mounts() > 0 {
        if let Some(signal) = interruption.hold_for(LOOK) {
            end_by(signal);
        }
    }
    end_well()
}

/// Does `bring` again in a full store, as long as models of lower priority give way.
fn bring_in_turn<T>(
    priority: u32,
    state: &KeeperState,
    bring: impl Fn() -> Result<T>,
) -> Result<T> {
    let mut most = 0;
    let mut attempt = 0;
    loop {
        let error = match bring() {
            Ok(brought) => return Ok(brought),
            Err(error) => error,
        };
        let is_full = error.cause::<PullError>().is_some_and(PullError::is_full);
        let done = state.locked().done;
        if done > most {
            (most, attempt) = (done, 0);
        }
        attempt += 1;
        if !is_full || priority == 0 || attempt > ATTEMPTS {
            return Err(error);
        }
        tracing::warn!(%error, "waiting for models of lower priority to give way");
        state.locked().is_blocked = true;
        std::thread::sleep(TURN);
    }
}

/// Pulls the model, and maps all of it.
fn bring(
    agent: &Agent,
    interruption: &Interruption,
    source: &SourceName,
    options: &PullOptions,
    state: &Arc<KeeperState>,
) -> Result<(PullReport, Arc<ShownFolder>)> {
    let fetching = Fetching {
        agent,
        interruption,
        doing: "pulling",
    };
    let counted = |shown: ProgressFn| {
        let state = Arc::clone(state);
        ProgressFn::new(move |now| {
            state.progress(now.done, now.total);
            shown.report(now);
        })
    };
    let (report, folder) = fetching.bring(source, options, counted)?;
    Ok((report, Arc::new(ShownFolder::new(folder)?)))
}

/// Accepts connections of probes, and answers other nodes that ask for manifests, and the scaler that asks for the
/// description.
fn accept(port: u16, agent: &Agent, description: &Description) -> Result {
    let failed = |error| Error::new(Code::Failed, error);
    let any = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
    let listener = TcpListener::bind((any, port))
        // Where there is no IPv6.
        .or_else(|_| TcpListener::bind(("0.0.0.0", port)))
        .map_err(failed)?;
    let agent = agent.clone();
    let description =
        serde_json::to_vec(description).map_err(|error| Error::new(Code::Failed, error))?;
    let answer = move || {
        if let Err(error) = tetris_delivery::answer_peers(listener, &agent, description) {
            tracing::error!(%error, "probes and other nodes get no answer");
        }
    };
    let thread = std::thread::Builder::new().name("peers".to_owned());
    thread.spawn(answer).map_err(failed)?;
    Ok(())
}

/// Progress of the model, for the daemon.
#[derive(Debug, Default)]
struct KeeperState(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    done: u64,
    total: u64,
    /// The model, once it is there.
    folder: Option<Arc<ShownFolder>>,
    problem: Option<String>,
    /// True until it is reported that the store had no room: one model gives way for each report.
    is_blocked: bool,
    /// Mounts under way, the last one last.
    mounts: Vec<u64>,
    /// The last rate, and when and after how many bytes it was measured.
    bytes_per_second: u64,
    measured: Option<(Instant, u64)>,
}

impl KeeperState {
    fn locked(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn progress(&self, done: u64, total: u64) {
        let mut kept = self.locked();
        (kept.done, kept.total) = (done, total);
    }

    fn set_present(&self, bytes: u64, folder: Arc<ShownFolder>) {
        let mut kept = self.locked();
        (kept.done, kept.total) = (bytes, bytes);
        kept.folder = Some(folder);
    }

    fn fail(&self, error: &Error) {
        self.locked().problem = Some(error.to_string());
    }

    fn mounts(&self) -> usize {
        self.locked().mounts.len()
    }

    /// The report of this moment.
    fn report(&self) -> ModelReport {
        let mut kept = self.locked();
        kept.measure();
        let is_blocked = std::mem::take(&mut kept.is_blocked);
        let stage = match (&kept.problem, &kept.folder) {
            (Some(_), _) => ModelStage::Failed,
            (None, Some(_)) => ModelStage::Present,
            (None, None) if is_blocked => ModelStage::Blocked,
            (None, None) => ModelStage::Pulling,
        };
        ModelReport {
            stage,
            done: kept.done,
            total: kept.total,
            bytes_per_second: match stage {
                ModelStage::Pulling => kept.bytes_per_second,
                ModelStage::Present | ModelStage::Failed | ModelStage::Blocked => 0,
            },
            mount: kept.mounts.last().copied().unwrap_or_default(),
            problem: kept.problem.clone().unwrap_or_default(),
        }
    }
}

impl Kept {
    fn measure(&mut self) {
        let Some((at, done)) = self.measured else {
            self.measured = Some((Instant::now(), self.done));
            return;
        };
        let time = at.elapsed();
        if time >= RATE {
            let bytes = self.done.saturating_sub(done) as f64;
            self.bytes_per_second = (bytes / time.as_secs_f64()) as u64;
            self.measured = Some((Instant::now(), self.done));
        }
    }
}

/// Reports to the daemon, and takes mounts from it. It ends once the daemon has heard of a failure.
struct Reporter {
    agent: Agent,
    name: String,
    priority: u32,
    state: Arc<KeeperState>,
}

impl Reporter {
    fn run(&self) {
        let mut pause = FIRST_PAUSE;
        let mut warned = false;
        loop {
            let ended = match self.connect() {
                Ok(mut keeper) => {
                    (pause, warned) = (FIRST_PAUSE, false);
                    self.follow(&mut keeper)
                }
                Err(error) => Err(error),
            };
            let Err(error) = ended else { return };
            if !std::mem::replace(&mut warned, true) {
                tracing::warn!(%error, "the node's daemon does not know of this model; trying again");
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    fn connect(&self) -> Result<ModelKeeper, DaemonError> {
        let store = self.agent.store().ok_or_else(|| DaemonError::Absent {
            socket: "daemon".into(),
        })?;
        let client = DaemonClient::of_store(store, LAST_WORDS);
        client.keep_model(store.header_descriptor(), &self.name, self.priority)
    }

    fn follow(&self, keeper: &mut ModelKeeper) -> Result<(), DaemonError> {
        loop {
            let report = self.state.report();
            let is_last = report.stage == ModelStage::Failed;
            match keeper.report(report)? {
                Some(KeeperNews::Mount(passed)) => self.serve(passed),
                Some(KeeperNews::Yield) => self.give_way(keeper),
                None if is_last => return Ok(()),
                None => {}
            }
        }
    }

    /// Ends the command, so that another model has its room, unless a pod has the model mounted.
    fn give_way(&self, keeper: &mut ModelKeeper) {
        if self.state.mounts() > 0 {
            return;
        }
        let error = Error::message(
            Code::Failed,
            "the store has no room for this model beside those of higher priority; it is tried again later",
        );
        self.state.fail(&error);
        // Pods that wait get the reason, if the daemon is there to hear it.
        let _unheard = keeper.report(self.state.report());
        output::error(&error);
        std::process::exit(error.code as i32);
    }

    /// Answers for a mount, in its thread.
    fn serve(&self, passed: PassedMount) {
        let PassedMount { mount, device } = passed;
        let mut kept = self.state.locked();
        let folder = kept.folder.clone();
        let Some(folder) = folder.filter(|_| kept.mounts.len() < MAX_MOUNTS) else {
            tracing::warn!(mount, mounts = kept.mounts.len(), "a mount is not taken");
            return;
        };
        kept.mounts.push(mount);
        drop(kept);
        let (state, agent) = (Arc::clone(&self.state), self.agent.clone());
        let serve = move || {
            let opener = Box::new(move |object: &_| open_object(&agent, object));
            if let Err(error) = folder.serve(device, threads(), opener) {
                tracing::warn!(mount, %error, "a mount has ended");
            }
            state.locked().mounts.retain(|served| *served != mount);
        };
        let thread = std::thread::Builder::new().name("mount".to_owned());
        if let Err(error) = thread.spawn(serve) {
            tracing::warn!(mount, %error, "a mount is not taken");
            self.state.locked().mounts.retain(|served| *served != mount);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked_before_anything_is_fetched() {
        assert_eq!(parse_name("llama-3.1"), Ok("llama-3.1".to_owned()));
        assert!(parse_name("Llama").is_err());
    }

    #[test]
    fn a_failure_is_told_with_what_was_fetched() {
        let state = KeeperState::default();
        state.progress(5, 10);
        assert_eq!(state.report().stage, ModelStage::Pulling);
        state.fail(&Error::message(Code::Failed, "no answer"));
        let report = state.report();
        assert_eq!(report.stage, ModelStage::Failed);
        assert_eq!((report.done, report.total), (5, 10));
        assert_eq!(report.problem, "no answer");
    }
}
