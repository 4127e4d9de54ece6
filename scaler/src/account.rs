//! The account without a right, as the API server names it in a refusal.

/// Beginning of a service account's user name.
const PREFIX: &str = "system:serviceaccount:";

/// Returns `NAMESPACE:NAME` of the refused account, or the usual namespace and `name` where the message names no service account.
pub(crate) fn refused_account(message: &str, name: &str) -> String {
    let (_, user) = message.split_once(PREFIX).unwrap_or_default();
    let is_part = |c: char| c.is_ascii_alphanumeric() || "-.:".contains(c);
    let end = user.find(|c| !is_part(c)).unwrap_or(user.len());
    match user[..end].split_once(':') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() => {
            format!("{namespace}:{name}")
        }
        _ => format!("tetris-system:{name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_account_is_that_of_the_refusal() {
        let refusal = r#"pods "a" is forbidden: User "system:serviceaccount:models:tetris-gates" cannot patch resource "pods" in API group "" in the namespace "team""#;
        assert_eq!(
            refused_account(refusal, "tetris-gates"),
            "models:tetris-gates"
        );
    }

    #[test]
    fn a_user_without_an_account_gives_the_usual_one() {
        for message in [
            "",
            r#"User "admin" cannot patch"#,
            "system:serviceaccount:",
            "system:serviceaccount:a",
        ] {
            let account = refused_account(message, "tetris-scaler");
            assert_eq!(account, "tetris-system:tetris-scaler", "{message}");
        }
    }
}
