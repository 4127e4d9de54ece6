//! The command `tetris-webhook`.

use std::io::{Read as _, Write as _};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use clap::Parser as _;
use tetris_service_kit::command;
use tetris_webhook::cli::{Cli, Command, NamespaceLabel, Patch};
use tetris_webhook::inject::{Scope, inject_templates};

fn main() -> ExitCode {
    let cli = Cli::parse();
    command::run(&cli.logs, || run(&cli.command))
}

fn run(command: &Command) -> Result<()> {
    match command {
        Command::Run(args) => {
            command::runtime()?.block_on(tetris_webhook::run::run(args))?;
            Ok(())
        }
        Command::Patch(args) => patch(args),
        Command::Completions(args) => args.run::<Cli>(),
        Command::Man(args) => args.run::<Cli>(),
    }
}

fn patch(args: &Patch) -> Result<()> {
    let (name, text) = read(args)?;
    let object = serde_json::from_slice(&text)
        .with_context(|| format!("{name}: expected an object in JSON; of YAML, `kubectl label --local -o json -f FILE tetris.dev/inject=true` makes JSON"))?;
    let scope = args
        .labeled_namespace
        .map_or(Scope::Pod, NamespaceLabel::scope);
    let templates = inject_templates(object, scope, &args.injected.options()?);
    if templates.injections.is_empty() {
        bail!(
            "{name}: found no pod; give a Pod, an object with a template of pods, or a List of them"
        );
    }
    for (object, injection) in &templates.injections {
        tracing::info!("{object}: {}", injection.outcome.name());
        for warning in &injection.warnings {
            tracing::warn!("{object}: {warning}");
        }
    }
    let mut printed = serde_json::to_string_pretty(&templates.object)?;
    printed.push('\n');
    std::io::stdout().write_all(printed.as_bytes())?;
    Ok(())
}

fn read(args: &Patch) -> Result<(String, Vec<u8>)> {
    let Some(path) = &args.file else {
        let mut text = Vec::new();
        std::io::stdin()
            .read_to_end(&mut text)
            .context("standard input")?;
        return Ok(("standard input".to_owned(), text));
    };
    let name = path.display().to_string();
    let text = std::fs::read(path).with_context(|| name.clone())?;
    Ok((name, text))
}
