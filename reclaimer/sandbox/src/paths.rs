//! Rules for paths, ports, signals and abstract sockets (landlock(7)).

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, LandlockStatus,
    NetPort, PathBeneath, RestrictSelf, Ruleset, RulesetAttr as _, RulesetCreated,
    RulesetCreatedAttr as _, Scope, make_bitflags,
};
use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;

use crate::profile::{PathRule, Profile, Rights};
use crate::{SandboxError, Unrestricted};

/// The newest version of the interface whose rules were tested. Rules of a newer one are not used.
const TESTED: ABI = ABI::V7;
/// The oldest version that permits moves between directories. Stores need them.
const OLDEST: ABI = ABI::V2;

/// Puts the rules of `profile` in force for this thread and the threads that it starts. Returns the version of the interface, or the reason for none.
pub(crate) fn enter(profile: &Profile) -> Result<Result<u32, Unrestricted>, SandboxError> {
    let abi = match available()? {
        Ok(abi) => abi,
        Err(because) => return Ok(Err(because)),
    };
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(TESTED))?
        .scope(Scope::from_all(TESTED))?;
    if profile.has_tcp() {
        ruleset = ruleset.handle_access(AccessNet::BindTcp)?;
        if profile.tcp.connect.is_some() {
            ruleset = ruleset.handle_access(AccessNet::ConnectTcp)?;
        }
    } else {
        ruleset = ruleset.handle_access(AccessNet::from_all(TESTED))?;
    }
    let mut created = ruleset.create()?;
    for rule in &profile.paths {
        created = add_path(created, rule)?;
    }
    for port in &profile.tcp.bind {
        created = created.add_rule(NetPort::new(*port, AccessNet::BindTcp))?;
    }
    for port in profile.tcp.connect.iter().flatten() {
        created = created.add_rule(NetPort::new(*port, AccessNet::ConnectTcp))?;
    }
    created.restrict_self()?;
    Ok(Ok(abi as u32))
}

/// The version of the interface that this kernel has, or the reason for none.
fn available() -> Result<Result<ABI, Unrestricted>, SandboxError> {
    // The library returns the version for a request to restrict nothing.
    let status = RestrictSelf::default().apply()?.landlock;
    Ok(match status {
        LandlockStatus::Available { effective_abi, .. } if effective_abi >= OLDEST => {
            Ok(effective_abi)
        }
        LandlockStatus::Available { effective_abi, .. } => Err(Unrestricted::OldLandlock {
            found: effective_abi as u32,
            oldest: OLDEST as u32,
        }),
        LandlockStatus::NotEnabled => Err(Unrestricted::LandlockOff),
        LandlockStatus::NotImplemented => Err(Unrestricted::NoLandlock),
    })
}

/// Adds the rule, unless its path is missing and may be.
fn add_path(created: RulesetCreated, rule: &PathRule) -> Result<RulesetCreated, SandboxError> {
    let opened = open(&rule.path, OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty());
    match opened {
        Ok(file) => Ok(created.add_rule(PathBeneath::new(file, rule.rights.accesses()))?),
        Err(_) if !rule.required => Ok(created),
        Err(source) => Err(SandboxError::Path {
            path: rule.path.clone(),
            source: source.into(),
        }),
    }
}

impl Rights {
    /// The accesses that these rights consist of. Those for directories are left out where the path is
    /// a file's.
    fn accesses(self) -> BitFlags<AccessFs> {
        match self {
            Self::Read => make_bitflags!(AccessFs::{ReadFile | ReadDir}),
            Self::Write => make_bitflags!(AccessFs::{
                ReadFile | ReadDir | WriteFile | Truncate | Refer | MakeReg | MakeDir | MakeSock | MakeSym
                    | RemoveFile | RemoveDir
            }),
            Self::Device => make_bitflags!(AccessFs::{ReadFile | ReadDir | WriteFile | IoctlDev}),
        }
    }
}
