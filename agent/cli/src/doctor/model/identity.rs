//! The identities by which loads recognize a model's files.

use std::collections::BTreeSet;
use std::path::Path;

use super::file::LookedFile;
use super::some_of;
use crate::doctor::check::Check;
use crate::doctor::users;
use tetris_agent::sidecar::{SidecarState, path_of};

/// The checks of identities and of sidecars, where there are some.
pub(super) fn checks(path: &Path, files: &[LookedFile]) -> Vec<Check> {
    let mut checks = vec![identity(path, files)];
    checks.extend(sidecars(files));
    checks
}

fn identity(path: &Path, files: &[LookedFile]) -> Check {
    let known = files.iter().filter_map(|file| file.known.as_ref());
    let ways: BTreeSet<&str> = known.map(|known| known.how.name()).collect();
    let ways: Vec<&str> = ways.into_iter().collect();
    let unknown = files.iter().filter(|file| file.known.is_none()).count();
    let unrecognizable: Vec<&LookedFile> = files
        .iter()
        .filter(|file| !file.is_recognizable() && file.not_worth.is_none())
        .collect();
    let check = if let Some(first) = unrecognizable.first() {
        Check::warning(
            "identity",
            format!(
                "{} of {} files cannot be recognized: `stat` on {} proves nothing, so each load hashes them",
                unrecognizable.len(),
                files.len(),
                first.file_system
            ),
        )
        .expected("ext4, xfs, btrfs, f2fs or tmpfs; a Hugging Face cache; or a sidecar")
        .remedy(format_args!("run `tetris hash {}` as the model's owner", path.display()))
    } else if unknown == 0 {
        Check::ok("identity", format!("known by {}", ways.join(" and ")))
    } else if unknown == files.len() {
        Check::note(
            "identity",
            "not known: no process has loaded it through this store yet",
        )
    } else {
        Check::note(
            "identity",
            format!("{unknown} of {} files are not known yet", files.len()),
        )
    };
    check.fact("known_by", ways).fact("unknown_files", unknown)
}

/// The first sidecar that loads ignore; else, that they are valid.
fn sidecars(files: &[LookedFile]) -> Option<Check> {
    let there: Vec<&LookedFile> = files
        .iter()
        .filter(|file| !matches!(file.sidecar, SidecarState::Absent))
        .collect();
    if there.is_empty() {
        return None;
    }
    let ignored = there
        .iter()
        .find(|file| !matches!(file.sidecar, SidecarState::Valid(_)));
    let Some(file) = ignored else {
        return Some(Check::ok(
            "sidecar",
            format!("{} of {} files have a valid one", there.len(), files.len()),
        ));
    };
    let (sidecar, model) = (path_of(&file.path), file.path.display());
    let sidecar = sidecar.display();
    let renew = format!("run `tetris hash {model}` as the model's owner");
    let check = |why: String| Check::warning("sidecar", format!("`{sidecar}` is ignored: {why}"));
    let check = match &file.sidecar {
        SidecarState::Untrusted { owner, writer } => check(format!(
            "it is {}'s, the model {}'s",
            users::name(*writer),
            users::name(*owner)
        ))
        .expected("a sidecar of the model's owner or root")
        .remedy(format_args!("run `rm {sidecar}`")),
        SidecarState::Damaged(error) => check(error.to_string())
            .expected("an undamaged sidecar")
            .remedy(renew),
        _ => check("the file was changed after it was written".to_owned())
            .expected("a sidecar of this version of the file")
            .remedy(renew),
    };
    let names: Vec<&str> = there.iter().map(|file| file.sidecar.name()).collect();
    Some(check.fact("states", some_of(&names)))
}
