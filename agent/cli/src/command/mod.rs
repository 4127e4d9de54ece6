//! The command line: subcommands and their dispatch.

mod checkpoint;
mod completions;
mod counts;
mod description;
mod doctor;
mod error;
mod exec;
mod exit;
mod failures;
mod gc;
#[cfg(feature = "gpu")]
mod gpu_status;
mod hash;
mod hold;
mod holding;
mod init;
mod interruption;
mod keep;
mod layouts;
mod load;
mod loading;
mod lookup;
mod ls;
mod man;
mod model_row;
mod mount;
mod output;
mod pages;
mod place;
mod present;
mod progress;
mod pull;
mod push;
mod rm;
mod savings;
mod show;
mod similarity;
mod size;
mod stat;
mod table;
mod time;
mod top;
mod verify;

use std::ffi::OsString;
use std::io::IsTerminal;
use std::process::ExitCode;

use clap::builder::OsStringValueParser;
use clap::{Args, Parser, Subcommand};
use tetris_conventions::log_filter::LogFilter;
use tracing_subscriber::EnvFilter;

use self::error::{Error, Result};
use self::exit::Code;
use self::output::{Format, Output};
use tetris_agent::store_location::{STORE_ENV, StoreLocation};

/// Default filter of the log. It leaves out the agent's own warning: this command gives the same
/// reason with the model's name.
const LOG_DEFAULT: &str = "warn,tetris_agent::agent=error";
/// Help lists the options of every subcommand below its own.
const GLOBAL: &str = "Global options";

/// One copy of every model tensor per node.
///
/// A tensor store is a tmpfs directory of objects named by their content. Processes that load
/// models through it share their memory. A known model is attached without being read.
#[derive(Debug, Parser)]
#[command(name = "tetris", version, max_term_width = 100, after_help = exit::HELP)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

/// Options of every subcommand, accepted before and after its name.
#[derive(Debug, Args)]
struct Global {
    /// Directory of the store [default: /run/tetris/store if there is one, else /dev/shm/tetris; a store of
    /// this user's own at the latter comes first if the former is read-only and no daemon serves it]
    #[arg(
        long,
        global = true,
        env = STORE_ENV,
        hide_env_values = true,
        value_name = "DIR",
        value_parser = OsStringValueParser::new(),
        help_heading = GLOBAL,
    )]
    store: Option<OsString>,
    /// Format of results: text or json
    #[arg(
        long,
        global = true,
        value_enum,
        value_name = "FORMAT",
        default_value_t,
        hide_possible_values = true,
        help_heading = GLOBAL,
    )]
    format: Format,
    /// Log level, or levels of targets such as `info,tetris_agent=debug` [default: TETRIS_LOG, else
    /// RUST_LOG, else warn]
    #[arg(long, global = true, value_name = "FILTER", help_heading = GLOBAL)]
    log: Option<String>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Diagnose the store, this machine, models and a process
    ///
    /// Each check names the state, the expected one and the remedy. It looks at the store, its room,
    /// pages and owner, at the daemon and the kernel; at the records by which the store knows a MODEL, and
    /// the part of it that would be private; at the shared and the private memory of a process, and the
    /// reasons. It changes nothing. Ends with code 6 for warnings and 7 for failures.
    Doctor(doctor::DoctorArgs),
    /// Prepare a store
    ///
    /// Root mounts a tmpfs with 2 MiB pages and its own size. Other users, and root where mounting
    /// is not permitted, prepare a directory on /dev/shm; the command reports the cost of that. An
    /// existing store stays as it is, except that --size and --huge change its mount.
    #[command(long_about)]
    Init(init::InitArgs),
    /// Publish models in the store and report
    ///
    /// A known file is not read again. Tensors that a full store cannot take are loaded into private
    /// memory and reported as such: that is no error. Ctrl-C leaves the tensors published so far in the
    /// store, and the same command goes on from there.
    Load(load::LoadArgs),
    /// Pull models from hubs, buckets, registries and web servers straight into the store
    ///
    /// SOURCE is hf://ORG/MODEL or hf://ORG/MODEL@REVISION, s3://, gs:// or az://BUCKET/FOLDER,
    /// oci://REGISTRY/REPO:TAG, https://HOST/FILE, or a folder. No file is written, and only what the store
    /// does not have is fetched: a file is known by the SHA-256 that the source promises, by its version
    /// there, or by the sidecar beside it (`tetris hash`). After an interruption the same command goes on
    /// from where it was.
    ///
    /// Credentials come from the environment and the files of each provider's own client: HF_TOKEN or
    /// `hf auth login`; AWS_*, GOOGLE_*, AZURE_* and the profiles of the AWS command; `docker
    /// login`; TETRIS_PULL_TOKEN for web servers. HTTPS_PROXY, NO_PROXY and SSL_CERT_FILE count.
    #[command(after_help = "\
Examples:
  tetris pull hf://Qwen/Qwen3-8B
  tetris pull s3://models/llama --limit-rate 500M
  tetris pull hf://openai/whisper-large-v3 --include '*.safetensors'")]
    Pull(pull::PullArgs),
    /// Show a pulled model as a folder that any program opens
    ///
    /// DIR shows the files of the model at SOURCE, as `tetris pull` brought them, read-only. Their bytes are
    /// those in the store: programs with the package map the shared tensors, and others read the files. The
    /// model stays in the store while it is mounted. The command runs until Ctrl-C or `umount DIR`.
    #[command(after_help = "\
Examples:
  tetris mount hf://Qwen/Qwen3-8B /mnt/qwen &
  tetris mount s3://models/llama ~/llama --allow-other")]
    Mount(mount::MountArgs),
    /// Keep a model on this node, for the pods that mount it
    ///
    /// Pulls the model at SOURCE as `tetris pull` does, holds it in the store, and answers for the volumes
    /// `content: model` by which pods of the same trust domain mount it as NAME. It runs until Ctrl-C or SIGTERM,
    /// and then as long as a pod has the model mounted, or until it gives way to a model of higher priority in a
    /// full store. The pods of a `Model` run it on each of its nodes.
    #[command(after_help = "\
Examples:
  tetris keep hf://Qwen/Qwen3-8B --name qwen3-8b
  tetris keep s3://models/llama --name llama --ready-port 8080")]
    Keep(keep::KeepArgs),
    /// Put the files of models into directories where a server looks for them
    ///
    /// Pulls the model at SOURCE as `tetris pull` does, and copies its files into DIR, with sidecars: programs with
    /// the package map the shared tensors, and others read the files. It is KServe's storage initializer for
    /// all sources of `tetris pull`. With tetris://NAME it copies nothing, and checks that DIR is a volume
    /// that shows the model.
    #[command(after_help = "\
Examples:
  tetris place hf://Qwen/Qwen3-8B /mnt/models
  tetris place s3://models/base /mnt/models/base s3://models/adapter /mnt/models/adapter")]
    Place(place::PlaceArgs),
    /// Write sidecars beside the models at a source, so that other nodes fetch only what they lack
    ///
    /// Pulls the safetensors files at SOURCE, a repository hf://, a bucket s3://, gs:// or az://, or a folder, and
    /// writes FILE.tetris beside each FILE, as `tetris hash` does beside a file of this machine. A node with the
    /// base of a fine-tune then fetches only the tensors that differ. Sidecars that are there and right stay.
    ///
    /// With --to, pulls all of the model and pushes it to a tag of a registry as an artifact: a layer for each tensor
    /// of 1 MiB or more, which the registry keeps once for all fine-tunes that have it.
    #[command(long_about)]
    Push(push::PushArgs),
    /// Run a program while models stay in the store
    ///
    /// The references live exactly as long as CMD. Signals, terminal and exit code are CMD's own. CMD
    /// finds the store in TETRIS_STORE, and Python programs load safetensors files through it where the
    /// package tetris-store is installed (TETRIS_PATCH=1).
    ///
    /// In CMD's arguments `{}` stands for the path of the first model, `{1}`, `{2}` and so on for each.
    /// For a file that is kept whole it is a path in the store, under the file's own name; for
    /// safetensors files and directories, which are kept as tensors, it is their own path.
    ///
    /// Without a usable store CMD runs even so, after a warning.
    #[command(after_help = "\
Examples:
  tetris exec -- python serve.py
  tetris exec --model model.gguf -- llama-server -m {}
  tetris exec --model ./Llama-3.1-8B -- python serve.py ./Llama-3.1-8B")]
    Exec(exec::ExecArgs),
    /// Write a sidecar beside model files, so that other nodes recognize them
    ///
    /// Each safetensors file FILE gets FILE.tetris, which lists its tensors and their digests. A node whose
    /// store has those tensors then attaches the file after reading 64 blocks of it.
    Hash(hash::HashArgs),
    /// List models, objects or records
    ///
    /// HOLDERS is the number of mappings that keep an entry in the store. For a model it is the smallest
    /// number of its objects, since other models may share the rest. LAST PATH is a hint: the path by which
    /// a process loaded the model, which may be another file by now. `tetris show` names the processes.
    Ls(ls::LsArgs),
    /// Show one object, manifest, derived record or model in full
    Show(show::ShowArgs),
    /// Show the use of the store and the savings of sharing
    ///
    /// The shared factor is the number of copies, on average over the referenced bytes, that would exist
    /// if every holder had its own. The page cache has one copy of a file for all processes, but one of
    /// each file: savings against it are the bytes that models in use have in common with each other.
    Stat(stat::StatArgs),
    /// Watch stores, models, their holders and loads under way
    ///
    /// Shows the store, or both default stores, every --interval until Ctrl-C, which ends it with code 0. With
    /// --format json each look is one line.
    #[command(long_about)]
    Top(top::TopArgs),
    /// Check that the bytes in the store match their names
    ///
    /// Uses all cores. Ends with code 5 if anything is damaged.
    Verify(verify::VerifyArgs),
    /// Free unreferenced objects, the least recently used first
    Gc(gc::GcArgs),
    /// Remove models: their records, and the objects that no one maps and no other model has
    ///
    /// Objects that processes hold stay, as do those that other models share; the command lists them, and
    /// frees the rest. Ends with code 1 if something of a model stays because it is in use.
    #[command(long_about)]
    Rm(rm::RmArgs),
    /// Show the share of one model that is in another
    ///
    /// theta(A, B) is the share of A's distinct tensor bytes that B has as well.
    Similarity(similarity::SimilarityArgs),
    /// Show the contents of device memory in the node's GPU mirror
    ///
    /// TAKEN is the device memory of all models, HELD the part that processes use. The daemon frees models
    /// that are not held when others need the room; the store still has them.
    #[cfg(feature = "gpu")]
    GpuStatus(gpu_status::GpuStatusArgs),
    /// Print a script by which a shell completes this command
    ///
    /// bash: `tetris completions bash > /etc/bash_completion.d/tetris`. zsh: into a file `_tetris` of
    /// $fpath. fish: into ~/.config/fish/completions/tetris.fish.
    #[command(long_about)]
    Completions(completions::CompletionsArgs),
    /// Write the manual pages of this command and its subcommands
    ///
    /// `tetris man DIR`, then `man DIR/tetris.1`; or into a folder of man(1), such as
    /// /usr/local/share/man/man1.
    #[command(long_about)]
    Man(man::ManArgs),
    /// Hold references for `exec`
    #[command(name = hold::HOLD, hide = true)]
    Hold(hold::HoldArgs),
}

/// Runs the command and returns its exit code.
pub(crate) fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version come this way as well, with code 0.
            let _closed = error.print();
            return match error.exit_code() {
                0 => ExitCode::SUCCESS,
                _ => Code::Usage.into(),
            };
        }
    };
    let out = &mut Output::stdout(cli.global.format);
    match log_to_stderr(&cli).and_then(|()| run(cli, out)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::error(&error);
            out.error_document(&error);
            error.code.into()
        }
    }
}

fn run(cli: Cli, out: &mut Output) -> Result {
    let location = StoreLocation::new(cli.global.store);
    match cli.command {
        Command::Doctor(args) => doctor::run(&args, &location, out),
        Command::Init(args) => init::run(&args, &location, out),
        Command::Load(args) => load::run(&args, &location, out),
        Command::Pull(args) => pull::run(&args, &location, out),
        Command::Mount(args) => mount::run(&args, &location, out),
        Command::Keep(args) => keep::run(&args, &location, out),
        Command::Place(args) => place::run(&args, &location, out),
        Command::Push(args) => push::run(&args, &location, out),
        Command::Exec(args) => exec::run(&args, &location),
        Command::Hash(args) => hash::run(&args, &location, out),
        Command::Ls(args) => ls::run(&args, &location, out),
        Command::Show(args) => show::run(&args, &location, out),
        Command::Stat(args) => stat::run(&args, &location, out),
        Command::Top(args) => top::run(&args, &location, out),
        Command::Verify(args) => verify::run(&args, &location, out),
        Command::Gc(args) => gc::run(&args, &location, out),
        Command::Rm(args) => rm::run(&args, &location, out),
        Command::Similarity(args) => similarity::run(&args, &location, out),
        #[cfg(feature = "gpu")]
        Command::GpuStatus(args) => gpu_status::run(&args, &location, out),
        Command::Completions(args) => completions::run(&args, out),
        Command::Man(args) => man::run(&args),
        Command::Hold(args) => hold::run(&args, &location),
    }?;
    out.flush()
}

/// Starts the log.
///
/// `exec` runs CMD in any case, and CMD may have a filter of another kind in `RUST_LOG`: there a
/// filter that cannot be read is a warning.
fn log_to_stderr(cli: &Cli) -> Result {
    let given = LogFilter::of_process(cli.global.log.as_deref(), LOG_DEFAULT);
    let filter = match given.and_then(|filter| filter.env_filter()) {
        Ok(filter) => filter,
        Err(error) => match cli.command {
            Command::Exec(_) => {
                output::warning(format_args!("{error}; the log goes by its default"));
                EnvFilter::new(LOG_DEFAULT)
            }
            Command::Hold(_) => EnvFilter::new(LOG_DEFAULT),
            _ => return Err(Error::new(Code::Usage, error)),
        },
    };
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal() && !plain)
        .with_target(false)
        .without_time()
        .init();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_are_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }
}
