//! Admission of a request by the memory of its head.

use std::sync::Arc;
use std::time::Duration;

use hyper::{Request, StatusCode};
use tetris_service_kit::budget::Exceeded;

use super::ledger::{Held, Ledger};
use crate::problem::Problem;

/// Memory of a name with its first value in a map of headers: a bucket, and its part of the index.
const NAME: usize = 112;
/// Memory of each further value of a name, in a list that grows by doubling.
const FURTHER: usize = 2 * 72;
/// Memory of a value or its own name, besides its bytes.
const TEXT: usize = 32;
/// Memory of the other parts of a head.
const REST: usize = 512;

/// Charges the head of a request to its client, until the result is dropped.
///
/// # Errors
///
/// A problem if there are more than `fields` header fields, or the client has no memory left.
pub(super) fn admit<B>(
    ledger: &Arc<Ledger>,
    request: &Request<B>,
    fields: usize,
) -> Result<Held, Problem> {
    let field_count = request.headers().len();
    if field_count > fields {
        return Err(too_many_fields(field_count, fields));
    }
    ledger.hold(memory_of(request)).map_err(too_much_memory)
}

/// The problem of a head with more header fields than it may have.
pub(crate) fn too_many_fields(found: usize, most: usize) -> Problem {
    let problem =
        format!("the head has {found} header fields, expected {most} at most (limits.headers)");
    let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
    Problem::new(status, "head-fields", problem)
}

/// The problem of a head for which its client has no memory left.
pub(crate) fn too_much_memory(exceeded: Exceeded) -> Problem {
    let problem = format!(
        "the gateway holds too many heads of requests: {exceeded}; try again, or raise limits.heads"
    );
    Problem::unavailable("heads", problem, Duration::from_secs(1))
}

/// Number of bytes that a head takes in memory.
fn memory_of<B>(request: &Request<B>) -> usize {
    let headers = request.headers();
    let further = headers.len().saturating_sub(headers.keys_len());
    let texts = headers.iter().fold(0_usize, |sum, (name, value)| {
        let length = name.as_str().len().saturating_add(value.len());
        sum.saturating_add(TEXT).saturating_add(length)
    });
    let path = request
        .uri()
        .path_and_query()
        .map_or(0, |path| path.as_str().len());
    let map = headers.capacity().saturating_mul(NAME);
    [map, further.saturating_mul(FURTHER), texts, path, REST]
        .into_iter()
        .fold(0, usize::saturating_add)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hyper::header::{HeaderName, HeaderValue};
    use tetris_service_kit::budget::Budget;
    use tetris_service_kit::pace::Pace;

    use super::*;

    fn ledger(budget: &Budget<std::net::IpAddr>, client: u8) -> Arc<Ledger> {
        let pace = Pace {
            grace: Duration::from_secs(1),
            bytes_per_second: 1,
        };
        Ledger::open(budget, [10, 0, 0, client].into(), 1, pace).unwrap()
    }

    fn request(names: usize, values: usize) -> Request<()> {
        let mut request = Request::new(());
        for name in 0..names {
            let name = HeaderName::try_from(format!("x-{name}")).unwrap();
            for _ in 0..values {
                let headers = request.headers_mut();
                headers.append(name.clone(), HeaderValue::from_static("1"));
            }
        }
        request
    }

    #[test]
    fn fields_count_and_not_names() {
        let ledger = ledger(&Budget::new(1 << 20), 1);
        for (names, values) in [(101, 1), (1, 101)] {
            let problem = admit(&ledger, &request(names, values), 100).unwrap_err();
            assert_eq!(
                (problem.status.as_u16(), problem.reason),
                (431, "head-fields")
            );
        }
        assert!(admit(&ledger, &request(10, 10), 100).is_ok());
    }

    #[test]
    fn one_client_cannot_hold_all_heads() {
        let budget = Budget::new(256 << 10);
        let greedy = ledger(&budget, 1);
        let mut heads = Vec::new();
        let refused = loop {
            match admit(&greedy, &request(10, 1), 100) {
                Ok(head) => heads.push(head),
                Err(problem) => break problem,
            }
        };
        assert_eq!((refused.status.as_u16(), refused.reason), (503, "heads"));
        assert!(budget.used() <= budget.total() / 2);
        assert!(admit(&ledger(&budget, 2), &request(10, 1), 100).is_ok());
    }

    /// The sizes that this module assumes of the crate `http`.
    #[test]
    fn a_head_is_charged_with_at_least_its_entries() {
        for (names, values) in [(1, 1), (10, 1), (100, 1), (1, 100), (20, 5)] {
            let request = request(names, values);
            let least = names * (40 + 32 + 24) + names * (values - 1) * 72;
            assert!(memory_of(&request) >= least, "{names} {values}");
        }
    }
}
