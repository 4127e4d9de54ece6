//! Models declared warm: those that pods of this node run or are about to run (T_warm of Tetris 4).

mod declaration;
mod declared;
mod resolve;

pub use declaration::{Declaration, DeclarationError, MAX_NAME_BYTES};
pub use declared::{Freshness, Pod, WarmSet};

pub(crate) use resolve::{StoreDeclarations, WarmResolver};
