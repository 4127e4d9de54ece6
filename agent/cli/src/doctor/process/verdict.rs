//! The reason for which a process shares nothing, as far as it can be known from outside.

use std::path::PathBuf;

use tetris_loader::Words;

use super::amount;
use super::environment::Environment;
use super::memory::Memory;
use super::store_view::{StoreState, StoreView};
use crate::doctor::check::Check;

/// The observations about a process.
pub(super) struct Evidence<'e> {
    pub(super) memory: &'e Memory,
    pub(super) environment: &'e Environment,
    pub(super) view: &'e StoreView,
    /// The file that it runs.
    pub(super) program: Option<PathBuf>,
}

/// The checks of the Python package in the process, and of the reason for private memory.
pub(super) fn checks(evidence: &Evidence<'_>) -> Vec<Check> {
    let mut checks = Vec::new();
    if evidence.is_python() {
        checks.push(extension(evidence));
    }
    if !evidence.memory.shares() {
        checks.push(reason(evidence));
    }
    checks
}

impl Evidence<'_> {
    fn is_python(&self) -> bool {
        let name = self.program.as_ref().and_then(|path| path.file_name());
        let by_name = name
            .and_then(|name| name.to_str())
            .is_some_and(|name| name.starts_with("python"));
        by_name || self.memory.has_libpython || self.memory.has_extension
    }

    /// Its interpreter, as a command.
    fn interpreter(&self) -> String {
        let program = self.program.as_ref().map(|path| path.display().to_string());
        program.unwrap_or_else(|| "python".to_owned())
    }
}

fn extension(evidence: &Evidence<'_>) -> Check {
    let mapped = evidence.memory.has_extension;
    let injected_by = &evidence.memory.injected_by;
    let check = match injected_by {
        Some(daemon) => {
            let found = format!(
                "its interpreter has loaded tetris, by injection from the node daemon {daemon}"
            );
            Check::ok("python", found)
        }
        None if mapped => Check::ok("python", "its interpreter has loaded tetris"),
        None => Check::note("python", "its interpreter has not loaded tetris"),
    };
    check
        .fact("extension", mapped)
        .fact("injected_by", injected_by.clone())
        .fact("patch_at_start", evidence.environment.patches())
}

/// The likeliest reason that no object is mapped.
fn reason(evidence: &Evidence<'_>) -> Check {
    let Evidence {
        memory,
        environment,
        view,
        ..
    } = evidence;
    let files = memory.mapped_files().resident;
    let python = evidence.is_python();
    if python && !memory.has_extension && !environment.patches() {
        return warning(
            "unpatched",
            "its Python loads models without the store: TETRIS_PATCH is not set, and it imports no tetris".to_owned(),
        )
        .remedy("start it with `tetris exec -- python ...`, or with `TETRIS_PATCH=1`");
    }
    if python && !memory.has_extension {
        return warning(
            "not-loaded",
            "TETRIS_PATCH is set, but nothing was loaded by it: no safetensors file yet, or the package is not installed in its interpreter".to_owned(),
        )
        .remedy(format_args!("run `TETRIS_PATCH=1 {} -m tetris`", evidence.interpreter()));
    }
    if let Some(cause) = view.cause() {
        return warning(cause.code(), cause.sentence())
            .remedy(cause.remedy(Words::of_process(), &view.dir));
    }
    if python && files > 0 {
        return warning(
            "other-loader",
            format!("{} of model files is mapped by another loader: a file too new or small, or not safetensors, or imported before the patch", amount(files)),
        )
        .remedy(format_args!("run `tetris.doctor()` inside of it, or `{} -m tetris`", evidence.interpreter()));
    }
    if files > 0 {
        return Check::note(
            "reason",
            "it maps model files by their own path, so only the page cache shares them",
        )
        .remedy("start it with `tetris exec --model FILE -- CMD {}`")
        .fact("reason", "own-path");
    }
    if matches!(view.state, StoreState::Hidden(_)) {
        return Check::note("reason", "not known: its store cannot be seen from here")
            .fact("reason", "hidden");
    }
    Check::note(
        "reason",
        "it has mapped no model: none was loaded yet, or it was freed, or copied to a device",
    )
    .fact("reason", "no-model")
}

fn warning(reason: &str, found: String) -> Check {
    Check::warning("reason", found)
        .expected("weights mapped from the store")
        .fact("reason", reason)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tetris_loader::PrivateCause;

    use super::super::memory::Sizes;
    use super::*;
    use crate::doctor::store::Publishing;

    struct Process {
        memory: Memory,
        environment: Environment,
        view: StoreView,
        program: &'static str,
    }

    impl Process {
        fn new(program: &'static str) -> Self {
            let state = StoreState::Usable {
                id: String::new(),
                publishing: Publishing::Own,
                cause: None,
            };
            Self {
                memory: Memory::default(),
                environment: Environment::default(),
                view: StoreView {
                    dir: "/s".into(),
                    named: false,
                    state,
                },
                program,
            }
        }

        /// The reason's name, and the remedy.
        fn reason(&self) -> Option<(String, String)> {
            let checks = checks(&Evidence {
                memory: &self.memory,
                environment: &self.environment,
                view: &self.view,
                program: Some(Path::new(self.program).to_owned()),
            });
            let reason = checks.into_iter().find(|check| check.name == "reason")?;
            let name = reason.facts["reason"].as_str().unwrap().to_owned();
            Some((name, reason.remedy.unwrap_or_default()))
        }
    }

    #[test]
    fn each_situation_has_its_reason() {
        let mut python = Process::new("/usr/bin/python3.12");
        let (name, remedy) = python.reason().unwrap();
        assert!(
            name == "unpatched" && remedy.contains("tetris exec"),
            "{name}: {remedy}"
        );
        python.environment = Environment::parse(b"TETRIS_PATCH=1\0");
        let (name, remedy) = python.reason().unwrap();
        assert!(
            name == "not-loaded" && remedy.contains("/usr/bin/python3.12 -m tetris"),
            "{remedy}"
        );
        python.memory.has_extension = true;
        python.view.state = StoreState::Unusable(PrivateCause::NoStore);
        let (name, remedy) = python.reason().unwrap();
        assert!(
            name == "no-store" && remedy.contains("tetris init"),
            "{name}: {remedy}"
        );
        python.view.state = StoreState::Hidden("x".into());
        assert_eq!(python.reason().unwrap().0, "hidden");
        let sizes = Sizes {
            resident: 1 << 20,
            ..Sizes::default()
        };
        python.memory.files.insert("/m.safetensors".into(), sizes);
        assert_eq!(python.reason().unwrap().0, "other-loader");
        let mut server = Process::new("/usr/bin/llama-server");
        assert_eq!(server.reason().unwrap().0, "no-model");
        server.memory.files.insert("/m.gguf".into(), sizes);
        assert_eq!(server.reason().unwrap().0, "own-path");
        server.memory.foreign.0 = 1;
        assert_eq!(server.reason(), None, "it shares");
    }
}
