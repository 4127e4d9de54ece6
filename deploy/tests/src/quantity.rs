//! Amounts of memory as Kubernetes writes them.

/// Bytes of `8Gi`, `512Mi`, `1G` or `1024`; `None` of anything else that the manifests here do not use.
pub fn bytes(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit());
    let (number, unit) = text.split_at(end.unwrap_or(text.len()));
    let factor = match unit {
        "" => 1,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::bytes;

    #[test]
    fn units_are_those_of_kubernetes() {
        assert_eq!(bytes("8Gi"), Some(8 << 30));
        assert_eq!(bytes("512Mi"), Some(512 << 20));
        assert_eq!(bytes("2G"), Some(2_000_000_000));
        assert_eq!(bytes("17"), Some(17));
        assert_eq!(bytes("1.5Gi"), None);
        assert_eq!(bytes(""), None);
    }
}
