//! Kubernetes' quantities: `500m`, `16Gi`, `1.5`, `2e3`.

use thiserror::Error;

/// A text that is no quantity, or not one that a node could have.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("found {found:?}, expected a quantity such as 4, 500m or 16Gi")]
pub struct QuantityError {
    found: String,
}

/// In billionths, the smallest unit that Kubernetes knows.
const NANO: u128 = 1_000_000_000;

/// CPU in millicores, rounded down.
pub fn cpu_millis(text: &str) -> Result<u64, QuantityError> {
    within(text, |nanos| Some(nanos / 1_000_000))
}

/// CPU in millicores, rounded up: what a pod asks for.
pub fn cpu_millis_up(text: &str) -> Result<u64, QuantityError> {
    within(text, |nanos| Some(nanos.div_ceil(1_000_000)))
}

/// Bytes, rounded up.
pub fn bytes(text: &str) -> Result<u64, QuantityError> {
    within(text, |nanos| Some(nanos.div_ceil(NANO)))
}

fn within(text: &str, unit: impl Fn(u128) -> Option<u128>) -> Result<u64, QuantityError> {
    let value = nanos(text).and_then(unit);
    let value = value.and_then(|value| u64::try_from(value).ok());
    value.ok_or_else(|| QuantityError {
        found: text.chars().take(64).collect(),
    })
}

fn nanos(text: &str) -> Option<u128> {
    let is_number = |letter: char| letter.is_ascii_digit() || letter == '.';
    let end = text.find(|letter| !is_number(letter));
    let (number, suffix) = text.split_at(end.unwrap_or(text.len()));
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let digits = format!("{whole}{part}");
    // 10^18 * 2^60 * 10^9 is below 2^128.
    if digits.is_empty() || digits.len() > 18 || part.contains('.') {
        return None;
    }
    let value: u128 = digits.parse().ok()?;
    let scaled = value.checked_mul(multiplier(suffix)?)?;
    Some(scaled.div_ceil(10_u128.checked_pow(u32::try_from(part.len()).ok()?)?))
}

/// What a suffix stands for, in billionths.
fn multiplier(suffix: &str) -> Option<u128> {
    let binary = |power: u32| NANO.checked_mul(1 << (10 * power));
    match suffix {
        "n" => Some(1),
        "u" => Some(1_000),
        "m" => Some(1_000_000),
        "" => Some(NANO),
        "k" => Some(NANO * 1_000),
        "M" => Some(NANO * 1_000_000),
        "G" => Some(NANO * 1_000_000_000),
        "T" => Some(NANO * 1_000_000_000_000),
        "P" => Some(NANO * 1_000_000_000_000_000),
        "E" => Some(NANO * 1_000_000_000_000_000_000),
        "Ki" => binary(1),
        "Mi" => binary(2),
        "Gi" => binary(3),
        "Ti" => binary(4),
        "Pi" => binary(5),
        "Ei" => binary(6),
        exponent => {
            let power: u32 = exponent.strip_prefix(['e', 'E'])?.parse().ok()?;
            NANO.checked_mul(10_u128.checked_pow(power)?)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_read_as_in_kubernetes() {
        let millis = ["4", "500m", "3.92", "0.1", "1e1", "2500000u", "1k"].map(cpu_millis);
        let expected = [4_000, 500, 3_920, 100, 10_000, 2_500, 1_000_000];
        assert_eq!(millis, expected.map(Ok));
        let sizes = ["16Gi", "1.5Mi", "128974848", "129M", "1E", "8Ei", "100m"].map(bytes);
        let expected = [
            16 << 30,
            1_572_864,
            128_974_848,
            129_000_000,
            1_000_000_000_000_000_000,
            8 << 60,
            1,
        ];
        assert_eq!(sizes, expected.map(Ok));
        assert_eq!((cpu_millis("100u"), cpu_millis_up("100u")), (Ok(0), Ok(1)));
    }

    #[test]
    fn what_is_no_quantity_is_refused() {
        for text in [
            "", "m", "-1", "1.2.3", "1 Gi", "4x", "1e99", "1e-3", "99Ei", "1e", ".", "Gi",
            "1234567890123456789",
        ] {
            assert!(bytes(text).is_err(), "{text}");
        }
        let error = bytes("lots").unwrap_err();
        assert!(error.to_string().contains("\"lots\""), "{error}");
    }
}
