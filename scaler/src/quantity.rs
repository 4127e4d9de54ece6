//! Parser of Kubernetes quantities: `250m`, `1.5Gi`, `2e9`.

/// Parses CPU in millicores, rounded up; `None` if `text` is not a quantity or negative.
pub fn millis(text: &str) -> Option<u64> {
    scaled(text, 1_000)
}

/// Parses memory in bytes, rounded up; `None` if `text` is not a quantity or negative.
pub fn bytes(text: &str) -> Option<u64> {
    scaled(text, 1)
}

fn scaled(text: &str, scale: u128) -> Option<u64> {
    let number_end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.' && c != '+')
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at_checked(number_end)?;
    let (multiply, divide) = factor(suffix)?;
    let number = number.strip_prefix('+').unwrap_or(number);
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && part.is_empty()) || part.len() > 18 {
        return None;
    }
    let digits: u128 = format!("{whole}{part}").parse().ok()?;
    let divide = divide.checked_mul(10_u128.checked_pow(u32::try_from(part.len()).ok()?)?)?;
    let product = digits.checked_mul(multiply)?.checked_mul(scale)?;
    u64::try_from(product.div_ceil(divide)).ok()
}

/// Returns the multiplier and the divisor of a suffix.
fn factor(suffix: &str) -> Option<(u128, u128)> {
    Some(match suffix {
        "" => (1, 1),
        "n" => (1, 1_000_000_000),
        "u" => (1, 1_000_000),
        "m" => (1, 1_000),
        "k" => (1_000, 1),
        "M" => (1_000_000, 1),
        "G" => (1_000_000_000, 1),
        "T" => (1_000_000_000_000, 1),
        "P" => (1_000_000_000_000_000, 1),
        "E" => (1_000_000_000_000_000_000, 1),
        "Ki" => (1 << 10, 1),
        "Mi" => (1 << 20, 1),
        "Gi" => (1 << 30, 1),
        "Ti" => (1 << 40, 1),
        "Pi" => (1 << 50, 1),
        "Ei" => (1 << 60, 1),
        other => return exponent(other.strip_prefix(['e', 'E'])?),
    })
}

fn exponent(digits: &str) -> Option<(u128, u128)> {
    let exponent: i32 = digits.parse().ok()?;
    let power = 10_u128.checked_pow(exponent.unsigned_abs())?;
    Some(if exponent < 0 { (1, power) } else { (power, 1) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_as_kubernetes_writes_them() {
        let cpus = [
            ("1", Some(1_000)),
            ("250m", Some(250)),
            ("0.1", Some(100)),
            ("1.5", Some(1_500)),
            ("100n", Some(1)),
            ("2k", Some(2_000_000)),
            ("+3", Some(3_000)),
            ("1e3", Some(1_000_000)),
            ("1e-3", Some(1)),
        ];
        for (text, expected) in cpus {
            assert_eq!(millis(text), expected, "{text}");
        }
        let memory = [
            ("128974848", Some(128_974_848)),
            ("129e6", Some(129_000_000)),
            ("129M", Some(129_000_000)),
            ("123Mi", Some(123 << 20)),
            ("1.5Gi", Some(3 << 29)),
            ("128974848000m", Some(128_974_848)),
            ("1E", Some(1_000_000_000_000_000_000)),
        ];
        for (text, expected) in memory {
            assert_eq!(bytes(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_quantity_is_none() {
        for text in [
            "",
            ".",
            "-1",
            "1 Gi",
            "1gi",
            "Gi",
            "1e",
            "1e99",
            "1..2",
            "99999999999999999999",
            "1.0000000000000000001",
            "\u{663}",
            "1\u{b5}",
        ] {
            assert_eq!(bytes(text), None, "{text}");
        }
    }
}
