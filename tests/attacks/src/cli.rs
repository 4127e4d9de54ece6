//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::Parser;

use crate::attack::{Attack, Context, raise_limit};
use crate::gateway::GatewayAttack;
use crate::line::{End, Line};
use crate::rights::Rights;
use crate::victim;

/// Hostile pods, and the victim beside them.
///
/// Each ends with its standard input, or after `--seconds`.
#[derive(Debug, Parser)]
enum Cli {
    /// Attack the daemon from the pod that has this volume
    Attack(AttackArgs),
    /// Attack a gateway from a client of its port
    Gateway(GatewayArgs),
    /// Load a fresh model at an interval, and check every byte
    Victim(VictimArgs),
}

#[derive(Debug, clap::Args)]
struct AttackArgs {
    /// The attack
    attack: Attack,
    #[command(flatten)]
    pod: PodArgs,
    /// Have the rights of root in a container, in place of those of a user
    #[arg(long)]
    container_root: bool,
    /// Address of a port that the daemon serves; repeatable
    #[arg(long = "page")]
    pages: Vec<SocketAddr>,
    /// Directory of another user's models, in which this one may create files
    #[arg(long)]
    models: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
struct GatewayArgs {
    /// The attack
    attack: GatewayAttack,
    /// Address of the gateway, which has the functions `victim`, `flood` and `zero`
    #[arg(long)]
    address: SocketAddr,
    /// User of the pod
    #[arg(long, default_value_t = 4711)]
    user: u32,
    /// Time after which it ends; without it, it ends with its standard input
    #[arg(long)]
    seconds: Option<u64>,
}

#[derive(Debug, clap::Args)]
struct VictimArgs {
    #[command(flatten)]
    pod: PodArgs,
    /// Time between the begins of two loads
    #[arg(long, default_value_t = 2000)]
    every_ms: u64,
}

#[derive(Debug, clap::Args)]
struct PodArgs {
    /// The pod's volume
    #[arg(long)]
    store: PathBuf,
    /// A directory that the pod may write to
    #[arg(long)]
    scratch: PathBuf,
    /// User of the pod
    #[arg(long, default_value_t = 4711)]
    user: u32,
    /// Time after which it ends; without it, it ends with its standard input
    #[arg(long)]
    seconds: Option<u64>,
}

impl PodArgs {
    fn end(&self) -> End {
        end_after(self.seconds)
    }
}

/// The end after so many seconds, or with the standard input.
fn end_after(seconds: Option<u64>) -> End {
    End::new(seconds.map(Duration::from_secs))
}

/// Runs the program.
///
/// # Errors
/// When it cannot do what it is asked to. A refusal of the daemon is none.
pub fn main() -> Result<()> {
    tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::ERROR)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .init();
    match Cli::parse() {
        Cli::Attack(args) => attack(args),
        Cli::Gateway(args) => {
            Rights::User(args.user).take()?;
            raise_limit()?;
            args.attack.run(args.address, &end_after(args.seconds))
        }
        Cli::Victim(VictimArgs { pod, every_ms }) => {
            Rights::User(pod.user).take()?;
            let interval = Duration::from_millis(every_ms);
            victim::run(&pod.store, &pod.scratch, interval, &pod.end())
        }
    }
}

fn attack(args: AttackArgs) -> Result<()> {
    let attack = args.attack;
    let rights = if attack.keeps_rights() {
        Rights::Kept
    } else if args.container_root {
        Rights::ContainerRoot
    } else {
        Rights::User(args.pod.user)
    };
    // It is made with the node's rights, and used without them.
    let prepared = match attack.prepare(&args.pod.scratch) {
        Ok(prepared) => prepared,
        Err(error) => {
            let (attack, reason) = (attack.name(), format!("{error:#}"));
            return Ok(Line::Skipped { attack, reason }.say()?);
        }
    };
    rights.take()?;
    let end = args.pod.end();
    let context = Context {
        store: args.pod.store,
        scratch: args.pod.scratch,
        pages: args.pages,
        models: args.models,
        rights,
        end,
    };
    attack.run(&context, prepared)
}
