//! Traces by the W3C's headers: each request gets a span of the gateway, in its client's trace or in
//! a new one (Trace Context, level 1).

use hyper::header::{HeaderMap, HeaderName, HeaderValue};

const PARENT: HeaderName = HeaderName::from_static("traceparent");
const STATE: HeaderName = HeaderName::from_static("tracestate");
const DIGITS: [&str; 16] = [
    "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "a", "b", "c", "d", "e", "f",
];

/// Puts the gateway's span in the place of the client's, and returns the trace's identifier.
pub(super) fn next(headers: &mut HeaderMap) -> String {
    let mut parents = headers.get_all(PARENT).iter();
    let parent = parents.next().filter(|_| parents.next().is_none());
    let parent = parent.and_then(|value| parse(value.to_str().ok()?));
    let (trace, flags) = parent.unwrap_or_else(|| {
        // The state belongs to the trace that could not be read.
        headers.remove(STATE);
        let trace = hex(&(rand::random::<u128>() | 1).to_le_bytes());
        (trace, "00".to_owned())
    });
    let span = hex(&(rand::random::<u64>() | 1).to_le_bytes());
    let value = ["00", &trace, &span, &flags].join("-");
    if let Ok(value) = HeaderValue::try_from(value) {
        headers.insert(PARENT, value);
    }
    trace
}

/// Hexadecimal digits, without [`std::fmt`]: at a low rate a request's time is that of code which the
/// caches do not hold.
fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for digit in bytes.iter().flat_map(|byte| [byte >> 4, byte & 0xf]) {
        text.push_str(DIGITS.get(usize::from(digit)).unwrap_or(&""));
    }
    text
}

/// Reads the trace's identifier and flags. Later versions have more fields behind these.
fn parse(value: &str) -> Option<(String, String)> {
    let mut fields = value.trim().split('-');
    let (version, trace, span, flags) = (
        fields.next()?,
        fields.next()?,
        fields.next()?,
        fields.next()?,
    );
    let is_hex = |text: &str, length| {
        text.len() == length
            && text
                .bytes()
                .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    let zero = |text: &str| text.bytes().all(|byte| byte == b'0');
    let valid = is_hex(version, 2) && is_hex(trace, 32) && is_hex(span, 16) && is_hex(flags, 2);
    let more = fields.next().is_some();
    if !valid || version == "ff" || (version == "00" && more) || zero(trace) || zero(span) {
        return None;
    }
    Some((trace.to_owned(), flags.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

    fn after(values: &[&str]) -> (String, HeaderMap) {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(PARENT, value.parse().unwrap());
        }
        headers.insert(STATE, HeaderValue::from_static("a=1"));
        (next(&mut headers), headers)
    }

    #[test]
    fn a_request_stays_in_its_trace_with_a_span_of_the_gateway() {
        for version in ["00", "01"] {
            let value = format!("{version}-{TRACE}-00f067aa0ba902b7-01");
            let (trace, headers) = after(&[&value]);
            let parent = headers[PARENT].to_str().unwrap();
            assert_eq!(trace, TRACE);
            assert!(
                parent.starts_with(&format!("00-{TRACE}-")) && parent.ends_with("-01"),
                "{parent}"
            );
            assert!(!parent.contains("00f067aa0ba902b7") && headers.contains_key(STATE));
        }
    }

    #[test]
    fn what_is_no_trace_begins_a_new_one_without_the_state() {
        let zero = format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32));
        let good = format!("00-{TRACE}-00f067aa0ba902b7-01");
        let longer = format!("{good}-x");
        for values in [
            &[][..],
            &["x"],
            &[&zero],
            &[&good, &good],
            &[&longer],
            &["ff-1-2-3"],
        ] {
            let (trace, headers) = after(values);
            assert_ne!(trace, TRACE);
            assert_eq!(parse(headers[PARENT].to_str().unwrap()).unwrap().0, trace);
            assert!(!headers.contains_key(STATE), "{values:?}");
        }
    }
}
