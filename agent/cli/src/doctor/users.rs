//! Names of users.

use nix::unistd::{Uid, User};

/// A user's name and number, or the number alone.
pub(super) fn name(uid: u32) -> String {
    match User::from_uid(Uid::from_raw(uid)) {
        Ok(Some(user)) => format!("{} ({uid})", user.name),
        _ => format!("user {uid}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_without_a_name_is_a_number() {
        assert_eq!(name(4_000_000_001), "user 4000000001");
    }
}
